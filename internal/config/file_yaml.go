package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML parses one YAML document with a mapping at its top, or an empty
// one. Errors keep the line number and drop what they quote of the file.
func parseYAML(content []byte) ([]fileNode, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		// An empty file or one with comments only is valid.
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, errors.New(withoutQuotes(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	// A second document would be ignored silently otherwise.
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document: keep one")
	}
	top, err := yamlNode(document.Content[0], 0)
	if err != nil {
		return nil, err
	}
	switch top.shape {
	case group:
		return top.children, nil
	case bare, absent:
		return nil, nil
	}
	return nil, errors.New("the top is not a mapping: start with an option such as log or providers")
}

// yamlNode converts a value. Aliases are refused: a small file can expand them
// without bound, and no option needs them. It checks the depth before it
// recurses.
func yamlNode(value *yaml.Node, depth int) (fileNode, error) {
	if depth > maxDepth {
		return fileNode{}, fmt.Errorf("line %d: nested too deep", value.Line)
	}
	if value.Kind == yaml.AliasNode || value.Anchor != "" {
		return fileNode{}, fmt.Errorf("line %d: YAML anchors and aliases are not supported: write the value out", value.Line)
	}
	switch value.Kind {
	// Scalars stay text: each option parses its own type, so that version
	// numbers such as 1.10 are not read as floats.
	case yaml.ScalarNode:
		if value.ShortTag() == "!!null" {
			return fileNode{shape: absent}, nil
		}
		return fileNode{shape: single, values: []string{value.Value}}, nil
	case yaml.SequenceNode:
		return yamlList(value)
	}
	node := fileNode{shape: group}
	if len(value.Content) == 0 {
		node.shape = bare
	}
	for i := 0; i+1 < len(value.Content); i += 2 {
		key := value.Content[i]
		// Merge keys (<<) need aliases.
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return fileNode{}, fmt.Errorf("line %d: a key is not a plain name", key.Line)
		}
		child, err := yamlNode(value.Content[i+1], depth+1)
		if err != nil {
			return fileNode{}, err
		}
		child.key, child.line = key.Value, key.Line
		node.children = append(node.children, child)
	}
	return node, nil
}

// yamlList converts a list of scalars. Options have no other lists.
func yamlList(value *yaml.Node) (fileNode, error) {
	node := fileNode{shape: list}
	for _, item := range value.Content {
		if item.Kind != yaml.ScalarNode || item.Anchor != "" {
			return fileNode{}, fmt.Errorf("line %d: an item of a list is not a single value", item.Line)
		}
		node.values = append(node.values, item.Value)
	}
	return node, nil
}
