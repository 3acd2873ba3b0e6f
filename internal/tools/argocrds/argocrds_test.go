package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	found, err := filepath.Glob(filepath.Join(root, folder, "*_*.yaml"))
	found = slices.DeleteFunc(found, func(name string) bool { return strings.HasPrefix(filepath.Base(name), "slipway.dev_") })
	if err != nil || len(found) != len(files) {
		t.Errorf("there are %d definitions, and %d are generated: %v", len(found), len(files), err)
	}
}

// TestSize: kubectl apply keeps a copy of an object in an annotation, which must
// not be larger than 256 KiB.
func TestSize(t *testing.T) {
	files := must.Get(generate(root))(t)
	for name, content := range files {
		if len(content) > 128<<10 {
			t.Errorf("%s has %d bytes: kubectl apply would soon refuse it", name, len(content))
		}
	}
}
