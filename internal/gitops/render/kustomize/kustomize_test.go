package kustomize

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/types"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// Images as the documents of Kustomize and Argo CD spell them.
func TestParseImage(t *testing.T) {
	for text, want := range map[string]types.Image{
		"nginx:1.2":                         {Name: "nginx", NewTag: "1.2"},
		"nginx@sha256:aa":                   {Name: "nginx", Digest: "sha256:aa"},
		"nginx=mirror.example/nginx":        {Name: "nginx", NewName: "mirror.example/nginx"},
		"nginx=mirror.example:5000/nginx":   {Name: "nginx", NewName: "mirror.example:5000/nginx"},
		"nginx=mirror.example:5000/nginx:2": {Name: "nginx", NewName: "mirror.example:5000/nginx", NewTag: "2"},
		"nginx=*:2":                         {Name: "nginx", NewTag: "2"},
		"registry:5000/a/b:1@sha256:aa":     {Name: "registry:5000/a/b", NewTag: "1", Digest: "sha256:aa"},
	} {
		if got := parseImage(text); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// An image of the Application changes one of the kustomization, and keeps what
// it does not name.
func TestSetImages(t *testing.T) {
	edited := types.Kustomization{Images: []types.Image{{Name: "b", NewName: "c", NewTag: "1"}, {Name: "d", NewTag: "1"}}}
	setImages(&edited, []string{"b:2", "d=e", "a:3"})
	want := []types.Image{{Name: "a", NewTag: "3"}, {Name: "b", NewName: "c", NewTag: "2"}, {Name: "d", NewName: "e", NewTag: "1"}}
	for i := range want {
		if len(edited.Images) != len(want) || edited.Images[i] != want[i] {
			t.Fatalf("%+v, want %+v", edited.Images, want)
		}
	}
}

// What is an address and what is a path.
func TestLooksRemote(t *testing.T) {
	for entry, want := range map[string]bool{
		"base": false, "../base": false, "./a@b/c": false, "a:b": false, "github.company/x": false, ".github/a.yaml": false, "http/a": false,
		"https://a": true, "HTTP://a": true, "git::https://a": true, "git@host:a": true, "user@host": true, "github.com/a/b": true,
		"GITHUB.COM:a/b": true, "a?ref=b": true, "ssh://a": true, "file:///a": true, "a//b?x": true, "repo.git": true, "x/_git/y": true, " https://a": true,
	} {
		if got := looksRemote(entry); got != want {
			t.Errorf("%q: %v, want %v", entry, got, want)
		}
	}
}

// A schema of one kustomization is not seen by the next one.
func TestOpenAPIIsReset(t *testing.T) {
	schema := `{"definitions": {"v1.Thing": {"properties": {"list": {"type": "array", "items": {"type": "object"},
		"x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}},
		"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Thing"}]}}}`
	files := map[string]string{
		"with/kustomization.yaml":    "openapi: {path: schema.json}\nresources: [thing.yaml]\npatches: [{path: patch.yaml}]\n",
		"with/schema.json":           schema,
		"without/kustomization.yaml": "resources: [thing.yaml]\npatches: [{path: patch.yaml}]\n",
	}
	for _, folder := range []string{"with/", "without/"} {
		files[folder+"thing.yaml"] = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nlist: [{name: one, x: 1}]\n"
		files[folder+"patch.yaml"] = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nlist: [{name: two}]\n"
	}
	build := func(folder string) string {
		set := manifest.NewSet(1 << 20)
		must.Do(t, Render(Request{Job: &job.Job{}, Source: &job.Source{Path: folder}, Files: tree.NewView(tree.NewMemory(files), tree.DefaultLimits())}, set))
		return string(set.Objects()[0])
	}
	before := build("without")
	if with := build("with"); with == before {
		t.Fatalf("the schema does nothing: %s", with)
	}
	if after := build("without"); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

// fetches is Kustomize's own rule for what it fetches, written again.
func fetches(entry string) bool {
	lower := strings.ToLower(entry)
	lower = strings.TrimPrefix(lower, "git::")
	for _, prefix := range []string{"ssh://", "https://", "http://", "file://", "github.com/", "github.com:"} {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	if regexp.MustCompile(`^[a-z][a-z0-9-]*@`).MatchString(lower) {
		return true
	}
	parsed, err := url.Parse(entry)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https")
}

// No kustomization that passes the scan names something that Kustomize would
// fetch, in whatever field.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		"resources: [a.yaml, base]\n", "resources: ['https://a/b?ref=--upload-pack=x']\n", "bases: [git@a:b]\n", "helmCharts: [{name: a}]\n",
		"generators: ['https://a']\n", "transformers:\n- |-\n  apiVersion: builtin\n  kind: A\n  path: https://a\n", "openapi: {path: 'http://a'}\n",
		"configMapGenerator: [{name: a, files: ['a=https://b'], envs: [b], env: c}]\n", "patches: [{path: ../../a}]\n", "resources: [\"http:\\nx\"]\n",
		"patchesStrategicMerge: ['file://a']\n", "replacements: [{path: 'ssh://a'}]\n", "crds: [/a]\ncomponents: ['github.com/a/b']\n",
		"resources: ['https://a/b/c?ref=v1', 'git::http://a/b.git//?version=2', 'ssh://git@a/b/c', a.yaml]\n", "bases: ['a@b:c/d//']\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		store := tree.NewMemory(map[string]string{"app/kustomization.yaml": string(input), "app/a.yaml": "a: 1", "app/base/kustomization.yaml": "namePrefix: a"})
		// What the first scan lacks, the second one has.
		dependencies := map[job.Dependency]job.Files{}
		var disk *fileSystem
		for range 2 {
			disk = newFileSystem(tree.NewView(store, tree.DefaultLimits()), dependencies)
			scan := &scanner{disk: disk, seen: map[string]bool{}, job: &job.Job{OutputBytes: 1 << 20}, into: manifest.NewSet(1 << 20)}
			if err := scan.folder("app"); err != nil {
				return
			}
			for _, missing := range scan.missing {
				dependencies[missing.Dependency] = tree.NewView(tree.NewMemory(map[string]string{"kustomization.yaml": "namePrefix: b"}), tree.DefaultLimits())
			}
		}
		var parsed types.Kustomization
		must.Do(t, unmarshal(&parsed, must.Get(disk.ReadFile("app/kustomization.yaml"))(t)))
		fields := append(plainFields(&parsed), field{"", parsed.Resources}, field{"", parsed.Components},
			field{"", parsed.Generators}, field{"", parsed.Transformers}, field{"", parsed.Validators})
		for _, field := range fields {
			for _, entry := range field.entries {
				if fetches(entry) {
					t.Errorf("%s: %q passes", field.name, entry)
				}
			}
		}
		if len(parsed.HelmCharts) > 0 {
			t.Error("charts pass")
		}
	})
}

// Nothing is written.
func TestReadOnly(t *testing.T) {
	disk := newFileSystem(tree.NewView(tree.NewMemory(map[string]string{"a/b": "1"}), tree.DefaultLimits()), nil)
	_, createErr := disk.Create("a")
	for _, err := range []error{createErr, disk.Mkdir("a"), disk.MkdirAll("a"), disk.RemoveAll("a"), disk.WriteFile("a", nil), disk.Walk("a", nil)} {
		if !errors.Is(err, errReadOnly) {
			t.Errorf("%v", err)
		}
	}
	if found, err := disk.Glob("/a/?"); err != nil || len(found) != 1 || found[0] != "/a/b" {
		t.Errorf("%q, %v", found, err)
	}
	if !disk.Exists("/a/b") || disk.Exists("/a/c") || !disk.IsDir("/") {
		t.Error("it does not know what there is")
	}
}
