package render_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// elsewhere are charts of a repository, by name, and what was requested of it.
type elsewhere struct {
	charts   map[string]map[string]string
	requests []string
	err      error
}

// resolve is the Resolve of a request.
func (e *elsewhere) resolve(_ context.Context, wanted render.Dependency) (tree.Store, error) {
	e.requests = append(e.requests, fmt.Sprintf("%s %s %s", wanted.RepoURL, wanted.Chart, wanted.Revision))
	if e.err != nil {
		return nil, e.err
	}
	files, found := e.charts[wanted.Chart]
	if !found {
		return nil, errors.New("no such chart")
	}
	return tree.NewMemory(files), nil
}

// published is a chart with one object of its name.
func published(name, version, more string) map[string]string {
	return map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n" + more,
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {version: {{ .Chart.Version | quote }}}\n",
	}
}

// dependsOn is the part of Chart.yaml that names dependencies.
func dependsOn(names ...string) string {
	text := "dependencies:\n"
	for _, name := range names {
		text += "- {name: " + name + ", version: 1.x, repository: \"https://charts.example\"}\n"
	}
	return text
}

// umbrella is a request for a chart with dependencies.
func umbrella(from *elsewhere, names ...string) render.Request {
	request := requestFor(tree.NewMemory(published("shop", "0.1.0", dependsOn(names...))))
	request.Resolve = from.resolve
	return request
}

func namesOf(result *render.Result) string {
	var names []string
	for _, object := range result.Objects {
		names = append(names, object.GetName())
	}
	return strings.Join(names, " ")
}

// All dependencies of a chart are resolved together, and those of dependencies
// afterwards. Only the render that has all of them is reported.
func TestDependencies(t *testing.T) {
	observed := 0
	renderer := newRenderer(t, render.Options{Workers: 1, Observe: func(render.Outcome) { observed++ }})
	from := &elsewhere{charts: map[string]map[string]string{
		"one": published("one", "1.2.0", ""), "two": published("two", "1.0.0", dependsOn("three")), "three": published("three", "1.9.0", ""),
	}}
	result := must.Get(renderer.Render(t.Context(), umbrella(from, "one", "two")))(t)
	if got := namesOf(result); got != "one three two shop" {
		t.Errorf("rendered %s", got)
	}
	if got, want := strings.Join(from.requests, ", "), "https://charts.example one 1.x, https://charts.example two 1.x, https://charts.example three 1.x"; got != want {
		t.Errorf("requested %s, want %s", got, want)
	}
	if len(result.Dependencies) != 3 || observed != 1 {
		t.Errorf("%d dependencies, %d renders are reported", len(result.Dependencies), observed)
	}
}

// A result holds while what was read of dependencies is the same, and a failed
// one too.
func TestHoldsForDependencies(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	from := &elsewhere{charts: map[string]map[string]string{"one": published("one", "1.0.0", "")}}
	result := must.Get(renderer.Render(t.Context(), umbrella(from, "one")))(t)
	next := umbrella(from, "one")
	if result.Holds(next) {
		t.Error("it holds without its dependency")
	}
	named := result.Dependencies[0]
	with := func(files map[string]string) render.Request {
		next.Dependencies = []render.DependencyFiles{{Dependency: named, Store: tree.NewMemory(files)}}
		return next
	}
	if !result.Holds(with(published("one", "1.0.0", ""))) {
		t.Error("it does not hold with the same dependency")
	}
	if result.Holds(with(published("one", "1.1.0", ""))) {
		t.Error("it holds with another version of its dependency")
	}
	broken := published("one", "1.0.0", "")
	broken["templates/b.yaml"] = "{{ fail `wrong` }}"
	_, err := renderer.Render(t.Context(), with(broken))
	failure, ok := errors.AsType[*render.Error](err)
	if !ok || !strings.Contains(failure.Message, "wrong") {
		t.Fatal(err)
	}
	if !failure.Holds(with(broken)) || failure.Holds(with(published("one", "1.0.0", ""))) {
		t.Error("the error does not depend on the dependency")
	}
	if len(from.requests) != 1 {
		t.Errorf("requested %q: a dependency of the request is not resolved", from.requests)
	}
}

