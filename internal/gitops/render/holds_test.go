package render_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// monorepo has an application that reads more than its own folder.
func monorepo() map[string]string {
	return map[string]string{
		"apps/web/Chart.yaml":       "apiVersion: v2\nname: web\nversion: 0.1.0\n",
		"apps/web/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Values.name }}\"}\n",
		"apps/other/a.yaml":         "other",
		"shared/values.yaml":        "name: shared\n",
		"README.md":                 "read me",
	}
}

func webRequest(files map[string]string, revision string) render.Request {
	source := v1alpha1.ApplicationSource{RepoURL: "https://git.example/a.git", Path: "apps/web",
		Helm: &v1alpha1.ApplicationSourceHelm{ValueFiles: []string{"../../shared/values.yaml", "optional.yaml"}, IgnoreMissingValueFiles: true}}
	return render.Request{App: "web", Namespace: "default", KubeVersion: "v1.33.0", APIVersions: []string{"a/v1", "b/v1"},
		Inputs: []render.Input{{Source: source, Store: tree.NewMemory(files), Path: "apps/web", Revision: revision}}}
}

// A result holds for another revision exactly if what was read is the same, and
// the request too.
func TestHolds(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	result := must.Get(renderer.Render(t.Context(), webRequest(monorepo(), "one")))(t)
	for _, tt := range []struct {
		name   string
		change func(files map[string]string, request *render.Request)
		want   bool
	}{
		{"another revision", func(map[string]string, *render.Request) {}, true},
		{"another application", func(files map[string]string, _ *render.Request) { files["apps/other/a.yaml"] = "changed" }, true},
		{"a new application", func(files map[string]string, _ *render.Request) { files["apps/new/a.yaml"] = "new" }, true},
		{"a file at the root", func(files map[string]string, _ *render.Request) { files["README.md"] = "changed" }, true},
		{"its template", func(files map[string]string, _ *render.Request) { files["apps/web/templates/a.yaml"] += "x: 1\n" }, false},
		{"a new template", func(files map[string]string, _ *render.Request) { files["apps/web/templates/b.yaml"] = "" }, false},
		{"the shared values", func(files map[string]string, _ *render.Request) { files["shared/values.yaml"] = "name: new\n" }, false},
		{"the optional values", func(files map[string]string, _ *render.Request) { files["apps/web/optional.yaml"] = "name: new\n" }, false},
		{"overrides", func(files map[string]string, _ *render.Request) { files["apps/web/.argocd-source.yaml"] = "helm: {}\n" }, false},
		{"order of kinds", func(_ map[string]string, r *render.Request) { slices.Reverse(r.APIVersions) }, true},
		{"a new kind", func(_ map[string]string, r *render.Request) { r.APIVersions = append(r.APIVersions, "c/v1") }, false},
		{"the cluster", func(_ map[string]string, r *render.Request) { r.KubeVersion = "v1.34.0" }, false},
		{"the namespace", func(_ map[string]string, r *render.Request) { r.Namespace = "other" }, false},
		{"the options", func(_ map[string]string, r *render.Request) { r.Inputs[0].Source.Helm.SkipCrds = true }, false},
		{"one more source", func(_ map[string]string, r *render.Request) { r.Inputs = append(r.Inputs, r.Inputs[0]) }, false},
	} {
		files := maps.Clone(monorepo())
		request := webRequest(files, "two")
		tt.change(files, &request)
		for i := range request.Inputs {
			request.Inputs[i].Store = tree.NewMemory(files)
		}
		if got := result.Holds(request); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A result that has the name of its revision in it holds for no other.
func TestHoldsForRevision(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	request := webRequest(monorepo(), "one")
	request.Inputs[0].Source.Helm.Parameters = []v1alpha1.HelmParameter{{Name: "name", Value: "v-$ARGOCD_APP_REVISION"}}
	result, err := renderer.Render(t.Context(), request)
	if err != nil || result.Objects[0].GetName() != "v-one" {
		t.Fatal(err)
	}
	if !result.Holds(request) {
		t.Error("it does not hold for itself")
	}
	request.Inputs[0].Revision = "two"
	if result.Holds(request) {
		t.Error("it holds for another revision")
	}
}

// A new kind in the cluster renders no folder of manifests again.
func TestHoldsForCluster(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	request := small()
	result := must.Get(renderer.Render(t.Context(), request))(t)
	request.APIVersions, request.KubeVersion = []string{"new/v1"}, "v1.99.0"
	if !result.Holds(request) {
		t.Error("a folder of manifests depends on the kinds of the cluster")
	}
}

// What is wrong stays wrong until something that was read changes.
func TestErrorHolds(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	files := monorepo()
	files["apps/web/templates/a.yaml"] = "{{ fail `wrong` }}"
	_, err := renderer.Render(t.Context(), webRequest(files, "one"))
	var failure *render.Error
	if !errors.As(err, &failure) || failure.Kind != render.Failed || !strings.Contains(failure.Message, "wrong") {
		t.Fatal(err)
	}
	files["README.md"] = "changed"
	if !failure.Holds(webRequest(files, "two")) {
		t.Error("a change elsewhere could repair it")
	}
	files["shared/values.yaml"] = "name: repaired\n"
	if failure.Holds(webRequest(files, "two")) {
		t.Error("a change of values that were read could not repair it")
	}
}

// Each render is reported when it is over.
func TestObserve(t *testing.T) {
	var mu sync.Mutex
	var seen []render.Outcome
	renderer := newRenderer(t, render.Options{Observe: func(outcome render.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, outcome)
	}})
	must.Get(renderer.Render(t.Context(), small()))(t)
	if _, err := renderer.Render(t.Context(), requestFor(chartOf("{{ fail `no` }}"))); err == nil {
		t.Fatal("no error")
	}
	if len(seen) != 2 || seen[0].Objects != 1 || seen[0].Bytes == 0 || seen[0].Err != nil || seen[0].Duration <= 0 || seen[1].Err == nil || seen[0].App != "example" {
		t.Errorf("%+v", seen)
	}
}

// Objects have the types that JSON is decoded to, which others rely on.
func TestJSONTypes(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	store := tree.NewMemory(map[string]string{"a.yaml": "apiVersion: v1\nkind: A\nspec: {i: 5, f: 1.5, b: true, n: null, l: [1], m: {a: b}}\n"})
	result := must.Get(renderer.Render(t.Context(), requestFor(store)))(t)
	spec := result.Objects[0].Object["spec"].(map[string]any)
	if _, ok := spec["i"].(int64); !ok {
		t.Errorf("a whole number is a %T", spec["i"])
	}
	if _, ok := spec["f"].(float64); !ok {
		t.Errorf("a number is a %T", spec["f"])
	}
	_ = result.Objects[0].DeepCopy() // panics on other types
}
