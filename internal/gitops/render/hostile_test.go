package render_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/render"
)

// What hostile repositories try is refused, or fails, with a reason that names
// the file. No archive of these renders anything.
func TestHostile(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	archives(t, "testdata/hostile/*.txtar", func(t *testing.T, e *example) {
		result, err := renderer.Render(t.Context(), e.request)
		got := describe(t, result, err)
		if strings.HasPrefix(got, "#") {
			t.Errorf("it was rendered:\n%s", got)
		}
		e.check(t, got)
	})
}
