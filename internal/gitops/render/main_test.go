package render_test

import (
	"fmt"
	"os"
	"testing"

	"slipway.dev/slipway/internal/gitops/render"
)

// The test program is its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-worker" {
		if err := render.ServeWorker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// newRenderer is closed when the test is over. Its workers are this program.
func newRenderer(t testing.TB, options render.Options) *render.Renderer {
	t.Helper()
	renderer, err := render.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := renderer.Close(); err != nil {
			t.Error(err)
		}
	})
	return renderer
}
