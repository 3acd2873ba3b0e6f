package edit

import (
	"cmp"
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/gitops/imageupdate/strategy"
)

// imageKey is the field of containers, and of most other objects, with an image.
const imageKey = "image"

// SetManifestImages sets every field image of the manifests of a file that names the
// repository of an image. It returns the references that it has replaced.
func SetManifestImages(text []byte, image strategy.Image, reference string) (changed []byte, replaced []string, err error) {
	documents, err := parseAll(text)
	if err != nil {
		return nil, nil, err
	}
	var found []*yaml.Node
	for _, document := range documents {
		found = collectImages(document, image, found)
	}
	found = slices.DeleteFunc(found, func(node *yaml.Node) bool { return node.Value == reference })
	// From the end, so that the places before stay where they are.
	slices.SortFunc(found, func(x, y *yaml.Node) int { return cmp.Or(y.Line-x.Line, y.Column-x.Column) })
	changed = text
	for _, node := range found {
		var ok bool
		if changed, ok = replaceScalar(changed, node, reference); !ok {
			return nil, nil, errors.New("an image of it is written over several lines: write it on one")
		}
		replaced = append(replaced, node.Value)
		setScalar(node, reference)
	}
	after, err := parseAll(changed)
	if err != nil || !slices.EqualFunc(documents, after, equal) {
		return nil, nil, errors.New("its images cannot be changed without changing more of it")
	}
	return changed, replaced, nil
}

// collectImages adds the fields below a node that name an image.
func collectImages(node *yaml.Node, image strategy.Image, found []*yaml.Node) []*yaml.Node {
	for i, below := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && node.Content[i-1].Value == imageKey && below.Kind == yaml.ScalarNode {
			if named, err := strategy.ParseImage(below.Value); err == nil && named.Same(image) {
				found = append(found, below)
			}
			continue
		}
		found = collectImages(below, image, found)
	}
	return found
}
