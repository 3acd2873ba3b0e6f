// Package generator has what the programs of `make generate` share: the flag
// --root, the files that they write, and the exit code.
//
// A program returns its files by their path in the repository and does not touch
// the disk, so that its test can compare them with those in the repository. A
// file that is no longer generated is not deleted.
package generator

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Main writes the files of a program below --root and exits with 1 on an error.
// generate gets the folder of the repository, for programs that read its source.
func Main(name string, generate func(root string) (map[string][]byte, error)) {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	files, err := generate(*root)
	if err == nil {
		err = Write(*root, files)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Write writes files below a folder. Their names have slashes.
func Write(root string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
