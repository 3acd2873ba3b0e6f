// Argocrds generates the CustomResourceDefinitions of the kinds of Argo CD and of
// Codefresh's promotions, from the declarations in api/argo/v1alpha1 and
// api/codefresh/v1beta1. `make generate` runs it.
//
// The output depends on the declarations alone, and a test fails if a file in
// the repository differs from it.
package main

import (
	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/internal/tools/generator"
)

// folder is where Helm installs CRDs from, one file per kind.
const folder = "charts/gitops-runtime/crds/"

func main() { generator.Main("argocrds", generate) }

// generate returns the files by their path in the repository.
func generate(string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for source, kinds := range map[string][]declare.Kind{"api/argo/v1alpha1": v1alpha1.Kinds(), "api/codefresh/v1beta1": v1beta1.Kinds()} {
		for _, kind := range kinds {
			crd, err := kind.CRD()
			if err != nil {
				return nil, err
			}
			files[folder+kind.File()] = append([]byte("# Written by make generate. Change the declarations in "+source+", not this file.\n"), crd...)
		}
	}
	return files, nil
}
