package edit

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// Image is an image of a kustomization: the fields of its list images.
type Image struct {
	// Name is that in the manifests. NewName is another one in its place; it may be
	// empty.
	Name, NewName string
	// Exactly one of NewTag and Digest is set.
	NewTag, Digest string
}

// errImages is the error of a list of images that is none.
var errImages = errors.New("images is no list of images")

// SetImage sets an image of a kustomization, as kustomize edit set image does.
func SetImage(text []byte, image Image) ([]byte, error) {
	root, err := parseOne(text)
	if err != nil {
		return nil, err
	}
	found, err := findImage(root, image.Name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return addImage(text, image)
	}
	keep, value, drop := "newTag", image.NewTag, "digest"
	if image.Digest != "" {
		keep, value, drop = "digest", image.Digest, "newTag"
	}
	for _, field := range []struct{ key, value string }{{"newName", image.NewName}, {keep, value}} {
		if field.value == "" || field.key == "newName" && field.value == image.Name {
			continue
		}
		if text, err = setImageField(text, image.Name, field.key, field.value); err != nil {
			return nil, err
		}
	}
	return apply(text, operation{
		mutate: func(root *yaml.Node) error {
			entry, err := findImage(root, image.Name)
			remove(entry, drop)
			return err
		},
		splice: func(text []byte, root *yaml.Node) ([]byte, bool) {
			entry, _ := findImage(root, image.Name)
			key, value := get(entry, drop)
			return removeLine(text, key, value)
		},
	})
}

// GetImage returns the image of a kustomization by its name in the manifests.
func GetImage(text []byte, name string) (image Image, found bool) {
	root, err := parseOne(text)
	if err != nil {
		return Image{}, false
	}
	entry, err := findImage(root, name)
	if err != nil || entry == nil {
		return Image{}, false
	}
	field := func(key string) string {
		if _, value := get(entry, key); value != nil && value.Kind == yaml.ScalarNode && value.Tag != nullTag {
			return value.Value
		}
		return ""
	}
	return Image{Name: name, NewName: field("newName"), NewTag: field("newTag"), Digest: field("digest")}, true
}

// findImage returns the entry of an image; nil if there is none.
func findImage(root *yaml.Node, name string) (*yaml.Node, error) {
	_, images := get(root.Content[0], "images")
	if images == nil || isEmpty(images) {
		return nil, nil
	}
	if images.Kind != yaml.SequenceNode {
		return nil, errImages
	}
	for _, entry := range images.Content {
		if entry.Kind != yaml.MappingNode {
			return nil, errImages
		}
		if _, value := get(entry, "name"); value != nil && value.Kind == yaml.ScalarNode && value.Value == name {
			return entry, nil
		}
	}
	return nil, nil
}

// setImageField sets a field of an entry.
func setImageField(text []byte, name, key, value string) ([]byte, error) {
	return apply(text, operation{
		mutate: func(root *yaml.Node) error {
			entry, err := findImage(root, name)
			if err != nil {
				return err
			}
			if _, there := get(entry, key); there != nil {
				setScalar(there, value)
			} else {
				add(entry, key, newScalar(value))
			}
			return nil
		},
		splice: func(text []byte, root *yaml.Node) ([]byte, bool) {
			entry, _ := findImage(root, name)
			if _, there := get(entry, key); there != nil {
				return replaceScalar(text, there, value)
			}
			return insertInto(text, entry, []string{key + ": " + quoted(value, 0)})
		},
	})
}

// addImage adds an entry to the list, which is added if there is none.
func addImage(text []byte, image Image) ([]byte, error) {
	lines := []string{"- name: " + quoted(image.Name, 0)}
	entry := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	add(entry, "name", newScalar(image.Name))
	for _, field := range []struct{ key, value string }{{"newName", image.NewName}, {"newTag", image.NewTag}, {"digest", image.Digest}} {
		if field.value == "" || field.key == "newName" && field.value == image.Name {
			continue
		}
		lines = append(lines, "  "+field.key+": "+quoted(field.value, 0))
		add(entry, field.key, newScalar(field.value))
	}
	return apply(text, operation{
		mutate: func(root *yaml.Node) error {
			_, images := get(root.Content[0], "images")
			if images == nil {
				images = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
				add(root.Content[0], "images", images)
			}
			if isEmpty(images) {
				images.Kind, images.Tag, images.Value = yaml.SequenceNode, "!!seq", ""
			}
			images.Content = append(images.Content, entry)
			return nil
		},
		splice: func(text []byte, root *yaml.Node) ([]byte, bool) {
			_, images := get(root.Content[0], "images")
			if images == nil {
				return appendToRoot(text, root, append([]string{"images:"}, lines...))
			}
			if images.Style&yaml.FlowStyle != 0 || len(images.Content) == 0 {
				return nil, false
			}
			last := images.Content[len(images.Content)-1]
			// Behind the last line of the last entry, with the dash where the list has it.
			text, at := lineEnd(text, max(offset(text, lastLine(last), 1), 0))
			return splice(text, at, at, indented(lines, images.Column-1)), true
		},
	})
}

// lastLine is the last line on which a node below another begins.
func lastLine(node *yaml.Node) int {
	line := node.Line
	for _, below := range node.Content {
		line = max(line, lastLine(below))
	}
	return line
}
