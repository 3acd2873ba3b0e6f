// Packages writes the package of a release for Debian: the program,
// its completions and man pages, units of systemd for the three roles, and their
// configuration files. `make release` runs it.
//
// The same inputs give the same bytes: the time is SOURCE_DATE_EPOCH, and no
// owner comes from the build machine. The package is not signed; the checksums
// of the release are.
//
// See decision 0073 in docs/decisions: releases by small tools.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// options are the flags.
type options struct {
	out, version, architecture, files, units string
}

// main parses the flags and exits with 1 on an error.
func main() {
	var given options
	flag.StringVar(&given.out, "out", "", "folder to write to")
	flag.StringVar(&given.version, "version", "", "version of the program")
	flag.StringVar(&given.architecture, "architecture", "", "architecture of the program: amd64 or arm64")
	flag.StringVar(&given.files, "files", "", "folder with the files of the archive: slipway, LICENSE and share")
	flag.StringVar(&given.units, "units", "deploy/systemd", "folder with units, configuration files and scripts")
	flag.Parse()
	if err := run(given); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

// run writes the package and prints its name.
func run(given options) error {
	if given.out == "" || given.version == "" || given.files == "" {
		return errors.New("--out, --version and --files are required")
	}
	if given.architecture != "amd64" && given.architecture != "arm64" {
		return fmt.Errorf("--architecture %q is neither amd64 nor arm64", given.architecture)
	}
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH has to be the seconds since 1970: %w", err)
	}
	built := time.Unix(seconds, 0).UTC()
	made, err := collect(given)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("slipway_%s_%s.deb", given.version, given.architecture)
	content, err := debian(made, given, built)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%s: %d files, %.1f MB\n", name, len(made.files), float64(len(content))/1e6)
	return os.WriteFile(filepath.Join(given.out, name), content, 0o644)
}
