package sharedrepo_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/must"
)

// TestParse: the grammar of the address. (R57)
func TestParse(t *testing.T) {
	for text, want := range map[string]sharedrepo.Location{
		"https://github.com/team/config.git":                     {RepoURL: "https://github.com/team/config.git"},
		"https://github.com/team/config.git/a/b":                 {RepoURL: "https://github.com/team/config.git", Path: "a/b"},
		"https://github.com/team/config.git?ref=live":            {RepoURL: "https://github.com/team/config.git", Branch: "live"},
		"ssh://git@example.com:2222/team/config.git/a?ref=x/y":   {RepoURL: "ssh://git@example.com:2222/team/config.git", Path: "a", Branch: "x/y"},
		"git@example.com:team/config.git/shared/all?ref=release": {RepoURL: "git@example.com:team/config.git", Path: "shared/all", Branch: "release"},
	} {
		if got, err := sharedrepo.Parse(text); err != nil || got != want {
			t.Errorf("%s is %+v, not %+v: %v", text, got, want, err)
		}
	}
}

// TestSeed: an empty repository gets the layout, with one file for each item and
// a page that explains it (R60). Seeding again changes nothing, and a second
// runtime touches no file of the first.
func TestSeed(t *testing.T) {
	origin := empty(t, gittest.Serve(t))
	repository := open(t, origin.URL()+"/shared", remote.Access{})
	first := must.Get(repository.Seed(t.Context(), "demo", "slipway"))(t)
	files := origin.Git(t, "ls-tree", "-r", "--name-only", "main")
	want := `shared/README.md
shared/resources/all-runtimes-all-clusters/.gitkeep
shared/resources/app-projects/.gitkeep
shared/resources/configurations/.gitkeep
shared/resources/control-planes/.gitkeep
shared/resources/runtimes/.gitkeep
shared/runtimes/demo/in-cluster.yaml`
	if files != want {
		t.Errorf("the files are\n%s\nand not\n%s", files, want)
	}
	if again, err := repository.Seed(t.Context(), "demo", "slipway"); err != nil || again != first {
		t.Errorf("seeding again makes %s after %s: %v", again, first, err)
	}
	second := must.Get(repository.Seed(t.Context(), "other", "slipway"))(t)
	if got := origin.Git(t, "diff", "--name-only", first, second); got != "shared/runtimes/other/in-cluster.yaml" {
		t.Errorf("the second runtime changes %s", got)
	}
	if text := origin.Git(t, "show", "main:shared/README.md"); !strings.Contains(text, "resources/control-planes/") {
		t.Errorf("the page says %s", text)
	}
	if _, err := repository.Seed(t.Context(), "control-planes", "slipway"); err == nil {
		t.Error("a runtime takes a folder of all runtimes")
	}
}

// TestRestore: a runtime that is installed again, in another namespace and with
// the repository at another place, finds all it had: Git Sources, and what people
// added to its own Application, which now points here. (R115, R117)
func TestRestore(t *testing.T) {
	server := gittest.Serve(t)
	origin := empty(t, server)
	repository := open(t, origin.URL(), remote.Access{})
	must.Get(repository.Seed(t.Context(), "demo", "before"))(t)
	change(t, repository, func(files sharedrepo.Files) error {
		if err := files.Write(sharedrepo.GitSourceFile("demo", "apps"), []byte("apps: 1\n")); err != nil {
			return err
		}
		return sharedrepo.EditManifest(files, "runtimes/demo/in-cluster.yaml", func(object map[string]any) error {
			object["metadata"].(map[string]any)["annotations"] = map[string]any{"team": "ours"}
			return nil
		})
	})
	moved := server.Repository(t, "moved", map[string]string{"x": "x"})
	moved.Git(t, "fetch", "--quiet", origin.Dir(), "+main:main")
	must.Get(open(t, moved.URL()+"?ref=main", remote.Access{}).Seed(t.Context(), "demo", "after"))(t)
	text := moved.Git(t, "show", "main:runtimes/demo/in-cluster.yaml")
	for _, part := range []string{"repoURL: " + moved.URL(), "targetRevision: main", "namespace: after", "team: ours"} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q in\n%s", part, text)
		}
	}
	if got := moved.Git(t, "show", "main:resources/demo/apps.yaml"); got != "apps: 1" {
		t.Errorf("the Git Source is %q", got)
	}
}

// TestManifests: Applications of ours never delete what they made, and go on when
// everything is gone from Git.
func TestManifests(t *testing.T) {
	location := must.Get(sharedrepo.Parse("https://example.com/config.git/shared?ref=live"))(t)
	text := must.Get(sharedrepo.Parent(location, "demo", "slipway").YAML())(t)
	want := `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  labels:
    slipway.dev/entity: internal-config
    slipway.dev/internal: "true"
    slipway.dev/runtime: demo
  name: demo-shared
  namespace: slipway
spec:
  destination:
    namespace: slipway
    server: https://kubernetes.default.svc
  project: default
  source:
    path: shared/runtimes/demo
    repoURL: https://example.com/config.git
    targetRevision: live
  syncPolicy:
    automated:
      allowEmpty: true
      prune: true
      selfHeal: true
`
	if string(text) != want {
		t.Errorf("the Application is\n%s", text)
	}
}

// TestWithoutSecrets: texts under keys of secrets are left out and named;
// references to Secrets stay.
func TestWithoutSecrets(t *testing.T) {
	kept, left := sharedrepo.WithoutSecrets(map[string]any{
		"name": "demo", "token": "x", "userToken": map[string]any{"token": "x", "secretKeyRef": map[string]any{"name": "n", "key": "token"}},
		"gitCredentials": map[string]any{"username": "u", "password": map[string]any{"value": "x", "secretKeyRef": map[string]any{"name": "n"}}},
		"list":           []any{map[string]any{"apiKey": "x", "url": "u"}}, "existingSecret": "n", "tokenTTL": 5, "empty": map[string]any{"password": ""},
	})
	if got := strings.Join(left, " "); got != "gitCredentials.password.value list[0].apiKey token userToken.token" {
		t.Errorf("left out: %s", got)
	}
	if kept["name"] != "demo" || kept["existingSecret"] != "n" || kept["tokenTTL"] != 5 {
		t.Errorf("kept: %v", kept)
	}
}
