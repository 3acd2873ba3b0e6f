package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const root = "../../.."

// TestFilesAreCurrent: the files in the repository are what is generated, and
// there are no others.
func TestFilesAreCurrent(t *testing.T) {
	out := t.TempDir()
	must.Do(t, run(t.Context(), root, out))
	generated := sources(t, out)
	for name, content := range generated {
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(committed) != content {
			t.Errorf("%s is out of date: run make generate (%v)", name, err)
		}
	}
	for _, folder := range []string{"internal/wire", console} {
		for name, content := range sources(t, filepath.Join(root, folder)) {
			name = filepath.Join(folder, name)
			if _, ok := generated[name]; !ok && (folder == console || strings.HasPrefix(content, "// Code generated")) {
				t.Errorf("%s is generated from nothing: delete it", name)
			}
		}
	}
}

// TestRunRefuses: the error has the place where a .proto file is wrong.
func TestRunRefuses(t *testing.T) {
	wrong := t.TempDir()
	folder := filepath.Join(wrong, "internal/wire/proto")
	must.Do(t, os.MkdirAll(folder, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(folder, "a.proto"), []byte("syntax = \"proto3\";\nmessage A { Missing b = 1; }\n"), 0o600))
	err := run(t.Context(), wrong, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "a.proto:2") {
		t.Errorf("got %v, want an error in line 2 of a.proto", err)
	}
}

// sources are the files of Go, TypeScript and descriptors below a folder.
func sources(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".ts", ".binpb"}, filepath.Ext(path)) {
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
	must.Do(t, err)
	return files
}
