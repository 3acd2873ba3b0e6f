package edit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Selector is a JSON path that selects fields of a document: keys, [n], ['key'], * and,
// with two dots, fields at any depth. Filters, slices and unions are not known.
type Selector struct {
	text  string
	steps []selectorStep
}

// selectorStep is one step of a path.
type selectorStep struct {
	step
	// every selects all entries, and deep goes through everything below first.
	every, deep bool
}

// Bounds of paths and what they select.
const (
	maxSelectorSteps = 64
	maxSelected      = 1000
	// maxVisited bounds the nodes that a path goes through.
	maxVisited = 500_000
)

// String is the path as it was written.
func (s Selector) String() string { return s.text }

// ParseSelector reads a path, such as $.image.tag, $..image or $['a.b'][0]. The dollar
// and the dot behind it may be left out, as Codefresh's examples do.
func ParseSelector(text string) (Selector, error) {
	bad := fmt.Errorf("%.80q is no path that is known: write keys, [0], ['key'], * and .. for any depth, such as $.image.tag or $..image", text)
	if len(text) > maxPathBytes || strings.ContainsAny(text, "\n\r\t") {
		return Selector{}, bad
	}
	// Leaving out the dollar costs nothing: a path has no other meaning without it.
	rest := strings.TrimPrefix(strings.TrimSpace(text), "$")
	if rest != "" && rest[0] != '.' && rest[0] != '[' {
		rest = "." + rest
	}
	made := Selector{text: text}
	for rest != "" {
		one := selectorStep{}
		var ok bool
		// Two dots belong to the step behind them.
		if one.deep = strings.HasPrefix(rest, ".."); one.deep {
			rest = rest[1:]
			if strings.HasPrefix(rest, ".[") {
				rest = rest[1:]
			}
		}
		if one, rest, ok = parseSelectorStep(one, rest); !ok {
			return Selector{}, bad
		}
		made.steps = append(made.steps, one)
	}
	if len(made.steps) == 0 || len(made.steps) > maxSelectorSteps {
		return Selector{}, bad
	}
	return made, nil
}

// parseSelectorStep reads a step that begins with a dot or a bracket.
func parseSelectorStep(one selectorStep, text string) (selectorStep, string, bool) {
	if text[0] == '.' {
		text = text[1:]
		end := strings.IndexAny(text, ".[")
		if end < 0 {
			end = len(text)
		}
		one.key, text = text[:end], text[end:]
		if one.every = one.key == "*"; one.every {
			one.key = ""
		} else if one.key == "" || strings.ContainsAny(one.key, "*?()]'\" ,$") {
			return one, "", false
		}
		return one, text, true
	}
	if quote := text[1:min(2, len(text))]; quote == "'" || quote == `"` {
		key, rest, closed := strings.Cut(text[2:], quote+"]")
		one.key = key
		return one, rest, closed && key != "" && !strings.Contains(key, quote)
	}
	inner, rest, closed := strings.Cut(text[1:], "]")
	if one.every = inner == "*"; one.every {
		return one, rest, closed
	}
	index, err := strconv.Atoi(inner)
	one.index = index
	return one, rest, closed && err == nil && index >= 0 && index <= maxIndex && inner[0] != '+'
}

// selected is a field that a Selector found, with the way to it.
type selected struct {
	way  []step
	node *yaml.Node
}

// errSelected is the error of a path that selects too much.
var errSelected = fmt.Errorf("the path selects more than %d fields", maxSelected)

// find returns the fields of a document, in its order.
func (s Selector) find(root *yaml.Node) ([]selected, error) {
	// The selection of each step is the input of the next one.
	found := []selected{{node: root.Content[0]}}
	for _, one := range s.steps {
		if one.deep {
			var all []selected
			for _, at := range found {
				all = below(all, at)
			}
			if len(all) > maxVisited {
				return nil, errSelected
			}
			found = all
		}
		var next []selected
		for _, at := range found {
			for _, entry := range entries(at) {
				last := entry.way[len(entry.way)-1]
				if one.every || last == one.step && (last.key != "" || at.node.Kind == yaml.SequenceNode) {
					next = append(next, entry)
				}
			}
			if len(next) > maxSelected {
				return nil, errSelected
			}
		}
		found = next
	}
	return found, nil
}

// below adds a field and everything in it, until there are too many.
func below(all []selected, at selected) []selected {
	all = append(all, at)
	if len(all) > maxVisited {
		return all
	}
	for _, entry := range entries(at) {
		all = below(all, entry)
	}
	return all
}

// entries are the fields right below another. Keys that are no text, and empty ones, are
// left out.
func entries(at selected) []selected {
	var all []selected
	switch at.node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(at.node.Content); i += 2 {
			if key := at.node.Content[i]; key.Kind == yaml.ScalarNode && key.Value != "" {
				all = append(all, selected{append(slices.Clone(at.way), step{key: key.Value}), at.node.Content[i+1]})
			}
		}
	case yaml.SequenceNode:
		for i, node := range at.node.Content {
			all = append(all, selected{append(slices.Clone(at.way), step{index: i}), node})
		}
	}
	return all
}

// Lookup returns the first value that a Selector finds; empty if it finds none.
func Lookup(text []byte, path Selector) (string, error) {
	root, err := parseOne(text)
	if err != nil {
		return "", err
	}
	found, err := path.find(root)
	if err != nil || len(found) == 0 {
		return "", err
	}
	if node := found[0].node; node.Kind == yaml.ScalarNode && node.Tag != nullTag {
		return node.Value, nil
	}
	return "", errors.New("it is no single value")
}
