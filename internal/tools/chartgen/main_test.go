package main

import (
	"os"
	"path/filepath"
	"testing"
)

const root = "../../.."

// TestFilesAreCurrent: R55: the files in the repository are what is generated.
func TestFilesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	files, err := generate()
	if err != nil || len(files) != 5 {
		t.Fatalf("%d files are generated: %v", len(files), err)
	}
	for name := range files {
		written, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(committed) != string(written) {
			t.Errorf("%s is out of date: run make generate (%v)", name, err)
		}
	}
}
