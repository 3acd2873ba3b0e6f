package main

import (
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

const root = "../../.."

// TestFilesAreCurrent: the files in the repository are what is generated.
func TestFilesAreCurrent(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(committed) != string(content) {
			t.Errorf("%s is out of date: run make generate (%v)", name, err)
		}
	}
	found, err := filepath.Glob(filepath.Join(root, folder, v1alpha1.Group+"_*.yaml"))
	if err != nil || len(found) != len(files) {
		t.Errorf("there are %d definitions, and %d are generated: %v", len(found), len(files), err)
	}
}

// TestRun writes into an empty folder what the repository has.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	// kubectl apply keeps a copy of an object in an annotation, which must not be
	// larger.
	const most = 256 << 10
	for _, kind := range v1alpha1.Kinds() {
		info, err := os.Stat(filepath.Join(dir, folder, kind.File()))
		if err != nil {
			t.Error(err)
		} else if info.Size() > most/2 {
			t.Errorf("%s has %d bytes: kubectl apply would soon refuse it", kind.File(), info.Size())
		}
	}
}
