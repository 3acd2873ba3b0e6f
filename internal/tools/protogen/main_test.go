package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// TestFilesAreCurrent: the files in the repository are what is generated, and
// there are no others.
func TestFilesAreCurrent(t *testing.T) {
	out := t.TempDir()
	if err := run(t.Context(), filepath.Join(root, "internal/wire/proto"), out); err != nil {
		t.Fatal(err)
	}
	generated := goFiles(t, out)
	for name, content := range generated {
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(committed) != content {
			t.Errorf("%s is out of date: run make generate (%v)", name, err)
		}
	}
	for name, content := range goFiles(t, filepath.Join(root, "internal/wire")) {
		name = filepath.Join("internal/wire", name)
		if _, ok := generated[name]; !ok && strings.HasPrefix(content, "// Code generated") {
			t.Errorf("%s is generated from nothing: delete it", name)
		}
	}
}

// TestRunRefuses says where a .proto file is wrong.
func TestRunRefuses(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.proto"), []byte("syntax = \"proto3\";\nmessage A { Missing b = 1; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), folder, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "a.proto:2") {
		t.Errorf("got %v, want an error in line 2 of a.proto", err)
	}
}

func goFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
