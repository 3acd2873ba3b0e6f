// Chartgen writes what follows from the declarations of chart values: the schema
// and values.yaml of each chart, and the page for people. `make generate` runs it.
//
// It promises that what it writes depends on the declarations alone, and a test
// fails when a file in the repository is another.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"slipway.dev/slipway/internal/install/values"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "chartgen:", err)
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

// generate gives the files by their place in the repository.
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
