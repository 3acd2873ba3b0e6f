package kustomize

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Addresses as the documentation of Kustomize has them.
func TestParseBase(t *testing.T) {
	for entry, want := range map[string]string{
		"https://github.com/org/repo/base?ref=v1":                   "https://github.com/org/repo v1 base",
		"https://github.com/org/repo//base/x?ref=v1":                "https://github.com/org/repo v1 base/x",
		"https://github.com/org/repo.git/base?version=2":            "https://github.com/org/repo.git 2 base",
		"https://github.com/org/repo?version=2&ref=v1":              "https://github.com/org/repo v1 ",
		"github.com/org/repo/deploy/a?ref=main":                     "https://github.com/org/repo main deploy/a",
		"GitHub.com:org/repo":                                       "https://github.com/org/repo  ",
		"git@github.com:org/repo.git//base?ref=v1":                  "git@github.com:org/repo.git v1 base",
		"ssh://git@host.example:2222/org/repo.git//base":            "ssh://git@host.example:2222/org/repo.git  base",
		"git::https://host.example/group/sub/repo.git//base":        "https://host.example/group/sub/repo.git  base",
		"https://dev.azure.com/org/project/_git/repo/base/a?ref=v1": "https://dev.azure.com/org/project/_git/repo v1 base/a",
		"https://host.example/org/repo/install.yaml?ref=v1":         "https://host.example/org/repo v1 install.yaml",
		"https://raw.example/org/repo/main/install.yaml":            "https://raw.example/org/repo/main/install.yaml file",
		"https://raw.example/org/repo/main/install.yaml?token=x":    "",
		"ssh://git@host.example/install.yaml":                       "",
		"https://host.example/org/repo//../x":                       "",
		"https://host.example/repo":                                 "",
		"https://github.com/org/repo?ref=--upload-pack=x":           "",
		"file:///etc//x":  "",
		"../base":         "",
		"base?ref=main":   "",
		"s3://bucket/a/b": "",
	} {
		got := ""
		if base, ok := parseBase(entry); ok {
			got = base.RepoURL + " " + base.Revision + " " + base.folder
			if base.File {
				got = base.RepoURL + " file"
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
}

// A base of another repository reads nothing of the Application's, nor the other
// way round, by whatever path.
func TestBaseStaysInItsRepository(t *testing.T) {
	base := job.Dependency{RepoURL: "https://git.example/org/base", Revision: "v1"}
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for _, tt := range []struct{ name, base, app, want string }{
		{"proper", "resources: [../one]\n", "", ""},
		{"leaves", "resources: [../../private]\n", "", "leaves the repository"},
		{"deeper", "resources: [../../../private]\n", "", "leaves the repository"},
		{"patch", "resources: [../one]\npatches: [{path: ../../private/a.yaml}]\n", "", "leaves the repository"},
		{"into the other", "resources: [../one]\n", "resources: [../.slipway-repository-0/one, \"https://git.example/org/base//one?ref=v1\"]\n", "leaves the repository"},
	} {
		app := "resources: [\"https://git.example/org/base//base?ref=v1\"]\n"
		if tt.app != "" {
			app = tt.app
		}
		files := tree.NewMemory(map[string]string{"app/kustomization.yaml": app, "private/kustomization.yaml": "resources: [a.yaml]\n", "private/a.yaml": object})
		other := tree.NewMemory(map[string]string{"base/kustomization.yaml": tt.base, "one/kustomization.yaml": "resources: [a.yaml]\n", "one/a.yaml": object})
		set := manifest.NewSet(1 << 20)
		view := func(store tree.Store) job.Files { return tree.NewView(store, tree.DefaultLimits()) }
		err := Render(Request{Job: &job.Job{}, Source: &job.Source{Path: "app"}, Files: view(files)}, set)
		if incomplete, ok := errors.AsType[*job.Incomplete](err); tt.app == "" && (!ok || len(incomplete.Missing) != 1 || incomplete.Missing[0].Dependency != base) {
			t.Errorf("%s: %v", tt.name, err)
		}
		err = Render(Request{Job: &job.Job{}, Source: &job.Source{Path: "app"}, Files: view(files), Dependencies: map[job.Dependency]job.Files{base: view(other)}}, set)
		if tt.want == "" && (err != nil || len(set.Objects()) != 1) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
