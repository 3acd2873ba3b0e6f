// Sbom writes the software bill of materials of a Go program as CycloneDX JSON.
// `make sbom` and `make image` run it.
//
// Modules come from the build information inside the program, so they are those
// that were linked and not those that go.mod requires. Licences are read from
// the module cache if their text is a known one. The same inputs give the same
// bytes: the time is SOURCE_DATE_EPOCH, and components are sorted.
//
// See decision 0038 in docs/decisions: the supply chain in this repository.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// options are the flags. console, authorities and image are optional.
type options struct {
	out, binary, version, console, authorities, image string
}

// main parses the flags and exits with 1 on an error.
func main() {
	var given options
	flag.StringVar(&given.out, "out", "", "file to write")
	flag.StringVar(&given.binary, "binary", "", "the program, built by Go with modules")
	flag.StringVar(&given.version, "version", "", "version of the program")
	flag.StringVar(&given.console, "console", "", "package-lock.json of the console that is embedded in the program")
	flag.StringVar(&given.authorities, "authorities", "", "certificate authorities that are in the image")
	flag.StringVar(&given.image, "image", "", "name of the image with the program; without it the program itself is described")
	flag.Parse()
	if err := run(given); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run writes the bill of materials and prints how many components it has.
func run(given options) error {
	if given.out == "" || given.binary == "" || given.version == "" {
		return errors.New("--out, --binary and --version are required")
	}
	// Without the variable it is 1970, and never the time of the build.
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH has to be the seconds since 1970: %w", err)
	}
	bom, err := describe(given)
	if err != nil {
		return err
	}
	bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	var encoded bytes.Buffer
	if err := cdx.NewBOMEncoder(&encoded, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	fmt.Printf("%s: %d components of %s\n", given.out, len(*bom.Components), bom.Metadata.Component.Name)
	return os.WriteFile(given.out, encoded.Bytes(), 0o644)
}
