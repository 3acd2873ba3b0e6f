// Annotationref generates the files that follow from the declarations of
// annotations and of the API kinds: docs/reference/annotations.md and one
// CustomResourceDefinition per kind. `make generate` runs it.
//
// The output depends on the declarations alone, and a test fails if a file in
// the repository differs from it.
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

// main writes the files below --root and exits with 1 on an error.
func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "annotationref:", err)
		os.Exit(1)
	}
}

// run writes the generated files. Files of kinds that were removed are not
// deleted; the test reports them.
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

// crdFolder is where Helm installs CRDs from, one file per kind.
const crdFolder = "charts/gitops-runtime/crds/"

// generate returns the files by their path in the repository. It does not touch
// the disk, so that the test can compare.
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
