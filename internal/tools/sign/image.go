package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Names of cosign's format, from its SIGNATURE_SPEC.md and pkg/oci/layout.
const (
	payloadType         = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	// kind lets cosign verify --local-image find the image and its signature
	// in a layout.
	kind           = "kind"
	kindImage      = "dev.cosignproject.cosign/image"
	kindSignatures = "dev.cosignproject.cosign/sigs"
	// containerdName has the full name of the image; see internal/tools/ociimage.
	containerdName = "io.containerd.image.name"
)

// payload is what is signed for an image: Red Hat's simple signing.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

// blobs are files to add to a layout, by their path.
type blobs map[string][]byte

// add stores a value as JSON and returns its descriptor.
func (b blobs) add(mediaType string, value any) (ocispec.Descriptor, error) {
	blob, err := json.Marshal(value)
	described := content.NewDescriptorFromBytes(mediaType, blob)
	b["blobs/sha256/"+described.Digest.Encoded()] = blob
	return described, err
}

// signImage returns the archive of an image layout with a signature of its
// image. It is tagged sha256-DIGEST.sig, which is where cosign looks in a
// registry.
func signImage(key *ecdsa.PrivateKey, archive []byte) ([]byte, error) {
	var index ocispec.Index
	if err := readIndex(archive, &index); err != nil {
		return nil, err
	}
	if len(index.Manifests) != 1 {
		return nil, fmt.Errorf("the archive has %d images, and one is expected", len(index.Manifests))
	}
	image := &index.Manifests[0]
	name := image.Annotations[containerdName]
	tag := strings.LastIndexByte(name, ':')
	if tag < 0 {
		return nil, fmt.Errorf("the image has the name %q, and one with a tag is expected: make image writes it", name)
	}
	image.Annotations[kind] = kindImage
	added := blobs{}
	top, err := added.signature(key, name[:tag], *image)
	if err != nil {
		return nil, err
	}
	top.Annotations = map[string]string{kind: kindSignatures, ocispec.AnnotationRefName: "sha256-" + image.Digest.Encoded() + ".sig"}
	index.Manifests = append(index.Manifests, top)
	return rewrite(archive, index, added)
}

// signature adds payload, config and manifest of a signature, and returns the
// manifest. The config is an image's, because every registry accepts those.
func (b blobs) signature(key *ecdsa.PrivateKey, reference string, image ocispec.Descriptor) (ocispec.Descriptor, error) {
	var claim payload
	claim.Critical.Identity.Reference = reference
	claim.Critical.Image.Digest = image.Digest.String()
	claim.Critical.Type = "cosign container image signature"
	layer, err := b.add(payloadType, claim)
	if err != nil {
		return layer, err
	}
	signature, err := signBlob(key, b["blobs/sha256/"+layer.Digest.Encoded()])
	if err != nil {
		return layer, err
	}
	layer.Annotations = map[string]string{signatureAnnotation: string(signature)}
	config := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers"}}
	config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, layer.Digest)
	configured, err := b.add(ocispec.MediaTypeImageConfig, config)
	if err != nil {
		return configured, err
	}
	return b.add(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: configured, Layers: []ocispec.Descriptor{layer},
	})
}

// readIndex reads index.json of an archive.
func readIndex(archive []byte, index *ocispec.Index) error {
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if err != nil {
			return fmt.Errorf("find index.json in the archive: %w", err)
		}
		if header.Name == ocispec.ImageIndexFile {
			return json.NewDecoder(reader).Decode(index)
		}
	}
}

// rewrite copies an archive with another index and more blobs.
func rewrite(archive []byte, index ocispec.Index, added blobs) ([]byte, error) {
	list, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	var written bytes.Buffer
	writer := tar.NewWriter(&written)
	put := func(header *tar.Header, content []byte) error {
		header.Size = int64(len(content))
		err := writer.WriteHeader(header)
		_, failed := writer.Write(content)
		return errors.Join(err, failed)
	}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		if header.Name == ocispec.ImageIndexFile {
			content = list
		}
		if err := errors.Join(err, put(header, content)); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		if err := put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Format: tar.FormatUSTAR}, added[name]); err != nil {
			return nil, err
		}
	}
	// The end of the archive is written by Close, so it comes before Bytes.
	err = writer.Close()
	return written.Bytes(), err
}
