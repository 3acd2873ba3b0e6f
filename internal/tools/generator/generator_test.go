package generator

import (
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// TestWrite: files are written into folders that do not exist yet, replace those
// that do, and an error is returned.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"a long first text", "second"} {
		must.Do(t, Write(dir, map[string][]byte{"docs/a/b.md": []byte(content)}))
		if got, err := os.ReadFile(filepath.Join(dir, "docs", "a", "b.md")); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := Write(dir, map[string][]byte{"docs/a/b.md/c": nil}); err == nil {
		t.Error("a file in the place of a folder is no error")
	}
}
