package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/slipway/internal/must"
)

// world is a program and authorities to make images of.
func world(t *testing.T) options {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	write(t, source, "package main\n\nfunc main() { println(\"here\") }\n")
	binary := filepath.Join(dir, "slipway")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	authorities := filepath.Join(dir, "authorities.crt")
	write(t, authorities, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	sbom := filepath.Join(dir, "bill.json")
	write(t, sbom, `{"bomFormat":"CycloneDX"}`)
	return options{
		out: filepath.Join(dir, "image.tar"), binaries: list{binary}, authorities: authorities, sboms: list{sbom},
		name: "registry.example.com:5000/slipway:1.2.3", version: "1.2.3", revision: "abc", words: []string{"edge"},
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// untar reads an archive: the content of its files, and the headers of its entries.
func untar(t *testing.T, content []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	files, headers := map[string][]byte{}, map[string]*tar.Header{}
	for reader := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		must.Do(t, err)
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
	}
}

// blob is what a descriptor names, whose digest and size have to be right.
func blob(t *testing.T, files map[string][]byte, named ocispec.Descriptor) []byte {
	t.Helper()
	content, found := files["blobs/sha256/"+named.Digest.Encoded()]
	if !found || digestOf(content) != named.Digest.String() || int64(len(content)) != named.Size {
		t.Fatalf("%+v: found %t, %d bytes, %s", named, found, len(content), digestOf(content))
	}
	return content
}

// digestOf is the digest of a blob, computed without the library.
func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func decode[T any](t *testing.T, text []byte) (value T) {
	t.Helper()
	must.Do(t, json.Unmarshal(text, &value))
	return value
}

// TestImageReadsBack reads an archive as a container runtime does: from the index
// to the files of the layers.
func TestImageReadsBack(t *testing.T) {
	given := world(t)
	must.Do(t, run(given))
	// Go reads an archive without an end, and others do not.
	if out, err := exec.CommandContext(t.Context(), "tar", "-tf", given.out).CombinedOutput(); err != nil {
		t.Errorf("tar cannot read the archive: %v: %s", err, out)
	}
	archive := must.Get(os.ReadFile(given.out))(t)
	files, _ := untar(t, archive)
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("the layout is %q", files["oci-layout"])
	}
	top := decode[ocispec.Index](t, files["index.json"]).Manifests[0]
	if top.Annotations["io.containerd.image.name"] != given.name || top.Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Errorf("the image is named %v", top.Annotations)
	}
	list := decode[ocispec.Manifest](t, blob(t, files, top))
	config := decode[ocispec.Image](t, blob(t, files, list.Config))
	if config.Architecture != "amd64" || config.OS != "linux" || config.Created.Unix() != 0 {
		t.Errorf("the configuration is %+v", config)
	}
	if start := config.Config; start.User != "65532:65532" || !slices.Equal(start.Entrypoint, []string{"/usr/local/bin/slipway", "edge"}) ||
		start.Labels["org.opencontainers.image.version"] != "1.2.3" || start.Labels["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("a container starts with %+v", start)
	}
	checkLayers(t, given, files, list.Layers, config)
}

// checkLayers looks at the file system of the image.
func checkLayers(t *testing.T, given options, files map[string][]byte, layers []ocispec.Descriptor, config ocispec.Image) {
	t.Helper()
	root, modes := map[string][]byte{}, map[string]*tar.Header{}
	for i, one := range layers {
		reader := must.Get(gzip.NewReader(bytes.NewReader(blob(t, files, one))))(t)
		content, err := io.ReadAll(reader)
		if err != nil || digestOf(content) != config.RootFS.DiffIDs[i].String() {
			t.Fatalf("layer %d is %s and not %s: %v", i, digestOf(content), config.RootFS.DiffIDs[i], err)
		}
		below, headers := untar(t, content)
		for name := range below {
			root[name], modes[name] = below[name], headers[name]
		}
	}
	for name, mode := range map[string]int64{"usr/local/bin/slipway": 0o755, "etc/passwd": 0o644, "tmp/": 0o1777, "etc/ssl/certs/ca-certificates.crt": 0o644,
		"usr/local/share/sbom/slipway.cdx.json": 0o644} {
		header, found := modes[name]
		if !found || header.Mode != mode || header.Uid != 0 || header.ModTime.Unix() != 0 || header.Uname != "" {
			t.Errorf("%s is %+v", name, header)
		}
	}
	if program, err := os.ReadFile(given.binaries[0]); err != nil || !bytes.Equal(program, root["usr/local/bin/slipway"]) {
		t.Errorf("the program has %d bytes in the image: %v", len(root["usr/local/bin/slipway"]), err)
	}
	if bill := string(root["usr/local/share/sbom/slipway.cdx.json"]); bill != `{"bomFormat":"CycloneDX"}` {
		t.Errorf("the bill of materials is %q", bill)
	}
	if !strings.Contains(string(root["etc/passwd"]), "slipway:x:65532:65532:") {
		t.Errorf("the users are %s", root["etc/passwd"])
	}
}