// A dependency that the sources do not need any more is neither reported nor
// does the result depend on it.
func TestUnusedDependency(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	from := &elsewhere{}
	request := umbrella(from)
	request.Dependencies = []render.DependencyFiles{{Dependency: render.Dependency{RepoURL: "https://charts.example", Chart: "old"}, Store: tree.NewMemory(published("old", "1.0.0", ""))}}
	result := must.Get(renderer.Render(t.Context(), request))(t)
	request.Dependencies = nil
	if len(result.Dependencies) > 0 || !result.Holds(request) {
		t.Errorf("it depends on %v", result.Dependencies)
	}
}

// What cannot be had ends the render with what needs it; one that is being
// fetched does not keep the others from being requested.
func TestDependencyErrors(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	from := &elsewhere{err: render.ErrPending}
	if _, err := renderer.Render(t.Context(), umbrella(from, "one", "two")); !errors.Is(err, render.ErrPending) || len(from.requests) != 2 {
		t.Errorf("%v after %q", err, from.requests)
	}
	from = &elsewhere{}
	if _, err := renderer.Render(t.Context(), umbrella(from, "one", "two")); err == nil || err.Error() != "the chart shop depends on one 1.x: no such chart" || len(from.requests) != 1 {
		t.Errorf("%v after %q", err, from.requests)
	}
	request := umbrella(from, "one")
	request.Resolve = nil
	_, err := renderer.Render(t.Context(), request)
	failure, ok := errors.AsType[*render.Error](err)
	if !ok || failure.Kind != render.Refused || !strings.Contains(failure.Message, "helm dependency build") || !failure.Holds(request) {
		t.Errorf("%v", failure)
	}
	from = &elsewhere{charts: map[string]map[string]string{"one": published("other", "1.0.0", "")}}
	if _, err := renderer.Render(t.Context(), umbrella(from, "one")); err == nil || !strings.Contains(err.Error(), "there is other 1.0.0") {
		t.Errorf("another chart: %v", err)
	}
}

// What several sources need is requested together.
func TestDependenciesOfSources(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	from := &elsewhere{err: render.ErrPending}
	request, second := umbrella(from, "one"), umbrella(from, "two")
	request.Inputs = append(request.Inputs, second.Inputs...)
	if _, err := renderer.Render(t.Context(), request); !errors.Is(err, render.ErrPending) || len(from.requests) != 2 {
		t.Errorf("%v after %q", err, from.requests)
	}
}

// Charts that depend on ever more charts end, by depth and by number.
func TestDependenciesAreBounded(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	from := &elsewhere{charts: map[string]map[string]string{}}
	var names []string
	for i := range 70 {
		name := fmt.Sprintf("c%d", i)
		names = append(names, name)
		from.charts[name] = published(name, "1.0.0", "")
	}
	_, err := renderer.Render(t.Context(), umbrella(from, names...))
	if failure, ok := errors.AsType[*render.Error](err); !ok || failure.Kind != render.Refused || !strings.Contains(failure.Message, "more than 64") || len(from.requests) != 64 {
		t.Errorf("%v after %d requests", err, len(from.requests))
	}
	from.err, from.requests = render.ErrPending, nil
	if _, err := renderer.Render(t.Context(), umbrella(from, names...)); err == nil || errors.Is(err, render.ErrPending) || len(from.requests) != 64 {
		t.Errorf("%v after %d requests that are pending", err, len(from.requests))
	}
	from.err = nil
	for i := range 20 {
		from.charts[names[i]] = published(names[i], "1.0.0", dependsOn(names[i+1]))
	}
	from.requests = nil
	if _, err := renderer.Render(t.Context(), umbrella(from, names[0])); err == nil || !strings.Contains(err.Error(), "more than 8 deep") || len(from.requests) > 9 {
		t.Errorf("%v after %d requests", err, len(from.requests))
	}
}

