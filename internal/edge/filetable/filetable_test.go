package filetable

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// The example in the documentation is read and is valid.
func TestDocumentedExample(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/edge.md"))(t)
	_, rest, _ := strings.Cut(string(text), "\n## Routes in a file\n")
	_, rest, found := strings.Cut(rest, "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/edge.md has no example of a routes file")
	}
	_, table, err := Open(write(t, example))
	must.Do(t, err)
	table.EntryPoints = []string{"web"}
	if problems := table.Validate(); len(problems) > 0 || len(table.Rules) != 3 {
		t.Errorf("%d rules, problems %v", len(table.Rules), problems)
	}
}

func TestOpen(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", ""},
		{"comments only", "# nothing yet\n", ""},
		{"JSON", `{"rules": []}`, ""},
		{"unknown field", "rulez: []\n", "rulez"},
		{"not YAML", "rules: [\n", "yaml"},
		{"not a mapping", "- a\n", "cannot unmarshal"},
		{"two documents", "rules: []\n---\nrules: []\n", "more than one document"},
		{"a key that is no text", "rules: [{id: {1: 2}}]\n", "not text"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.text)
			_, table, err := Open(path)
			switch {
			case test.want == "" && (err != nil || table == nil):
				t.Errorf("got %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path)):
				t.Errorf("got %v, want an error with the path and %q", err, test.want)
			}
		})
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v for a file that is not there", err)
	}
}

// A file that is replaced, rewritten, or reached by a link that moves is seen,
// and one that stays is not read again.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	first, second, link := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "routes.yaml")
	overwrite(t, first, "rules: []\n")
	overwrite(t, second, "rules: []\n# another\n")
	must.Do(t, os.Symlink(first, link))
	watch := watched{path: link, seen: stat(link)}
	steps := []struct {
		name string
		do   func() error
		want bool
	}{
		{"nothing", func() error { return nil }, false},
		{"rewritten", func() error { return os.WriteFile(first, []byte("rules: []\n# longer\n"), 0o600) }, true},
		{"nothing more", func() error { return nil }, false},
		{"removed", func() error { return os.Remove(link) }, true},
		{"still away", func() error { return nil }, false},
		{"back, as another file", func() error { return os.Symlink(second, link) }, true},
		{"nothing again", func() error { return nil }, false},
	}
	for _, step := range steps {
		must.Do(t, step.do())
		if got := watch.changed(); got != step.want {
			t.Errorf("%s: changed is %v, want %v", step.name, got, step.want)
		}
	}
}

// A change is put in place; one that cannot be read is not, and the next good
// one is again.
func TestFollow(t *testing.T) {
	path := write(t, "")
	file, _, err := Open(path)
	must.Do(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var log programs.Output
	applied, ended := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(ended)
		file.Follow(ctx, func(table *route.Table) error {
			applied <- len(table.Rules)
			return nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	const rule = "rules: [{id: {name: a}, response: {status: 404}}]\n"
	replace(t, path, rule)
	if got := <-applied; got != 1 {
		t.Errorf("got %d rules", got)
	}
	replace(t, path, "rulez: []\n")
	log.WaitFor(t, "rulez")
	replace(t, path, "rules: []\n")
	if got := <-applied; got != 0 {
		t.Errorf("got %d rules", got)
	}
	stop()
	<-ended
}

// replace puts another file in the place of path, in one step.
func replace(t *testing.T, path, text string) {
	t.Helper()
	overwrite(t, path+".new", text)
	must.Do(t, os.Rename(path+".new", path))
}

func FuzzDecode(f *testing.F) {
	f.Add("rules:\n- id: {name: a}\n  response: {status: 404}\n")
	f.Add("a: &x [*x]\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := decode(strings.NewReader(text))
		if (table == nil) == (err == nil) {
			t.Errorf("table %v and error %v", table, err)
		}
		if table != nil {
			_ = table.Validate()
			_ = route.Diff(nil, table)
		}
	})
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routes.yaml")
	overwrite(t, path, text)
	return path
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}
