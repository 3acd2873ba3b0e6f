package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"slipway.dev/slipway/internal/gitops/render"
)

// Hints are those of the last render of the same source in the same project, without
// what plugins generate, and bounded.
func TestDependencyHints(t *testing.T) {
	var hints dependencyHints
	key := hintKey{project: "a", repoURL: "https://example.com/a.git", path: "shop"}
	chart := render.Dependency{RepoURL: "https://example.com/charts", Chart: "redis"}
	hints.put(key, []render.Dependency{chart, {Plugin: "any"}})
	if got := hints.of(key); !slices.Equal(got, []render.Dependency{chart}) {
		t.Errorf("got %v", got)
	}
	other := key
	other.project = "b"
	if got := hints.of(other); got != nil {
		t.Errorf("another project has %v", got)
	}
	hints.put(key, nil)
	if got := hints.of(key); got != nil {
		t.Errorf("a source without dependencies has %v", got)
	}
	for i := range maxHints + 1 {
		hints.put(hintKey{path: fmt.Sprint(i)}, []render.Dependency{chart})
	}
	if got := len(hints.all); got != 1 {
		t.Errorf("%d hints are kept", got)
	}
}
