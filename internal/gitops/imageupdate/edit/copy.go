package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Copy sets the fields of a file to the values that they have in another one, and
// returns how many fields were found there. Fields that the other file does not have
// stay as they are. The content is the same if all of them are equal.
func Copy(target, source []byte, fields []Selector) (changed []byte, found int, err error) {
	root, err := parseOne(source)
	if err != nil {
		return nil, 0, fmt.Errorf("the source: %w", err)
	}
	changed = target
	for _, field := range fields {
		all, err := field.find(root)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", field, err)
		}
		found += len(all)
		for _, one := range all {
			if changed, err = setNode(changed, one.way, one.node); err != nil {
				return nil, 0, fmt.Errorf("set %s: %w", field, err)
			}
		}
	}
	return changed, found, nil
}

// Selected returns the values of fields as a text, which is the same for equal values
// whatever their form and comments are. It is for comparisons, and nothing reads it.
func Selected(source []byte, fields []Selector) (string, error) {
	root, err := parseOne(source)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, field := range fields {
		all, err := field.find(root)
		if err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
		for _, one := range all {
			for _, at := range one.way {
				fmt.Fprintf(&text, "%q %d ", at.key, at.index)
			}
			writeValue(&text, one.node)
		}
	}
	return text.String(), nil
}

// writeValue writes a value without its form.
func writeValue(to *strings.Builder, node *yaml.Node) {
	fmt.Fprintf(to, "%d %s %q [", node.Kind, node.ShortTag(), node.Value)
	for _, below := range node.Content {
		writeValue(to, below)
	}
	to.WriteByte(']')
}

// setNode sets one field. Values of the same shape are set one by one, so that comments
// and form of the file stay; others are replaced as a whole.
func setNode(text []byte, way []step, value *yaml.Node) ([]byte, error) {
	if hasReferences(value) {
		return nil, errors.New("the value has anchors or aliases: write it without")
	}
	root, err := parseOne(text)
	if err != nil {
		return nil, err
	}
	at, rest := follow(root.Content[0], way)
	// Leaf by leaf: replacing a whole mapping would lose the comments in it.
	if len(rest) == 0 && sameShape(at, value) {
		for _, entry := range entries(selected{way, value}) {
			if text, err = setNode(text, entry.way, entry.node); err != nil {
				return nil, err
			}
		}
		return text, nil
	}
	// A list is never extended by one entry: which one it would be is not known.
	for _, one := range rest {
		if one.key == "" {
			return nil, errors.New("the list has no such entry: add it once by hand")
		}
	}
	if len(rest) > 0 && at.Kind != yaml.MappingNode && !isEmpty(at) {
		return nil, errShape
	}
	return apply(text, operation{
		mutate: func(root *yaml.Node) error {
			at, rest := follow(root.Content[0], way)
			if len(rest) > 0 && isEmpty(at) {
				at.Kind, at.Tag, at.Value, at.Style = yaml.MappingNode, "!!map", "", 0
			}
			for _, one := range rest {
				below := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				add(at, one.key, below)
				at = below
			}
			assign(at, value)
			return nil
		},
		splice: func(text []byte, root *yaml.Node) ([]byte, bool) {
			at, rest := follow(root.Content[0], way)
			switch {
			case value.Kind != yaml.ScalarNode:
				return nil, false
			case len(rest) == 0:
				return replaceText(text, at, scalarText(value, at.Style))
			}
			lines := nestedKeys(rest)
			lines[len(lines)-1] += " " + scalarText(value, 0)
			if at == root.Content[0] {
				return appendToRoot(text, root, lines)
			}
			return insertInto(text, at, lines)
		},
	})
}

// follow goes along a way as far as the nodes go.
func follow(at *yaml.Node, way []step) (*yaml.Node, []step) {
	for i, next := range way {
		var found *yaml.Node
		switch {
		case next.key != "":
			_, found = get(at, next.key)
		case at.Kind == yaml.SequenceNode && next.index < len(at.Content):
			found = at.Content[next.index]
		}
		if found == nil {
			return at, way[i:]
		}
		at = found
	}
	return at, nil
}

// sameShape reports whether both are mappings with the same keys, or lists of the same
// length.
func sameShape(x, y *yaml.Node) bool {
	if x.Kind != y.Kind || len(x.Content) != len(y.Content) || len(y.Content) == 0 {
		return false
	}
	if x.Kind != yaml.MappingNode {
		return x.Kind == yaml.SequenceNode
	}
	for i := 0; i < len(y.Content); i += 2 {
		if _, there := get(x, y.Content[i].Value); there == nil || y.Content[i].Kind != yaml.ScalarNode || y.Content[i].Value == "" {
			return false
		}
	}
	return true
}

// hasReferences reports whether a value has anchors or aliases.
func hasReferences(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, hasReferences)
}

// assign gives a node the value of another. A text keeps the quotes of the node.
func assign(at, value *yaml.Node) {
	// The style of the target is kept where it fits: its file is the one that people read.
	style := at.Style &^ (yaml.TaggedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.FlowStyle)
	given := clone(value)
	at.Kind, at.Tag, at.Value, at.Content, at.Alias, at.Style = given.Kind, given.ShortTag(), given.Value, given.Content, nil, given.Style
	if value.Kind != yaml.ScalarNode {
		return
	}
	if at.Style = 0; at.Tag == stringTag {
		if at.Style = style; style == 0 && !isString(value.Value) {
			at.Style = yaml.DoubleQuotedStyle
		}
	}
}

// clone copies a value without its comments.
func clone(node *yaml.Node) *yaml.Node {
	made := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value, Style: node.Style &^ yaml.TaggedStyle}
	for _, below := range node.Content {
		made.Content = append(made.Content, clone(below))
	}
	return made
}

// scalarText writes a single value: a text with the quotes of a style, others as they
// are.
func scalarText(value *yaml.Node, style yaml.Style) string {
	if value.ShortTag() == stringTag {
		return quoted(value.Value, style)
	}
	return value.Value
}

// nestedKeys are the lines of keys below each other.
func nestedKeys(steps []step) []string {
	lines := make([]string, len(steps))
	for i, one := range steps {
		lines[i] = strings.Repeat("  ", i) + quoted(one.key, 0) + ":"
	}
	return lines
}
