package render

import (
	"maps"
	"strings"
	"testing"
)

// The file of Git, with what Git allows in it.
func TestParseModules(t *testing.T) {
	got := parseModules("# of the team\n[submodule \"a\"]\n\tpath = libs/a\n\turl = https://git.example/a.git ; here\n\tbranch = main\r\n" +
		"[submodule \"b\"]\n  URL=\"../b c.git\"\n  Path = ./libs/b/\n[core]\n\tx = 1\n[submodule \"none\"]\npath = none\n")
	want := map[string]string{"libs/a": "https://git.example/a.git", "libs/b": "../b c.git", "none": "", ".": ""}
	if !maps.Equal(got, want) {
		t.Errorf("read %v", got)
	}
}

// Addresses of submodules from that of their repository, as Git has them.
func TestRelativeTo(t *testing.T) {
	for _, tt := range [][3]string{
		{"https://git.example/team/app.git", "../lib.git", "https://git.example/team/lib.git"},
		{"https://git.example/team/app/", "../../other/lib", "https://git.example/other/lib"},
		{"https://git.example/team/app", "./lib", "https://git.example/team/app/lib"},
		{"https://git.example/team/app", "./../lib", "https://git.example/team/lib"},
		{"git@git.example:team/app.git", "../lib.git", "git@git.example:team/lib.git"},
		{"git@git.example:app.git", "../lib.git", "git@git.example:lib.git"},
		{"https://git.example/team/app", "https://elsewhere.example/lib", "https://elsewhere.example/lib"},
		{"https://git.example/team/app", "git@elsewhere.example:lib", "git@elsewhere.example:lib"},
		{"app", "../../lib", "app/../../lib"},
	} {
		if got := relativeTo(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s from %s: %s, want %s", tt[1], tt[0], got, tt[2])
		}
	}
}

// Files of Git's configuration are read to the end, whatever they have.
func FuzzConfig(f *testing.F) {
	f.Add("[submodule \"a\"]\n\tpath = libs/a\n\turl = ../a.git\n[lfs]\n\turl = https://lfs.example\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, address := range parseModules(text) {
			relativeTo("https://git.example/team/app", address)
		}
		if server := lfsServer(text); strings.ContainsAny(server, "\n#;") {
			t.Errorf("the server is %q", server)
		}
	})
}
