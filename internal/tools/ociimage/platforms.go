package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// list is a flag that can be repeated.
type list []string

// String implements flag.Value.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// joinPlatforms returns what the archive names: the one manifest, or an index of
// several. A node then pulls the image of its own architecture by one name.
func (b *blobs) joinPlatforms(manifests []ocispec.Descriptor, labels map[string]string) (ocispec.Descriptor, error) {
	if len(manifests) == 1 {
		return manifests[0], nil
	}
	var seen []string
	for _, one := range manifests {
		if slices.Contains(seen, one.Platform.Architecture) {
			return ocispec.Descriptor{}, fmt.Errorf("two programs are for %s", one.Platform.Architecture)
		}
		seen = append(seen, one.Platform.Architecture)
	}
	return b.addJSON(ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests, Annotations: labels,
	})
}
