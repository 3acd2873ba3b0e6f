// Annotationref generates the files that follow from the declarations of
// annotations, of differences to other controllers and of the API kinds:
// docs/reference/annotations.md, the tables of docs/migration-nginx.md,
// docs/migration-traefik.md and docs/ingress.md, and one CustomResourceDefinition per
// kind. `make generate` runs it.
//
// The output depends on the declarations alone, and a test fails if a file in
// the repository differs from it.
package main

import (
	"bytes"
	"os"
	"path/filepath"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/tools/generator"
)

func main() { generator.Main("annotationref", generate) }

// crdFolder is where Helm installs CRDs from, one file per kind.
const crdFolder = "charts/gitops-runtime/crds/"

// The pages with tables between their own text: of annotations and keys, and of Middlewares.
const (
	nginxPage   = "docs/migration-nginx.md"
	traefikPage = "docs/migration-traefik.md"
)

// differencePages are the pages with a table of differences.
var differencePages = map[string]difference.Source{
	nginxPage: difference.NGINX, traefikPage: difference.Traefik, "docs/ingress.md": difference.Plain,
}

// generate returns the files by their path in the repository.
func generate(root string) (map[string][]byte, error) {
	var page bytes.Buffer
	if err := annotation.WriteReference(&page); err != nil {
		return nil, err
	}
	files := map[string][]byte{"docs/reference/annotations.md": page.Bytes()}
	for name, source := range differencePages {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if files[name], err = difference.WriteTable(text, source); err != nil {
			return nil, err
		}
	}
	migration, err := nginx.WriteTables(files[nginxPage])
	if err != nil {
		return nil, err
	}
	files[nginxPage] = migration
	if migration, err = traefik.WriteTables(files[traefikPage]); err != nil {
		return nil, err
	}
	files[traefikPage] = migration
	for _, kind := range v1alpha1.Kinds() {
		crd, err := kind.CRD()
		if err != nil {
			return nil, err
		}
		files[crdFolder+kind.File()] = append([]byte("# Written by make generate. Change the declarations in api/v1alpha1, not this file.\n"), crd...)
	}
	return files, nil
}
