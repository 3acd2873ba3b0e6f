package route

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/must"
)

// TestProblems: a table, and every problem that Validate finds in it.
func TestProblems(t *testing.T) {
	eachArchive(t, "testdata/problems/*.txtar", "problems.txt", func(t *testing.T, data []byte) string {
		table := must.Get(Decode(bytes.NewReader(data)))(t)
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
	archives.Each(t, pattern, func(t *testing.T, archive *txtar.Archive) {
		if len(archive.Files) != 2 || archive.Files[0].Name != "table.json" || archive.Files[1].Name != expected {
			t.Fatalf("it does not have table.json and %s", expected)
		}
		archives.Check(t, &archive.Files[1], run(t, archive.Files[0].Data))
	})
}