// TestSameImageTwice: nothing of the machine or the moment is in an image, and the
// time in it is given.
func TestSameImageTwice(t *testing.T) {
	given := world(t)
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var made [2][]byte
	for i := range made {
		must.Do(t, run(given))
		content := must.Get(os.ReadFile(given.out))(t)
		made[i] = content
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same program gives two images")
	}
	if !bytes.Contains(made[0], []byte(`"created":"2023-11-14T22:13:20Z"`)) {
		t.Error("the image does not tell the time that was given")
	}
}

// TestRefusals: what would give an image that does not start is refused.
func TestRefusals(t *testing.T) {
	good := world(t)
	text := filepath.Join(t.TempDir(), "text")
	write(t, text, "no certificate, no program")
	for _, one := range []struct {
		name, epoch, want string
		change            func(*options)
	}{
		{"no name", "", "--name is missing", func(o *options) { o.name = "" }},
		{"no tag", "", "has no tag", func(o *options) { o.name = "registry.example.com:5000/slipway" }},
		{"no program", "", "is no program for Linux", func(o *options) { o.binaries = list{text} }},
		{"no authorities", "", "has no certificate", func(o *options) { o.authorities = text }},
		{"a file that is missing", "", "ca-certificates", func(o *options) { o.authorities = text + "-not" }},
		{"no bill of materials", "", "text-not", func(o *options) { o.sboms = list{text + "-not"} }},
		{"a bill of materials too many", "", "1 programs and 2 bills", func(o *options) { o.sboms = append(slices.Clone(o.sboms), o.sboms[0]) }},
		{"the same architecture twice", "", "two programs are for amd64", func(o *options) { o.binaries, o.sboms = list{o.binaries[0], o.binaries[0]}, nil }},
		{"a time that is none", "yesterday", "seconds since 1970", func(*options) {}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", one.epoch)
			given := good
			one.change(&given)
			if err := run(given); err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("the error is %v, not one with %q", err, one.want)
			}
		})
	}
	if _, err := os.Stat(good.out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is an archive after all: %v", err)
	}
}

// TestDynamicProgram: a program that needs a linker would not start.
func TestDynamicProgram(t *testing.T) {
	given := world(t)
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip("there is no shell to take")
	}
	given.binaries = list{shell}
	if err := run(given); err == nil || !strings.Contains(err.Error(), "dynamic linker") {
		t.Errorf("the error is %v", err)
	}
}

// TestTwoArchitectures: an image of two programs has one name and one index, from
// which each machine gets its own, and the layer that they share is there once.
func TestTwoArchitectures(t *testing.T) {
	given := world(t)
	other := filepath.Join(t.TempDir(), "slipway")
	// The number of the machine is in the header of the file.
	program := must.Get(os.ReadFile(given.binaries[0]))(t)
	program[18], program[19] = 183, 0
	must.Do(t, os.WriteFile(other, program, 0o600))
	given.binaries, given.sboms = append(given.binaries, other), append(given.sboms, given.sboms[0])
	must.Do(t, run(given))
	files, _ := untar(t, must.Get(os.ReadFile(given.out))(t))
	top := decode[ocispec.Index](t, files["index.json"]).Manifests
	if len(top) != 1 || top[0].MediaType != ocispec.MediaTypeImageIndex || top[0].Annotations["io.containerd.image.name"] != given.name {
		t.Fatalf("the archive has %+v", top)
	}
	var bases []string
	for i, one := range decode[ocispec.Index](t, blob(t, files, top[0])).Manifests {
		manifest := decode[ocispec.Manifest](t, blob(t, files, one))
		config := decode[ocispec.Image](t, blob(t, files, manifest.Config))
		if want := []string{"amd64", "arm64"}[i]; one.Platform.Architecture != want || config.Architecture != want || one.Platform.OS != "linux" {
			t.Errorf("image %d is for %+v and %s", i, one.Platform, config.Architecture)
		}
		checkLayers(t, options{binaries: given.binaries[i : i+1]}, files, manifest.Layers, config)
		bases = append(bases, manifest.Layers[0].Digest.String())
	}
	if len(bases) != 2 || bases[0] != bases[1] {
		t.Errorf("the base layers are %v", bases)
	}
}
