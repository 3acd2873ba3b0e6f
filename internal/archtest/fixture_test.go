package archtest_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/must"
)

// fixtures runs one subtest per archive: its files are a repository, and the
// file called want lists every finding, one per line. $DIR is the repository.
func fixtures(t *testing.T, pattern string, check func(t *testing.T, name, dir string) []finding.Finding) {
	t.Helper()
	archives.Each(t, pattern, func(t *testing.T, archive *txtar.Archive) {
		t.Parallel()
		dir := t.TempDir()
		want := extract(t, archive, dir)
		var got strings.Builder
		for _, f := range check(t, path.Base(t.Name()), dir) {
			got.WriteString(strings.ReplaceAll(f.String(), dir, "$DIR") + "\n")
		}
		archives.Check(t, want, got.String())
	})
}

// extract writes the archive's files below dir and returns the one called
// want, which must be there.
func extract(t *testing.T, archive *txtar.Archive, dir string) (want *txtar.File) {
	t.Helper()
	for i, f := range archive.Files {
		if f.Name == "want" {
			want = &archive.Files[i]
			continue
		}
		write(t, dir, f.Name, string(f.Data))
	}
	if want == nil {
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

// report makes each finding an error of the test.
func report(t *testing.T, findings []finding.Finding) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
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
