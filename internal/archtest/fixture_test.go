package archtest_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/must"
)

var update = flag.Bool("update", false, "write what was found into testdata/*/*.txtar")

// fixtures runs one subtest per archive: its files are a repository, and the
// file called want lists every finding, one per line. $DIR is the repository.
func fixtures(t *testing.T, pattern string, check func(t *testing.T, name, dir string) []finding.Finding) {
	t.Helper()
	archives, err := filepath.Glob(pattern)
	if err != nil || len(archives) == 0 {
		t.Fatalf("%s: %d archives, %v", pattern, len(archives), err)
	}
	for _, file := range archives {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			must.Do(t, err)
			dir := t.TempDir()
			want := extract(t, archive, dir)
			var got strings.Builder
			for _, f := range check(t, name, dir) {
				got.WriteString(strings.ReplaceAll(f.String(), dir, "$DIR") + "\n")
			}
			if got.String() == want {
				return
			}
			if !*update {
				t.Errorf("found:\n%s\nwant:\n%s", got.String(), want)
				return
			}
			for i := range archive.Files {
				if archive.Files[i].Name == "want" {
					archive.Files[i].Data = []byte(got.String())
				}
			}
			must.Do(t, os.WriteFile(file, txtar.Format(archive), 0o644))
		})
	}
}

// extract writes the archive's files below dir and returns the one called
// want, which must be there.
func extract(t *testing.T, archive *txtar.Archive, dir string) string {
	t.Helper()
	found, want := false, ""
	for _, f := range archive.Files {
		if f.Name == "want" {
			found, want = true, string(f.Data)
			continue
		}
		write(t, dir, f.Name, string(f.Data))
	}
	if !found {
		t.Fatal("the archive has no file called want")
	}
	return want
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Do(t, os.WriteFile(file, []byte(text), 0o644))
}

// expectMessages compares findings with parts of their messages, in order.
func expectMessages(t *testing.T, findings []finding.Finding, want ...string) {
	t.Helper()
	if len(findings) != len(want) {
		t.Errorf("found %v, want %q", findings, want)
		return
	}
	for i, f := range findings {
		if !strings.Contains(f.Message, want[i]) {
			t.Errorf("finding %d is %q, want %q", i, f.Message, want[i])
		}
	}
}
