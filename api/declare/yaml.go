package declare

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// MaxBytes bounds the YAML of one value, in an annotation or an object.
	MaxBytes = 64 << 10
	// maxDepth bounds the nesting of lists and maps, and so the recursion of
	// yamlValue.
	maxDepth = 16
)

// ParseYAML parses one YAML document into the types that Decode takes. It
// refuses anchors, aliases, tags and duplicate names: with each of them the
// text means something else than it seems to, and aliases can expand
// exponentially. Empty text gives nil.
func ParseYAML(text string) (value any, err error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has %d bytes: at most %d are read", len(text), MaxBytes)
	}
	// The text is untrusted and the parser is a dependency: a panic in it must
	// not end the process.
	defer func() {
		if failure := recover(); failure != nil {
			value, err = nil, errors.New("it is not YAML")
		}
	}()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, fmt.Errorf("it is not YAML: %s", Shorten(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document: keep one")
	}
	return yamlValue(document.Content[0], 0)
}

// yamlValue converts a node. It takes nodes instead of decoded values, because
// only nodes still have anchors, tags and line numbers.
func yamlValue(node *yaml.Node, depth int) (any, error) {
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("line %d: it is nested too deep", node.Line)
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		return nil, fmt.Errorf("line %d: anchors and aliases are not possible: write the value out", node.Line)
	case node.Style&yaml.TaggedStyle != 0:
		return nil, fmt.Errorf("line %d: tags are not possible: write the value without %s", node.Line, Shorten(node.Tag))
	}
	switch node.Kind {
	case yaml.ScalarNode:
		return yamlScalar(node)
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for _, element := range node.Content {
			value, err := yamlValue(element, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	default:
		return yamlGroup(node, depth)
	}
}

// yamlGroup converts a mapping. Content alternates between names and values.
// The node still has duplicates, which a decoder into a map would report
// without advice.
func yamlGroup(node *yaml.Node, depth int) (any, error) {
	group := make(map[string]any, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		if name.Kind != yaml.ScalarNode || name.Anchor != "" || name.Style&yaml.TaggedStyle != 0 {
			return nil, fmt.Errorf("line %d: the name of a field is not a text", name.Line)
		}
		if _, twice := group[name.Value]; twice {
			return nil, fmt.Errorf("line %d: %s is there twice: remove one", name.Line, Quoted(name.Value))
		}
		value, err := yamlValue(node.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		group[name.Value] = value
	}
	return group, nil
}

// yamlScalar converts a scalar. Everything except null, booleans and numbers
// stays text: a date is one that YAML would otherwise convert.
func yamlScalar(node *yaml.Node) (any, error) {
	switch node.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float":
		var value any
		if err := node.Decode(&value); err != nil {
			return nil, fmt.Errorf("line %d: %s cannot be read", node.Line, Quoted(node.Value))
		}
		return value, nil
	default:
		return node.Value, nil
	}
}
