// Argocrds generates the CustomResourceDefinitions of the Argo CD kinds from
// the declarations in api/argo/v1alpha1. `make generate` runs it.
//
// The output depends on the declarations alone, and a test fails if a file in
// the repository differs from it.
package main

import (
	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/tools/generator"
)

// folder is where Helm installs CRDs from, one file per kind.
const folder = "charts/gitops-runtime/crds/"

func main() { generator.Main("argocrds", generate) }

// generate returns the files by their path in the repository.
func generate(string) (map[string][]byte, error) {
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
