package render_test

import (
	"os"
	"testing"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/must"
)

// The test program is its own worker.
func TestMain(m *testing.M) { argotest.Main(m, func(m *testing.M) { os.Exit(m.Run()) }) }

// newRenderer is closed when the test is over. Its workers are this program.
func newRenderer(t testing.TB, options render.Options) *render.Renderer {
	t.Helper()
	renderer := must.Get(render.New(options))(t)
	t.Cleanup(func() {
		if err := renderer.Close(); err != nil {
			t.Error(err)
		}
	})
	return renderer
}
