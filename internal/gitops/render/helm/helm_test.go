package helm

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// The patterns that Argo CD documents for value files.
func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"envs/*.yaml", "envs/a.yaml", true},
		{"envs/*.yaml", "envs/b/a.yaml", false},
		{"envs/?.yaml", "envs/a.yaml", true},
		{"envs/[ab].yaml", "envs/b.yaml", true},
		{"envs/[a-b].yaml", "envs/c.yaml", false},
		{"envs/**/*.yaml", "envs/a.yaml", true},
		{"envs/**/*.yaml", "envs/b/c/a.yaml", true},
		{"envs/**", "envs/b/c/a.yaml", true},
		{"**/a.yaml", "a.yaml", true},
		{"**/b/**/a.yaml", "x/b/y/z/a.yaml", true},
		{"**/**/**/**/**/**/**/q", strings.Repeat("a/", 30) + "b", false},
		{"*/a.yaml", "a.yaml", false},
	} {
		if got := matches(strings.Split(tt.pattern, "/"), strings.Split(tt.name, "/")); got != tt.want {
			t.Errorf("%s, %s: %v", tt.pattern, tt.name, got)
		}
	}
}

// Commas of a parameter are part of its value, but for lists.
func TestAssignment(t *testing.T) {
	for value, want := range map[string]string{
		"a,b": `x=a\,b`, `a\,b`: `x=a\,b`, "{a,b}": "x={a,b}", "a": "x=a", ",": `x=\,`, "ü,ö": `x=ü\,ö`,
	} {
		if got := assignment("x", value); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// Functions that change are still the functions.
func TestWatchedFunctions(t *testing.T) {
	watch := watchFunctions()
	if len(watch.functions) != len(unstable()) {
		t.Errorf("%d of %d functions are known", len(watch.functions), len(unstable()))
	}
	store := tree.NewMemory(map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: a\nversion: 0.1.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: A\nm: {{ randInt 1 2 }}\nt: {{ (now | date \"2006\") | len }}\nl: {{ shuffle \"a\" | quote }}\n",
	})
	set := manifest.NewSet(1 << 20)
	request := Request{Job: &job.Job{App: "a"}, Source: &job.Source{}, Files: tree.NewView(store, tree.DefaultLimits())}
	must.Do(t, Render(request, set))
	if got := string(set.Objects()[0]); got != `{"apiVersion":"v1","kind":"A","l":"a","m":1,"t":4}` {
		t.Error(got)
	}
	if len(set.Warnings()) != 3 || !strings.HasPrefix(set.Warnings()[0], "a/templates/a.yaml: the function now ") {
		t.Errorf("%q", set.Warnings())
	}
}

// Charts in charts/ can be archives. This is one with a chart called sub.
func TestArchivedDependency(t *testing.T) {
	store := tree.NewMemory(map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: a\nversion: 0.1.0\ndependencies: [{name: sub, version: 1.x, repository: 'https://charts.example'}]\n",
		"charts/sub-1.0.0.tgz":  archived(t, map[string]string{"sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "sub/templates/a.yaml": "apiVersion: v1\nkind: A\nmetadata: {name: of-sub}\n"}),
		"charts/sub-1.0.0.prov": "",
	})
	set := manifest.NewSet(1 << 20)
	request := Request{Job: &job.Job{App: "a"}, Source: &job.Source{}, Files: tree.NewView(store, tree.DefaultLimits())}
	must.Do(t, Render(request, set))
	if len(set.Objects()) != 1 || !strings.Contains(string(set.Objects()[0]), "of-sub") {
		t.Errorf("%s", set.Objects())
	}
}
