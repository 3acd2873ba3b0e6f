// Packages writes the packages of a release for Debian and for RPM: the program,
// its completions and man pages, units of systemd for the three roles, and their
// configuration files. `make release` runs it.
//
// The same inputs give the same bytes: the time is SOURCE_DATE_EPOCH, and no
// owner comes from the build machine. Packages are not signed; the checksums of
// the release are.
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

// run writes both packages and prints their names.
func run(given options) error {
	if given.out == "" || given.version == "" || given.files == "" {
		return errors.New("--out, --version and --files are required")
	}
	// The names of architectures differ between the two.
	foreign, ok := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[given.architecture]
	if !ok {
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
	for _, one := range []struct {
		name  string
		write func() ([]byte, error)
	}{
		{fmt.Sprintf("slipway_%s_%s.deb", given.version, given.architecture), func() ([]byte, error) { return debian(made, given, built) }},
		{fmt.Sprintf("slipway-%s-1.%s.rpm", given.version, foreign), func() ([]byte, error) { return redHat(made, given, foreign, built) }},
	} {
		content, err := one.write()
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		if err := os.WriteFile(filepath.Join(given.out, one.name), content, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d files, %.1f MB\n", one.name, len(made.files), float64(len(content))/1e6)
	}
	return nil
}
