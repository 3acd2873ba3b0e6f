// Argocrds generates the CustomResourceDefinitions of the Argo CD kinds from
// the declarations in api/argo/v1alpha1. `make generate` runs it.
//
// The output depends on the declarations alone, and a test fails if a file in
// the repository differs from it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// folder is where Helm installs CRDs from, one file per kind.
const folder = "charts/gitops-runtime/crds/"

// main writes the files below --root and exits with 1 on an error.
func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "argocrds:", err)
		os.Exit(1)
	}
}

// run writes the generated files.
func run(root string) error {
	files, err := generate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.FromSlash(folder)), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files by their path in the repository. It does not touch
// the disk, so that the test can compare.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, kind := range v1alpha1.Kinds() {
		crd, err := kind.CRD()
		if err != nil {
			return nil, err
		}
		files[folder+kind.File()] = append([]byte("# Written by make generate. Change the declarations in api/argo/v1alpha1, not this file.\n"), crd...)
	}
	return files, nil
}
