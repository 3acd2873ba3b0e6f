package route

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/must"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestProblems: a table, and every problem that Validate finds in it.
func TestProblems(t *testing.T) {
	eachArchive(t, "testdata/problems/*.txtar", "problems.txt", func(t *testing.T, data []byte) string {
		table, err := Decode(bytes.NewReader(data))
		must.Do(t, err)
		var lines strings.Builder
		for _, problem := range table.Validate() {
			lines.WriteString(problem.String() + "\n")
		}
		contained, _ := table.Contain()
		if left := contained.Validate(); len(left) > 0 {
			t.Errorf("not contained: %s", left[0])
		}
		return lines.String()
	})
}

// TestDecodeErrors: a text that is not a table, and what is wrong with it.
func TestDecodeErrors(t *testing.T) {
	eachArchive(t, "testdata/decode/*.txtar", "error.txt", func(t *testing.T, data []byte) string {
		_, err := Decode(bytes.NewReader(data))
		if err == nil {
			t.Fatal("no error")
		}
		return err.Error() + "\n"
	})
}

// eachArchive runs a function over the first file of each archive and compares
// what it gives with the second.
func eachArchive(t *testing.T, pattern, expected string, run func(*testing.T, []byte) string) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files at %s: %v", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			must.Do(t, err)
			if len(archive.Files) != 2 || archive.Files[0].Name != "table.json" || archive.Files[1].Name != expected {
				t.Fatalf("%s does not have table.json and %s", path, expected)
			}
			got := run(t, archive.Files[0].Data)
			if *update {
				archive.Files[1].Data = []byte(got)
				must.Do(t, os.WriteFile(path, txtar.Format(archive), 0o644))
			}
			if want := string(archive.Files[1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
