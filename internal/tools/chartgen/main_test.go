package main

import (
	"os"
	"path/filepath"
	"testing"
)

const root = "../../.."

// TestFilesAreCurrent: R55: the files in the repository are what is generated.
func TestFilesAreCurrent(t *testing.T) {
	files, err := generate(root)
	if err != nil || len(files) != 5 {
		t.Fatalf("%d files are generated: %v", len(files), err)
	}
	for name, content := range files {
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(committed) != string(content) {
			t.Errorf("%s is out of date: run make generate (%v)", name, err)
		}
	}
}
