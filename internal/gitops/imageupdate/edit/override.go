package edit

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SetParameters sets parameters of Helm in a file .argocd-source-NAME.yaml, which Argo CD
// merges into the source. They are sorted by name.
func SetParameters(text []byte, values []Value) ([]byte, error) {
	return apply(text, operation{mutate: func(root *yaml.Node) error {
		list, err := overrideList(root, "helm", "parameters")
		if err != nil {
			return err
		}
		for _, value := range values {
			entry := findEntry(list, value.Path)
			if entry == nil {
				entry = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				add(entry, "name", newScalar(value.Path))
				list.Content = append(list.Content, entry)
			}
			setEntry(entry, "value", newScalar(value.Value))
			// The Image Updater writes forcestring.
			remove(entry, "forcestring")
			setEntry(entry, "forceString", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
		}
		slices.SortStableFunc(list.Content, func(x, y *yaml.Node) int {
			_, one := get(x, "name")
			_, other := get(y, "name")
			if one == nil || other == nil {
				return 0
			}
			return strings.Compare(one.Value, other.Value)
		})
		return nil
	}})
}

// GetParameter returns a parameter of Helm in such a file; empty if there is none.
func GetParameter(text []byte, name string) string {
	root, err := parseOne(text)
	if err != nil {
		return ""
	}
	list, err := overrideList(root, "helm", "parameters")
	if err != nil {
		return ""
	}
	if _, value := get(findEntry(list, name), "value"); value != nil {
		return value.Value
	}
	return ""
}

// SetOverrideImage sets an image of Kustomize in such a file, in the form that
// kustomize edit set image takes: [name=]newname:tag.
func SetOverrideImage(text []byte, name, reference string) ([]byte, error) {
	return apply(text, operation{mutate: func(root *yaml.Node) error {
		list, err := overrideList(root, "kustomize", "images")
		if err != nil {
			return err
		}
		for _, entry := range list.Content {
			if entry.Kind == yaml.ScalarNode && overrideName(entry.Value) == name {
				setScalar(entry, reference)
				return nil
			}
		}
		list.Content = append(list.Content, newScalar(reference))
		return nil
	}})
}

// GetOverrideImage returns an image of Kustomize in such a file; empty if there is none.
func GetOverrideImage(text []byte, name string) string {
	root, err := parseOne(text)
	if err != nil {
		return ""
	}
	list, err := overrideList(root, "kustomize", "images")
	if err != nil {
		return ""
	}
	for _, entry := range list.Content {
		if entry.Kind == yaml.ScalarNode && overrideName(entry.Value) == name {
			return entry.Value
		}
	}
	return ""
}

// overrideName is the name in the manifests that an image of the list replaces.
func overrideName(reference string) string {
	if name, _, found := strings.Cut(reference, "="); found {
		return name
	}
	reference, _, _ = strings.Cut(reference, "@")
	if at := strings.LastIndexByte(reference, ':'); at >= 0 && !strings.Contains(reference[at:], "/") {
		reference = reference[:at]
	}
	return reference
}

// overrideList returns a list of the file, which is added if there is none.
func overrideList(root *yaml.Node, section, key string) (*yaml.Node, error) {
	at := root.Content[0]
	for _, next := range []struct {
		key  string
		kind yaml.Kind
		tag  string
	}{{section, yaml.MappingNode, "!!map"}, {key, yaml.SequenceNode, "!!seq"}} {
		_, below := get(at, next.key)
		if below == nil {
			below = &yaml.Node{Kind: next.kind, Tag: next.tag}
			add(at, next.key, below)
		}
		if isEmpty(below) {
			below.Kind, below.Tag, below.Value, below.Style = next.kind, next.tag, "", 0
		}
		if below.Kind != next.kind {
			return nil, errShape
		}
		at = below
	}
	return at, nil
}

// findEntry returns the entry of a list by its name; nil if there is none.
func findEntry(list *yaml.Node, name string) *yaml.Node {
	for _, entry := range list.Content {
		if _, value := get(entry, "name"); value != nil && value.Kind == yaml.ScalarNode && value.Value == name {
			return entry
		}
	}
	return nil
}

// setEntry sets a key of an entry.
func setEntry(entry *yaml.Node, key string, value *yaml.Node) {
	if _, there := get(entry, key); there != nil {
		there.Kind, there.Tag, there.Value, there.Style, there.Content = value.Kind, value.Tag, value.Value, value.Style, nil
		return
	}
	add(entry, key, value)
}
