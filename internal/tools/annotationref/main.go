// Annotationref writes what follows from the declarations of annotations and of
// our kinds of objects: docs/reference/annotations.md, and one
// CustomResourceDefinition for each kind. `make generate` runs it.
//
// It promises that what it writes depends on the declarations alone, and a test
// fails when a file in the repository is another.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/annotation"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "annotationref:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	files, err := generate()
	if err != nil {
		return err
	}
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

// crdFolder has one file for each of our kinds.
const crdFolder = "charts/gitops-runtime/crds/"

// generate gives the files by their place in the repository.
func generate() (map[string][]byte, error) {
	var page bytes.Buffer
	if err := annotation.WriteReference(&page); err != nil {
		return nil, err
	}
	files := map[string][]byte{"docs/reference/annotations.md": page.Bytes()}
	for _, kind := range v1alpha1.Kinds() {
		crd, err := kind.CRD()
		if err != nil {
			return nil, err
		}
		files[crdFolder+kind.File()] = append([]byte("# Written by make generate. Change the declarations in api/v1alpha1, not this file.\n"), crd...)
	}
	return files, nil
}
