package main

import (
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const root = "../../.."

// TestFilesAreCurrent: the files in the repository are what is generated.
func TestFilesAreCurrent(t *testing.T) {
	files := must.Get(generate(root))(t)
	for name, content := range files {
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(committed) != string(content) {
			t.Errorf("%s is out of date: run make generate (%v)", name, err)
		}
	}
}

// TestOnlyOurKinds: a definition that is no longer generated is not left behind.
func TestOnlyOurKinds(t *testing.T) {
	files := must.Get(generate(root))(t)
	found, err := filepath.Glob(filepath.Join(root, crdFolder, "slipway.dev_*.yaml"))
	pages := 4
	if err != nil || len(found) != len(files)-pages {
		t.Errorf("there are %d definitions, and %d are generated: %v", len(found), len(files)-pages, err)
	}
}
