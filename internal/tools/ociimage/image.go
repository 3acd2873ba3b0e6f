package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"
)

// Media types of the OCI image specification.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob by type, digest and size.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// platform is the target of an image.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// index is the root of the layout, and lists the manifests.
type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// manifest lists the config and the layers of an image.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// imageConfig is the config blob of an image. DiffIDs in RootFS are the digests
// of the uncompressed layers, in the order of the manifest.
type imageConfig struct {
	Created string `json:"created"`
	platform
	Config  execution `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
	History []history `json:"history"`
}

// execution defines how a container of the image starts. The keys are
// capitalized in the specification, unlike all others.
type execution struct {
	User       string            `json:"User"`
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint"`
	WorkingDir string            `json:"WorkingDir"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

// rootFS lists the layers.
type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// history describes how a layer was made, for docker history and scanners.
type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// image is a finished archive. unpacked is the size of all layers on a node.
type image struct {
	archive              []byte
	digest, architecture string
	unpacked             int
}

// blobs are the files of a layout by digest. order is that of their creation,
// which makes the archive deterministic.
type blobs struct {
	order   []string
	content map[string][]byte
}

// add stores a blob and returns its descriptor. Equal contents are stored once.
func (b *blobs) add(mediaType string, content []byte) descriptor {
	digest := digestOf(content)
	if _, there := b.content[digest]; !there {
		b.order = append(b.order, digest)
		b.content[digest] = content
	}
	return descriptor{MediaType: mediaType, Digest: digest, Size: len(content)}
}

// addJSON stores a value as JSON. Keys of maps are sorted by the encoder, so
// equal values give equal digests.
func (b *blobs) addJSON(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	return b.add(mediaType, content), err
}

// digestOf returns the digest of a blob in the form of the specification.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// buildImage returns the image as an archive in memory, which is some tens of
// megabytes. Blobs are created bottom up, because each one contains the digests
// of those below it: layers, config, manifest, index.
func buildImage(given options, created time.Time) (image, error) {
	architecture, err := staticArchitecture(given.binary)
	if err != nil {
		return image{}, err
	}
	// An archive without a tag would be imported without a name.
	tag, ok := splitTag(given.name)
	if !ok {
		return image{}, fmt.Errorf("--name %q has no tag: write one, such as %s:1.0.0", given.name, given.name)
	}
	layers, err := buildLayers(given)
	if err != nil {
		return image{}, err
	}
	made := image{architecture: architecture}
	all := &blobs{content: map[string][]byte{}}
	date := created.Format(time.RFC3339)
	labels := labelsOf(given, date)
	config := imageConfig{
		Created: date, platform: platform{architecture, "linux"}, RootFS: rootFS{Type: "layers"},
		Config: execution{
			User: userAndGroup, Env: []string{"PATH=/usr/local/bin"}, WorkingDir: "/", Labels: labels,
			Entrypoint: append([]string{programPath(given.binary)}, given.words...),
		},
	}
	list := manifest{SchemaVersion: 2, MediaType: mediaManifest, Annotations: labels}
	for _, one := range layers {
		list.Layers = append(list.Layers, all.add(mediaLayer, one.packed))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digestOf(one.unpacked))
		config.History = append(config.History, history{date, one.about})
		made.unpacked += len(one.unpacked)
	}
	if list.Config, err = all.addJSON(mediaConfig, config); err != nil {
		return image{}, err
	}
	top, err := all.addJSON(mediaManifest, list)
	if err != nil {
		return image{}, err
	}
	// The digest of the manifest identifies the image in a registry. It is
	// taken before the annotations below, which are part of the index only.
	made.digest = top.Digest
	top.Platform = &config.platform
	// containerd reads the full name from its own annotation; other tools read
	// the tag from the standard one.
	top.Annotations = map[string]string{"io.containerd.image.name": given.name, "org.opencontainers.image.ref.name": tag}
	made.archive, err = packLayout(index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{top}}, all)
	return made, err
}

// labelsOf returns the predefined annotations of the specification. They are
// also the labels of the config, which docker inspect shows.
func labelsOf(given options, date string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":    path.Base(filepath.ToSlash(given.binary)),
		"org.opencontainers.image.created":  date,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://slipway.dev/slipway",
	}
	if given.version != "" {
		labels["org.opencontainers.image.version"] = given.version
	}
	if given.revision != "" {
		labels["org.opencontainers.image.revision"] = given.revision
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

// packLayout writes the layout as a tar. The index comes first, so that a
// reader can find the blobs without seeking.
func packLayout(top index, all *blobs) ([]byte, error) {
	list, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	files := newArchive(&packed)
	files.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	files.file("index.json", 0o644, list)
	files.folder("blobs", 0o755)
	files.folder("blobs/sha256", 0o755)
	for _, digest := range all.order {
		files.file("blobs/sha256/"+digest[len("sha256:"):], 0o644, all.content[digest])
	}
	return packed.Bytes(), files.close()
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
