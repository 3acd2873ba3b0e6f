package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// TestReferenceIsCurrent: the pages in the repository are what is generated.
func TestReferenceIsCurrent(t *testing.T) {
	clitest.Clean(t)
	dir := filepath.Join(t.TempDir(), "reference")
	if got := clitest.Run(t, "docs --dir "+dir); got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	pages, err := os.ReadDir(dir)
	if err != nil || len(pages) == 0 {
		t.Fatalf("nothing was generated: %v", err)
	}
	for _, page := range pages {
		generated := must.Get(os.ReadFile(filepath.Join(dir, page.Name())))(t)
		committed, err := os.ReadFile(filepath.Join("../../docs/reference", page.Name()))
		if err != nil || string(committed) != string(generated) {
			t.Errorf("docs/reference/%s is out of date: run make generate", page.Name())
		}
	}
}
