// Package gatewayapi has the CustomResourceDefinitions of Gateway API: those of
// the module that the edge is built with, in the standard channel, which has every
// kind that the edge serves. They are the work of the authors of Gateway API, under
// the Apache License 2.0, and are not changed.
//
// A cluster has one set of them, which other controllers use too. So they are
// created where they are missing, and a newer version, or the experimental channel,
// is never replaced: see [Definition.Replaces].
package gatewayapi

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// Group is the API group of the definitions.
	Group = "gateway.networking.k8s.io"
	// VersionAnnotation has the release of Gateway API that a definition is from.
	VersionAnnotation = "gateway.networking.k8s.io/bundle-version"
	// ChannelAnnotation has its channel.
	ChannelAnnotation = "gateway.networking.k8s.io/channel"
	// Channel is that of the definitions of this package.
	Channel = "standard"
)

// compressed has the definitions as one YAML text. make generate writes it.
//
//go:embed definitions.yaml.gz
var compressed []byte

// Definition is a CustomResourceDefinition.
type Definition struct {
	// Name is that of the object, and Version its release of Gateway API.
	Name, Version string
	// Text is the manifest.
	Text []byte
}

// Definitions returns the definitions, sorted by the names of their files.
func Definitions() ([]Definition, error) {
	text, err := Text()
	if err != nil {
		return nil, err
	}
	var found []Definition
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		d := Definition{Name: field(document, "  name: "), Version: field(document, "    "+VersionAnnotation+": "), Text: document}
		if d.Name == "" || d.Version == "" {
			return nil, fmt.Errorf("definition %d of Gateway API has no name or no version", len(found)+1)
		}
		found = append(found, d)
	}
	return found, nil
}

// Text returns the manifests of all definitions.
func Text() ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("read the definitions of Gateway API: %w", err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("read the definitions of Gateway API: %w", err)
	}
	return text, nil
}

// field returns the value after the first line with a prefix. Metadata comes first
// in a definition, so that nothing has to be parsed: they have a megabyte of YAML.
func field(document []byte, prefix string) string {
	for line := range strings.Lines(string(document)) {
		if value, found := strings.CutPrefix(line, prefix); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Replaces reports whether the definition may take the place of one with these
// annotations, which is in a cluster: an older one of the same channel. Objects may
// have fields of a newer version or the experimental channel, which would be lost.
func (d Definition) Replaces(annotations map[string]string) bool {
	if annotations[ChannelAnnotation] != Channel {
		return false
	}
	live, err := version.ParseSemantic(annotations[VersionAnnotation])
	if err != nil {
		return false // of unknown age
	}
	own, err := version.ParseSemantic(d.Version)
	return err == nil && live.LessThan(own)
}
