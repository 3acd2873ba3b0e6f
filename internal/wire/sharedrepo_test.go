package wire_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/wire"
)

// R57: <repo>.git[/<path>][?ref=<branch>], .git recommended, path and ref optional
// and combinable.
func TestParseSharedRepository(t *testing.T) {
	for text, want := range map[string]wire.SharedRepository{
		"https://github.com/acme/config.git":                      {RepoURL: "https://github.com/acme/config.git"},
		"https://github.com/acme/config":                          {RepoURL: "https://github.com/acme/config"},
		"https://github.com/acme/config/":                         {RepoURL: "https://github.com/acme/config"},
		"https://github.com/acme/config.git/":                     {RepoURL: "https://github.com/acme/config.git"},
		"https://github.com/acme/config.git/teams/blue":           {RepoURL: "https://github.com/acme/config.git", Path: "teams/blue"},
		"https://github.com/acme/config.git?ref=main":             {RepoURL: "https://github.com/acme/config.git", Branch: "main"},
		"https://github.com/acme/config?ref=main":                 {RepoURL: "https://github.com/acme/config", Branch: "main"},
		"https://github.com/acme/config.git/blue?ref=release/1.2": {RepoURL: "https://github.com/acme/config.git", Path: "blue", Branch: "release/1.2"},
		"https://github.com/acme/config.git/blue?ref=a%25b":       {RepoURL: "https://github.com/acme/config.git", Path: "blue", Branch: "a%b"},
		"http://git.example.com:8080/scm/acme/config.git":         {RepoURL: "http://git.example.com:8080/scm/acme/config.git"},
		"ssh://git@git.example.com:7999/acme/config.git/x":        {RepoURL: "ssh://git@git.example.com:7999/acme/config.git", Path: "x"},
		"git@github.com:acme/config.git/x?ref=main":               {RepoURL: "git@github.com:acme/config.git", Path: "x", Branch: "main"},
	} {
		got, err := wire.ParseSharedRepository(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		again, err := wire.ParseSharedRepository(got.String())
		if err != nil || again != got {
			t.Errorf("%s: read again from %s: %+v, %v", text, got, again, err)
		}
	}
}

func TestParseSharedRepositoryRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                          "has no URL",
		"config":                                    "not the URL",
		"/srv/config.git":                           "not the URL",
		"file:///srv/config.git":                    "not the URL",
		"ext::sh -c x":                              "has a blank",
		"ftp://host/config.git":                     "https, http or ssh",
		"https://host":                              "no repository",
		"https://host/.git":                         "no repository",
		"https://canary:secret@host/x.git":          "credentials",
		"https://canary@host/x.git":                 "credentials",
		"ssh://git:canary@host/x.git":               "credentials",
		"ssh://-oProxyCommand=x/x.git":              "not the URL",
		"-oProxyCommand=x@host:x.git":               "not the URL",
		"git@host:-x.git":                           "not the URL",
		"https://host/x.git?ref=":                   "not a name",
		"https://host/x.git?ref=-x":                 "not a name",
		"https://host/x.git?ref=a..b":               "not a name",
		"https://host/x.git?ref=a&token=canary":     "only ref",
		"https://host/x.git?branch=a":               "only ref",
		"https://host/x.git?ref=%zz":                "broken %",
		"https://host/x.git/../y":                   "plain path",
		"https://host/x.git//y":                     "plain path",
		"https://host/x.git/.git/hooks":             "plain path",
		"https://host/a/../x.git":                   ". or ..",
		"https://host/x.git#frag":                   "a #",
		"https://host/" + strings.Repeat("x", 2100): "at most",
	} {
		got, err := wire.ParseSharedRepository(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want %q", text, got, err, want)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: the error shows it: %v", text, err)
		}
	}
}

// FuzzParseSharedRepository looks for texts that are read in two ways.
func FuzzParseSharedRepository(f *testing.F) {
	f.Add("https://github.com/acme/config.git/teams/blue?ref=main")
	f.Add("git@github.com:acme/config.git")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := wire.ParseSharedRepository(text)
		if err != nil {
			return
		}
		again, err := wire.ParseSharedRepository(got.String())
		if err != nil || again != got {
			t.Fatalf("%q: %+v is read again from %q as %+v, %v", text, got, got.String(), again, err)
		}
		for part := range strings.SplitSeq(got.Path, "/") {
			if part == ".." {
				t.Fatalf("%q leaves the repository", text)
			}
		}
	})
}
