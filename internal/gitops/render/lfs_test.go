package render_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// lfs keeps files as Git LFS does, and what was requested of it.
type lfs struct {
	contents map[string]string
	requests []render.Dependency
}

// pointer is the file in the place of a content.
func (l *lfs) pointer(content string) string {
	oid := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	l.contents[oid] = content
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(content))
}

// resolve is the Resolve of a request.
func (l *lfs) resolve(_ context.Context, wanted render.Dependency) (tree.Store, error) {
	l.requests = append(l.requests, wanted)
	content, found := l.contents[wanted.OID]
	if !found || wanted.Size != int64(len(content)) {
		return nil, fmt.Errorf("the dependency %+v is not known", wanted)
	}
	return tree.NewMemory(map[string]string{job.FileName: content}), nil
}

// Files that Git LFS keeps are rendered as if they were in the repository. All of
// a folder or a chart are requested together, and those that are not needed never.
func TestLFS(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\n"
	object := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" }
	chart := map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\n"}
	for name, tt := range map[string]struct {
		files map[string]string
		// kept are the files that Git LFS keeps.
		kept []string
		// unused are those of them that are not requested, and rounds how often a
		// worker began.
		unused []string
		rounds int
	}{
		"folder": {files: map[string]string{"a.yaml": object("a"), "b.yaml": object("b"), "c.yaml": object("c")}, kept: []string{"a.yaml", "c.yaml"}, rounds: 2},
		"jsonnet": {files: map[string]string{"a.jsonnet": "import 'b.libsonnet'", "b.libsonnet": "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'b'}}"},
			kept: []string{"b.libsonnet"}, rounds: 2},
		"kustomization": {files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator: [{name: g, files: [logo.png]}]\n", "a.yaml": object("a"), "logo.png": "picture"},
			kept: []string{"a.yaml", "logo.png"}, rounds: 3},
		"chart": {files: map[string]string{"templates/a.yaml": object("{{ .Values.name }}"), "templates/b.yaml": object("b"), "values.yaml": "name: a\n", "crds/a.yaml": crd, "logo.png": "picture"},
			kept: []string{"templates/a.yaml", "values.yaml", "crds/a.yaml", "logo.png"}, unused: []string{"logo.png"}, rounds: 2},
		"files of a chart": {files: map[string]string{"templates/a.yaml": object("a") + "data: {logo: {{ .Files.Get `logo.png` }}}\n", "logo.png": "picture"},
			kept: []string{"logo.png"}, rounds: 2},
	} {
		t.Run(name, func(t *testing.T) {
			server, rounds := &lfs{contents: map[string]string{}}, 0
			renderer := newRenderer(t, render.Options{Workers: 1})
			plain := maps.Clone(tt.files)
			if _, isChart := plain["templates/a.yaml"]; isChart {
				maps.Copy(plain, chart)
			}
			stored := maps.Clone(plain)
			var want []string
			for _, file := range tt.kept {
				stored[file] = server.pointer(plain[file])
				if !slices.Contains(tt.unused, file) {
					want = append(want, file)
				}
			}
			request := func(files map[string]string) render.Request {
				input := render.Input{Source: v1alpha1.ApplicationSource{RepoURL: "https://git.example/a.git", Path: "."}, Store: &countingStore{tree.NewMemory(files), &rounds}}
				return render.Request{App: "a", Namespace: "default", Inputs: []render.Input{input}, Resolve: server.resolve}
			}
			expected := describe(t, must.Get(renderer.Render(t.Context(), request(plain)))(t), nil)
			rounds = 0
			result, err := renderer.Render(t.Context(), request(stored))
			if got := describe(t, result, err); got != expected {
				t.Errorf("rendered\n%s\nwithout Git LFS it is\n%s", got, expected)
			}
			if len(server.requests) != len(want) || rounds != tt.rounds {
				t.Errorf("requested %+v in %d rounds, want %q in %d", server.requests, rounds, want, tt.rounds)
			}
		})
	}
}

// countingStore counts how often its root is listed or its kind is read first: a
// render begins with that.
type countingStore struct {
	tree.Store
	rounds *int
}

// Entry counts the root, whose hash a View reads once.
func (s *countingStore) Entry(path string) (tree.Entry, error) {
	if path == "" {
		*s.rounds++
	}
	return s.Store.Entry(path)
}

// The server of .lfsconfig is a part of what is requested. Pointers without an
// object, and those of charts of a Helm repository, are refused.
func TestLFSServer(t *testing.T) {
	server := &lfs{contents: map[string]string{}}
	renderer := newRenderer(t, render.Options{Workers: 1})
	pointer := server.pointer("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	for name, tt := range map[string]struct{ config, want string }{
		"none":        {"", ""},
		"url":         {"[lfs]\n\turl = https://lfs.example/team # comment\n", "https://lfs.example/team"},
		"quoted":      {"[LFS]\n\tURL = \"https://lfs.example/team\"\n", "https://lfs.example/team"},
		"remote":      {"[remote \"origin\"]\n\tlfsurl = https://lfs.example/remote\n", "https://lfs.example/remote"},
		"both":        {"[remote \"origin\"]\n\tlfsurl = https://lfs.example/remote\n[lfs]\nurl = https://lfs.example/team\n", "https://lfs.example/team"},
		"other names": {"[lfs \"x\"]\nurl = https://lfs.example/x\n[http]\nurl = https://lfs.example/y\n", ""},
	} {
		server.requests = nil
		files := map[string]string{"a.yaml": pointer}
		if tt.config != "" {
			files[".lfsconfig"] = tt.config
		}
		request := requestFor(tree.NewMemory(files))
		request.Resolve = server.resolve
		must.Get(renderer.Render(t.Context(), request))(t)
		if len(server.requests) != 1 || server.requests[0].Server != tt.want || server.requests[0].RepoURL != request.Inputs[0].Source.RepoURL {
			t.Errorf("%s: requested %+v, want the server %q", name, server.requests, tt.want)
		}
	}
	server.requests = nil
	extended := requestFor(tree.NewMemory(map[string]string{"a.yaml": strings.Replace(pointer, "\noid", "\next-0-a sha256:1\noid", 1)}))
	published := requestFor(tree.NewMemory(map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\n", "templates/a.yaml": pointer}))
	published.Inputs[0].Chart = true
	for _, request := range []render.Request{extended, published} {
		request.Resolve = server.resolve
		if _, err := renderer.Render(t.Context(), request); err == nil || !strings.Contains(err.Error(), "its content is not fetched") || len(server.requests) > 0 {
			t.Errorf("%v, requested %+v", err, server.requests)
		}
	}
}
