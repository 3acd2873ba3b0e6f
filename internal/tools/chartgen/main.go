// Chartgen generates the files that follow from the declarations of chart
// values: the schema and values.yaml of each chart, and the reference page.
// `make generate` runs it.
//
// The output depends on the declarations alone, and a test fails if a file in
// the repository differs from it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"slipway.dev/slipway/internal/install/values"
)

// main writes the files below --root and exits with 1 on an error.
func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "chartgen:", err)
		os.Exit(1)
	}
}

// run writes the generated files.
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

// generate returns the files by their path in the repository. It does not touch
// the disk, so that the test can compare.
func generate() (map[string][]byte, error) {
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
