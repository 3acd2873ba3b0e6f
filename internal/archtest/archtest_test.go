package archtest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// root is the top of the repository.
const root = "../.."

func TestImports(t *testing.T) {
	report(t, must.Get(archtest.CheckImports(deadline(t), archtest.HouseTable(), root))(t))
}

// The test of the test: small modules that break one rule each. Those called
// cycle-* have a table that allows every import, so that only the cycle is
// left to find.
func TestImportFixtures(t *testing.T) {
	open := archtest.Table{Rows: []archtest.Row{
		{Packages: "./...", MayUse: []string{"./..."}, Foreign: []string{"..."}},
	}}
	fixtures(t, "testdata/imports/*.txtar", func(t *testing.T, name, dir string) []finding.Finding {
		table := archtest.HouseTable()
		if strings.HasPrefix(name, "cycle-") {
			table = open
		}
		return must.Get(archtest.CheckImports(deadline(t), table, dir))(t)
	})
}

// A folder that is no module is an error, not a module without findings.
func TestNoModule(t *testing.T) {
	for _, tt := range []struct{ name, file, text string }{
		{"no go.mod", "main.go", "package main\n"},
		{"no packages", "go.mod", "module example.test/m\n\ngo 1.26\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, tt.file, tt.text)
			if findings, err := archtest.CheckImports(deadline(t), archtest.HouseTable(), dir); err == nil {
				t.Errorf("no error, findings %v", findings)
			}
		})
	}
}

// deadline is for the go command, which reads many files the first time.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestRoot makes sure that the tests above look at the repository, and not at
// a folder where there is nothing to find.
func TestRoot(t *testing.T) {
	for _, name := range []string{"go.mod", "devcluster/go.mod", "internal/archtest/table.go"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}
