// Ociimage builds a container image without a container engine: an archive in
// the OCI image layout with one static program, the CA certificates that it
// trusts, and a user that is not root. `make image` runs it. With a program for
// each of several architectures it builds one image for all of them.
//
// The same inputs give the same bytes: times, owners and order do not come from
// the build machine. It rejects a program that needs a dynamic linker, because
// the image has none.
//
// See decision 0029 in docs/decisions: images from the types of the
// specification, and decision 0073: releases for every platform at once.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options are the flags. words are the first arguments of the entry point. The
// bills of materials are in the order of the programs.
type options struct {
	out, authorities, name, version, revision string
	binaries, sboms                           list
	words                                     []string
}

// main parses the flags and exits with 1 on an error.
func main() {
	var given options
	flag.StringVar(&given.out, "out", "", "archive to write")
	flag.Var(&given.binaries, "binary", "the program: a static executable for Linux; repeated, with the same file name, for an image of several architectures")
	flag.StringVar(&given.authorities, "authorities", "/etc/ssl/certs/ca-certificates.crt", "certificate authorities in PEM; empty for none")
	flag.Var(&given.sboms, "sbom", "software bill of materials for the image, in CycloneDX JSON, one for each program; none without it")
	flag.StringVar(&given.name, "name", "", "name of the image with a tag, such as slipway.dev/slipway:1.0.0")
	flag.StringVar(&given.version, "version", "", "version for the labels")
	flag.StringVar(&given.revision, "revision", "", "commit for the labels")
	flag.Parse()
	given.words = flag.Args()
	if err := run(given); err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
}

// run builds the image, writes the archive and prints its name, sizes and
// digest.
func run(given options) error {
	for _, one := range []struct{ flag, value string }{{"out", given.out}, {"binary", given.binaries.String()}, {"name", given.name}} {
		if one.value == "" {
			return fmt.Errorf("--%s is missing", one.flag)
		}
	}
	if len(given.sboms) > 0 && len(given.sboms) != len(given.binaries) {
		return fmt.Errorf("there are %d programs and %d bills of materials", len(given.binaries), len(given.sboms))
	}
	created, err := creation(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	made, err := buildImage(given, created)
	if err != nil {
		return err
	}
	if err := replaceFile(given.out, made.archive); err != nil {
		return err
	}
	fmt.Printf("%s: %s for linux/%s, %.1f MB packed, %.1f MB unpacked, %s\n",
		given.out, given.name, strings.Join(made.architectures, ", linux/"), megabytes(len(made.archive)), megabytes(made.unpacked), made.digest)
	return nil
}

// creation returns the creation time of the image, from SOURCE_DATE_EPOCH or
// 1970. It must not be the time of the build:
// https://reproducible-builds.org/specs/source-date-epoch/.
func creation(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q: it has to be the seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// replaceFile writes a file atomically by renaming a temporary one in the same
// folder, so that a parallel reader never loads a partial image.
func replaceFile(path string, content []byte) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	// After the rename there is no such file, and the error is ignored.
	defer os.Remove(next.Name())
	_, err = next.Write(content)
	err = errors.Join(err, next.Chmod(0o644), next.Close())
	if err != nil {
		return err
	}
	return os.Rename(next.Name(), path)
}

// megabytes converts bytes for the report.
func megabytes(n int) float64 { return float64(n) / 1e6 }

// splitTag returns the tag of an image name. A colon before a slash belongs to
// the port of a registry.
func splitTag(name string) (tag string, ok bool) {
	at := strings.LastIndexByte(name, ':')
	if at < 0 || strings.ContainsRune(name[at:], '/') || at == len(name)-1 {
		return "", false
	}
	return name[at+1:], true
}
