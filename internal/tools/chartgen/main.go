// Chartgen generates the files that follow from the declarations of chart
// values: the schema and values.yaml of each chart, and the reference page.
// `make generate` runs it.
//
// The output depends on the declarations alone, and a test fails if a file in
// the repository differs from it.
package main

import (
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/tools/generator"
)

func main() { generator.Main("chartgen", generate) }

// generate returns the files by their path in the repository.
func generate(string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, catalogue := range []values.Catalogue{values.Runtime(), values.Platform()} {
		folder := "charts/" + catalogue.Chart + "/"
		var err error
		if files[folder+"values.schema.json"], err = catalogue.Schema(); err != nil {
			return nil, err
		}
		if files[folder+"values.yaml"], err = catalogue.File(); err != nil {
			return nil, err
		}
	}
	page, err := values.Page(values.Runtime(), values.Platform())
	files["docs/install/values.md"] = page
	return files, err
}
