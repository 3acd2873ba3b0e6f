package render_test

import (
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/render"
)

// The examples are Argo CD's example applications in our own words, and one for
// each rule of its documents. Each is rendered twice: the same request gives
// the same bytes.
func TestExamples(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	archives(t, "testdata/examples/*.txtar", func(t *testing.T, e *example) {
		result, err := renderer.Render(t.Context(), e.request)
		got := describe(t, result, err)
		e.check(t, got)
		result, err = renderer.Render(t.Context(), e.request)
		if again := describe(t, result, err); again != got && !strings.Contains(got, "# warning") {
			t.Errorf("the second time:\n%s", again)
		}
		if err == nil && !result.Holds(e.request) {
			t.Error("the result does not hold for the request that gave it")
		}
	})
}

// archives runs a subtest for each archive.
func archives(t *testing.T, pattern string, test func(t *testing.T, e *example)) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %d archives, %v", pattern, len(found), err)
	}
	for _, file := range found {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			test(t, readExample(t, file))
		})
	}
}
