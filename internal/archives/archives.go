// Package archives runs tests over cases in txtar files. It is for tests only.
package archives

import (
	"flag"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/must"
)

var update = flag.Bool("update", false, "write what the tests find into their archives")

// Each runs a subtest for each archive that a pattern matches. With -update the
// archive is written back, with what Check has put into it.
func Each(t *testing.T, pattern string, run func(t *testing.T, archive *txtar.Archive)) {
	t.Helper()
	for _, path := range find(t, pattern) {
		t.Run(name(path), func(t *testing.T) {
			archive := read(t, path)
			run(t, archive)
			if *update {
				must.Do(t, os.WriteFile(path, txtar.Format(archive), 0o644))
			}
		})
	}
}

// All returns the archives that a pattern matches, by name.
func All(t testing.TB, pattern string) iter.Seq2[string, *txtar.Archive] {
	t.Helper()
	paths := find(t, pattern)
	return func(yield func(string, *txtar.Archive) bool) {
		for _, path := range paths {
			if !yield(name(path), read(t, path)) {
				return
			}
		}
	}
}

// find returns the absolute paths of archives: a test may change its directory.
func find(t testing.TB, pattern string) []string {
	t.Helper()
	pattern = must.Get(filepath.Abs(pattern))(t)
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("there is no archive at %s: %v", pattern, err)
	}
	return paths
}

func name(path string) string { return strings.TrimSuffix(filepath.Base(path), ".txtar") }

func read(t testing.TB, path string) *txtar.Archive {
	t.Helper()
	return must.Get(txtar.ParseFile(path))(t)
}

// Texts returns the files of an archive by name.
func Texts(archive *txtar.Archive) map[string]string {
	texts := map[string]string{}
	for _, file := range archive.Files {
		texts[file.Name] = string(file.Data)
	}
	return texts
}

// Check compares what a test has found with a file of its archive. With -update
// the file becomes it.
func Check(t testing.TB, file *txtar.File, got string) {
	t.Helper()
	if *update {
		file.Data = []byte(got)
	}
	if got != string(file.Data) {
		t.Errorf("%s: got\n%s\nwant\n%s", file.Name, got, file.Data)
	}
}
