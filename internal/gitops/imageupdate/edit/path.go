package edit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is a value of a file by its path: keys with dots between them, and [n] for the
// entry of a list, such as web.containers[0].image.
type Value struct {
	Path, Value string
	// Optional: a path that the file does not have is left out.
	Optional bool
}

// Bounds of a path.
const (
	maxPathBytes = 1024
	maxIndex     = 10_000
)

// step is a key of a mapping or, with an empty key, an index of a list.
type step struct {
	key   string
	index int
}

// SetValues sets values of a file of Helm values. It returns the content unchanged if
// all of them are set already.
func SetValues(text []byte, values []Value) ([]byte, error) {
	for _, value := range values {
		steps, err := parsePath(value.Path)
		if err != nil {
			return nil, err
		}
		if text, err = setValue(text, steps, value); err != nil {
			return nil, fmt.Errorf("set %s: %w", value.Path, err)
		}
	}
	return text, nil
}

// GetValue returns a value of a file by its path; empty if there is none.
func GetValue(text []byte, path string) string {
	steps, err := parsePath(path)
	if err != nil {
		return ""
	}
	root, err := parseOne(text)
	if err != nil {
		return ""
	}
	at, rest := walk(root.Content[0], steps, path)
	if len(rest) > 0 || at.Kind != yaml.ScalarNode || at.Tag == nullTag {
		return ""
	}
	return at.Value
}

// parsePath reads a path.
func parsePath(path string) ([]step, error) {
	bad := fmt.Errorf("%q is no path of a value, such as image.tag or images[0].tag", path)
	if path == "" || len(path) > maxPathBytes || strings.ContainsAny(path, "\n\r\t") {
		return nil, bad
	}
	var steps []step
	for part := range strings.SplitSeq(path, ".") {
		name, indexes, _ := strings.Cut(part, "[")
		if name == "" && (indexes == "" || len(steps) == 0) {
			return nil, bad
		}
		if name != "" {
			steps = append(steps, step{key: name})
		}
		for indexes != "" {
			digits, rest, closed := strings.Cut(indexes, "]")
			index, err := strconv.Atoi(digits)
			if !closed || err != nil || index < 0 || index > maxIndex || rest != "" && rest[0] != '[' {
				return nil, bad
			}
			steps = append(steps, step{index: index})
			indexes = strings.TrimPrefix(rest, "[")
		}
	}
	return steps, nil
}

// walk follows the steps as far as the nodes go. A key at the root that is the whole
// path, dots included, comes first.
func walk(root *yaml.Node, steps []step, path string) (at *yaml.Node, rest []step) {
	if _, value := get(root, path); value != nil {
		return value, nil
	}
	at = root
	for i, next := range steps {
		var found *yaml.Node
		switch {
		case next.key != "":
			_, found = get(at, next.key)
		case at.Kind == yaml.SequenceNode && next.index < len(at.Content):
			found = at.Content[next.index]
		}
		if found == nil {
			return at, steps[i:]
		}
		at = found
	}
	return at, nil
}

// errShape is the error of a path through something else than the file has there.
var errShape = errors.New("the file has something else at the path: a list, a value or an alias")

// setValue sets one value.
func setValue(text []byte, steps []step, value Value) ([]byte, error) {
	missing := false
	root, err := parseOne(text)
	if err != nil {
		return nil, err
	}
	at, rest := walk(root.Content[0], steps, value.Path)
	switch {
	case len(rest) > 0 && value.Optional:
		return text, nil
	case len(rest) > 0:
		missing = true
	case at.Kind != yaml.ScalarNode:
		return nil, errShape
	}
	for _, one := range rest {
		if one.key == "" {
			return nil, errors.New("the list has no such entry: add it once by hand")
		}
	}
	if missing && at.Kind != yaml.MappingNode && !isEmpty(at) {
		return nil, errShape
	}
	return apply(text, operation{
		mutate: func(root *yaml.Node) error {
			at, rest := walk(root.Content[0], steps, value.Path)
			if len(rest) == 0 {
				setScalar(at, value.Value)
				return nil
			}
			if isEmpty(at) {
				at.Kind, at.Tag, at.Value, at.Style = yaml.MappingNode, "!!map", "", 0
			}
			for _, one := range rest[:len(rest)-1] {
				below := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
				add(at, one.key, below)
				at = below
			}
			add(at, rest[len(rest)-1].key, newScalar(value.Value))
			return nil
		},
		splice: func(text []byte, root *yaml.Node) ([]byte, bool) {
			at, rest := walk(root.Content[0], steps, value.Path)
			if len(rest) == 0 {
				return replaceScalar(text, at, value.Value)
			}
			lines := nested(rest, value.Value)
			if at == root.Content[0] {
				return appendToRoot(text, root, lines)
			}
			return insertInto(text, at, lines)
		},
	})
}

// nested are the lines of a value below new keys.
func nested(steps []step, value string) []string {
	lines := nestedKeys(steps)
	lines[len(lines)-1] += " " + quoted(value, 0)
	return lines
}