// The lock file decides the versions, and has to belong to Chart.yaml, as Helm
// has it. That of Helm 2 has a digest of the dependencies alone.
func TestDependencyLock(t *testing.T) {
	const (
		digest  = "sha256:c0edcdbd7b077aecde316b9c83647927837ab387ebc0d115553de4f79c93f911"
		digest2 = "sha256:c6d035d3961cdc4b139d4c68bd4f83e1ca4ba162464339c6612294f4dc9ee5ab"
	)
	renderer := newRenderer(t, render.Options{Workers: 1})
	for _, tt := range []struct {
		name, digest string
		helm2, want  bool
	}{
		{"Helm 3", digest, false, true},
		{"Helm 3 in an old chart", digest, true, true},
		{"Helm 2", digest2, true, true},
		{"Helm 2 in a new chart", digest2, false, false},
		{"another Chart.yaml", "sha256:" + strings.Repeat("0", 64), false, false},
		{"another requirements.yaml", "sha256:" + strings.Repeat("0", 64), true, false},
	} {
		from := &elsewhere{charts: map[string]map[string]string{"one": published("one", "1.0.0", "")}}
		files, lock := published("shop", "0.1.0", dependsOn("one")), "Chart.lock"
		if tt.helm2 {
			files, lock = published("shop", "0.1.0", ""), "requirements.lock"
			files["Chart.yaml"] = strings.Replace(files["Chart.yaml"], "v2", "v1", 1)
			files["requirements.yaml"] = dependsOn("one")
		}
		files[lock] = "dependencies:\n- {name: one, repository: \"https://charts.example\", version: 1.0.0}\ndigest: " + tt.digest + "\ngenerated: \"2026-01-01T00:00:00Z\"\n"
		request := requestFor(tree.NewMemory(files))
		request.Resolve = from.resolve
		_, err := renderer.Render(t.Context(), request)
		if tt.want && (err != nil || strings.Join(from.requests, "") != "https://charts.example one 1.0.0") {
			t.Errorf("%s: %v after %q", tt.name, err, from.requests)
		}
		if !tt.want && (err == nil || !strings.Contains(err.Error(), "helm dependency update") || len(from.requests) > 0) {
			t.Errorf("%s: %v after %q", tt.name, err, from.requests)
		}
	}
}

// Value files at addresses are requested together, and merged in the order of the list.
func TestValueFilesAtAddresses(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	var requests []string
	files := map[string]string{
		"https://values.example/base.yaml":      "size: base\ncolour: blue\n",
		"http://values.example/deep/prod.yaml":  "size: prod\n",
		"https://values.example/parameter.text": "from afar",
	}
	rendered := func(options v1alpha1.ApplicationSourceHelm) (string, error) {
		chart := published("shop", "0.1.0", "")
		chart["own.yaml"] = "size: own\n"
		chart["templates/a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {all: \"{{ .Values.size }} {{ .Values.colour }} {{ .Values.text }}\"}\n"
		request := requestFor(tree.NewMemory(chart))
		request.Inputs[0].Source.Helm = &options
		request.Resolve = func(_ context.Context, wanted render.Dependency) (tree.Store, error) {
			requests = append(requests, wanted.RepoURL)
			return tree.NewMemory(map[string]string{"file": files[wanted.RepoURL]}), nil
		}
		result, err := renderer.Render(t.Context(), request)
		if err != nil {
			return "", err
		}
		return result.Objects[0].Object["data"].(map[string]any)["all"].(string), nil
	}
	got, err := rendered(v1alpha1.ApplicationSourceHelm{
		ValueFiles:     []string{"https://values.example/base.yaml", "own.yaml", "http://values.example/deep/prod.yaml"},
		FileParameters: []v1alpha1.HelmFileParameter{{Name: "text", Path: "https://values.example/parameter.text"}},
	})
	if err != nil || got != "prod blue from afar" || len(requests) != 3 {
		t.Errorf("rendered %q, %v, of %q", got, err, requests)
	}
	requests = nil
	for _, address := range []string{
		"https://me:secret@values.example/a.yaml", "s3://values.example/a.yaml", "file:///etc/passwd", "https://values.example/a.yaml?token=secret", "https://%zz/secret",
	} {
		if _, err := rendered(v1alpha1.ApplicationSourceHelm{ValueFiles: []string{address}}); err == nil || strings.Contains(err.Error(), "secret") || len(requests) > 0 {
			t.Errorf("%s: %v, requests %q", address, err, requests)
		}
	}
}
