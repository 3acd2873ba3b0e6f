package archtest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// TestSource covers both modules: the walk does not stop at a go.mod.
func TestSource(t *testing.T) {
	report(t, must.Get(archtest.CheckSource(archtest.HouseRules(), root))(t))
}

// The test of the test: small repositories that break one rule each, under
// limits that a reader can count.
func TestSourceFixtures(t *testing.T) {
	rules := archtest.HouseRules()
	rules.FileLines = 20
	rules.FuncLines = 5
	rules.FuncLinesLimit = 8
	fixtures(t, "testdata/source/*.txtar", func(t *testing.T, _, dir string) []finding.Finding {
		rules := rules
		rules.LongFuncs = exceptions(t, dir)
		return must.Get(archtest.CheckSource(rules, dir))(t)
	})
}

// exceptions reads the file of that name, if there is one: a file and a
// function on each line.
func exceptions(t *testing.T, dir string) []archtest.LongFunc {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "exceptions"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must.Do(t, err)
	var list []archtest.LongFunc
	for line := range strings.Lines(string(text)) {
		file, function, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("exceptions: %q is not a file and a function", line)
		}
		list = append(list, archtest.LongFunc{File: file, Func: function, Reason: "a test"})
	}
	return list
}

// The limits of the house, to the line.
func TestSizes(t *testing.T) {
	function := func(lines int) string {
		return "func f() {\n" + strings.Repeat("\tprintln()\n", lines-2) + "}\n"
	}
	for _, tt := range []struct {
		name, text, want string
	}{
		{"file 600", strings.Repeat("//\n", 598), ""},
		{"file 601", strings.Repeat("//\n", 599), "p.go: has 601 lines, the most is 600; split it by concept"},
		{"func 80", function(80), ""},
		{"func 81", function(81), "p.go:3: f has 81 lines, the most is 80; split it, or add an exception with a reason to HouseRules"},
		{"params 5", "func f(a, b, c int, d, e string) {}\n", ""},
		{"params 6", "func f(a, b, c int, d, e, f string) {}\n", "p.go:3: f has 6 parameters, the most is 5; give it a struct"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "p.go", "// Package p is a test.\npackage p\n"+tt.text)
			rules := archtest.HouseRules()
			rules.LongFuncs = nil
			findings := must.Get(archtest.CheckSource(rules, dir))(t)
			want := []string{}
			if tt.want != "" {
				want = append(want, tt.want)
			}
			if got := fmt.Sprint(findings); got != fmt.Sprint(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// The words are put together here, because the rule holds for this file.
func TestWords(t *testing.T) {
	const machine, later = "names a path of one developer's machine", "unfinished work belongs in an issue"
	for _, tt := range []struct {
		name, file, text, want string
	}{
		{"checkout", "Makefile", "all:\n\tcd /wo" + "rk/main && go build\n", "Makefile:2: contains \"/wo" + "rk/main\": it " + machine},
		{"home", "docs/x.md", "cp x /ro" + "ot/x", "docs/x.md:1: contains \"/ro" + "ot/\": it " + machine},
		{"upper case", "x.yaml", "# TO" + "DO: more", "x.yaml:1: contains \"TO" + "DO\": " + later},
		{"fix", "x.sh", "\n\n# FIX" + "ME", "x.sh:3: contains \"FIX" + "ME\": " + later},
		{"two words", "README.md", "Good enough For" + " now.", "README.md:1: contains \"For" + " now\": " + later},
		{"no dot file is left out", ".ci/run", "cd /ro" + "ot/", ".ci/run:1: contains"},
		{"parts of words", "README.md", "Todor waits for nowhere at /chroot/roots", ""},
		{"hashes", "devcluster/go.sum", "example.test/m v1.0.0 h1:TO" + "DO/ro" + "ot/=", ""},
		{"not text", "image.png", "\x00TO" + "DO", ""},
		{"skipped", "internal/x/testdata/x.txt", "TO" + "DO", ""},
		{"skipped at the top", "bin/x.sh", "TO" + "DO", ""},
		{"not skipped below", "scripts/bin/x.sh", "TO" + "DO", "scripts/bin/x.sh:1: contains"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, tt.file, tt.text)
			rules := archtest.HouseRules()
			rules.LongFuncs = nil
			findings := must.Get(archtest.CheckSource(rules, dir))(t)
			if tt.want == "" && len(findings) == 0 {
				return
			}
			if tt.want == "" || len(findings) != 1 || !strings.HasPrefix(findings[0].String(), tt.want) {
				t.Errorf("got %v, want %q", findings, tt.want)
			}
		})
	}
}

func TestNoFolder(t *testing.T) {
	if findings, err := archtest.CheckSource(archtest.HouseRules(), t.TempDir()+"/absent"); err == nil {
		t.Errorf("no error, findings %v", findings)
	}
}

// Every exception to the house rules has a reason.
func TestExceptionsHaveReasons(t *testing.T) {
	for _, e := range archtest.HouseRules().LongFuncs {
		if len(e.Reason) < 10 {
			t.Errorf("%s in %s: reason %q", e.Func, e.File, e.Reason)
		}
	}
}
