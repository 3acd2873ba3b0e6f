package main

import (
	"archive/tar"
	"bytes"
	_ "crypto/sha256" // the digests of content
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// image is a finished archive. unpacked is the size of all layers on a node, of
// all architectures.
type image struct {
	archive       []byte
	digest        string
	architectures []string
	unpacked      int
}

// blobs are the files of a layout, in the order of their creation, which makes
// the archive deterministic.
type blobs []ocispec.Descriptor

// add stores a blob in the descriptor that it returns.
func (b *blobs) add(mediaType string, blob []byte) ocispec.Descriptor {
	described := content.NewDescriptorFromBytes(mediaType, blob)
	// Images of several architectures share their base.
	if slices.ContainsFunc(*b, func(other ocispec.Descriptor) bool { return other.Digest == described.Digest }) {
		return described
	}
	stored := described
	stored.Data = blob
	*b = append(*b, stored)
	return described
}

// addJSON stores a value as JSON. Keys of maps are sorted by the encoder, so
// equal values give equal digests.
func (b *blobs) addJSON(mediaType string, value any) (ocispec.Descriptor, error) {
	blob, err := json.Marshal(value)
	return b.add(mediaType, blob), err
}

// buildImage returns the image as an archive in memory, which is some tens of
// megabytes for each architecture. Blobs are created bottom up, because each one
// contains the digests of those below it: layers, config, manifest, index.
func buildImage(given options, created time.Time) (image, error) {
	// An archive without a tag would be imported without a name.
	tag, ok := splitTag(given.name)
	if !ok {
		return image{}, fmt.Errorf("--name %q has no tag: write one, such as %s:1.0.0", given.name, given.name)
	}
	var made image
	var all blobs
	var manifests []ocispec.Descriptor
	for i := range given.binaries {
		manifest, err := made.addPlatform(given, i, created, &all)
		if err != nil {
			return image{}, err
		}
		manifests = append(manifests, manifest)
	}
	top, err := all.joinPlatforms(manifests, labelsOf(given, created.Format(time.RFC3339)))
	if err != nil {
		return image{}, err
	}
	// The digest identifies the image in a registry. It is taken before the
	// annotations below, which are part of the archive's index only.
	made.digest = top.Digest.String()
	// containerd reads the full name from its own annotation; other tools read
	// the tag from the standard one.
	top.Annotations = map[string]string{"io.containerd.image.name": given.name, ocispec.AnnotationRefName: tag}
	made.archive, err = packLayout(top, all)
	return made, err
}

// addPlatform adds the image of one program, and returns its manifest.
func (made *image) addPlatform(given options, i int, created time.Time, all *blobs) (ocispec.Descriptor, error) {
	architecture, err := staticArchitecture(given.binaries[i])
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layers, err := buildLayers(given, i)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	made.architectures = append(made.architectures, architecture)
	labels := labelsOf(given, created.Format(time.RFC3339))
	config := ocispec.Image{
		Created: &created, Platform: ocispec.Platform{Architecture: architecture, OS: "linux"}, RootFS: ocispec.RootFS{Type: "layers"},
		Config: ocispec.ImageConfig{
			User: userAndGroup, Env: []string{"PATH=/usr/local/bin"}, WorkingDir: "/", Labels: labels,
			Entrypoint: append([]string{programPath(given.binaries[i])}, given.words...),
		},
	}
	list := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Annotations: labels}
	for _, one := range layers {
		list.Layers = append(list.Layers, all.add(ocispec.MediaTypeImageLayerGzip, one.packed))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, content.NewDescriptorFromBytes("", one.unpacked).Digest)
		config.History = append(config.History, ocispec.History{Created: &created, CreatedBy: one.about})
		made.unpacked += len(one.unpacked)
	}
	if list.Config, err = all.addJSON(ocispec.MediaTypeImageConfig, config); err != nil {
		return ocispec.Descriptor{}, err
	}
	manifest, err := all.addJSON(ocispec.MediaTypeImageManifest, list)
	manifest.Platform = &config.Platform
	return manifest, err
}

// labelsOf returns the predefined annotations of the specification. They are
// also the labels of the config, which docker inspect shows.
func labelsOf(given options, date string) map[string]string {
	labels := map[string]string{
		ocispec.AnnotationTitle:    path.Base(filepath.ToSlash(given.binaries[0])),
		ocispec.AnnotationCreated:  date,
		ocispec.AnnotationLicenses: "Apache-2.0",
		ocispec.AnnotationSource:   "https://slipway.dev/slipway",
	}
	if given.version != "" {
		labels[ocispec.AnnotationVersion] = given.version
	}
	if given.revision != "" {
		labels[ocispec.AnnotationRevision] = given.revision
	}
	return labels
}

// staticArchitecture returns the architecture of a static executable. A program
// with an interpreter segment needs a dynamic linker, which the image does not
// have; it would fail only at start, with a confusing "no such file".
func staticArchitecture(binary string) (string, error) {
	file, err := elf.Open(binary)
	if err != nil {
		return "", fmt.Errorf("%s is no program for Linux: %w", binary, err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s needs a dynamic linker, and the image has none: build it with CGO_ENABLED=0", binary)
		}
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	default:
		return "", fmt.Errorf("%s is for the machine %s, and images are for x86-64 and arm64", binary, file.Machine)
	}
}

// packLayout writes the layout of one image as a tar. The index comes first, so
// that a reader can find the blobs without seeking.
func packLayout(top ocispec.Descriptor, all blobs) ([]byte, error) {
	list, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{top},
	})
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	files := newArchive(&packed)
	files.file(ocispec.ImageLayoutFile, 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	files.file(ocispec.ImageIndexFile, 0o644, list)
	files.folder(ocispec.ImageBlobsDir, 0o755)
	files.folder("blobs/sha256", 0o755)
	for _, blob := range all {
		files.file("blobs/sha256/"+blob.Digest.Encoded(), 0o644, blob.Data)
	}
	// The end of the archive is written by close, so it comes before Bytes.
	err = files.close()
	return packed.Bytes(), err
}

// archive writes a tar without owners and times of the build machine. It keeps
// the first error and ignores later writes, so callers check once, in close.
type archive struct {
	writer *tar.Writer
	err    error
}

// newArchive returns an empty archive.
func newArchive(to *bytes.Buffer) *archive { return &archive{writer: tar.NewWriter(to)} }

// file adds a regular file.
func (a *archive) file(name string, mode int64, content []byte) {
	a.write(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content)
}

// folder adds a directory. Parents have to be added first, or an unpacker
// chooses their mode.
func (a *archive) folder(name string, mode int64) {
	a.write(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

// write adds an entry with a fixed time and format. It does nothing after an
// error.
func (a *archive) write(header *tar.Header, content []byte) {
	if a.err != nil {
		return
	}
	header.ModTime, header.Format = time.Unix(0, 0), tar.FormatUSTAR
	if a.err = a.writer.WriteHeader(header); a.err == nil {
		_, a.err = a.writer.Write(content)
	}
}

// close writes the trailer and returns the first error.
func (a *archive) close() error {
	if a.err != nil {
		return a.err
	}
	return a.writer.Close()
}

// readBounded reads a file of at most the given size. A wrong path, such as one
// to an archive, then fails before it fills the memory.
func readBounded(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, and at most %d go into the image", name, info.Size(), most)
	}
	return os.ReadFile(name)
}
