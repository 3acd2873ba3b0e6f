package edit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the largest file that is edited.
const MaxBytes = 1 << 20

// stringTag and nullTag are those of YAML's core schema.
const (
	stringTag = "!!str"
	nullTag   = "!!null"
)

// operation is one change of a document. mutate changes the nodes; splice changes the
// text, and is false where it cannot.
type operation struct {
	mutate func(root *yaml.Node) error
	splice func(text []byte, root *yaml.Node) ([]byte, bool)
}

// apply runs an operation on a file of one document. The text counts only if it
// parses to the nodes that were meant.
func apply(text []byte, change operation) ([]byte, error) {
	before, err := parseOne(text)
	if err != nil {
		return nil, err
	}
	wanted, err := parseOne(text)
	if err != nil {
		return nil, err
	}
	if err := change.mutate(wanted); err != nil {
		return nil, err
	}
	if equal(before, wanted) {
		return text, nil
	}
	if change.splice != nil {
		if spliced, ok := change.splice(text, before); ok && means(spliced, wanted) {
			return spliced, nil
		}
	}
	return encode(wanted)
}

// means reports whether a text parses to the nodes.
func means(text []byte, wanted *yaml.Node) bool {
	after, err := parseOne(text)
	return err == nil && equal(after, wanted)
}

// encode writes a document from its nodes, with its comments.
func encode(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return nil, err
	}
	if !means(out.Bytes(), root) {
		return nil, errors.New("it cannot be changed without changing more of it: edit it by hand once")
	}
	return out.Bytes(), nil
}

// parseOne parses a file of one document, which is a mapping. An empty file is an empty
// mapping.
func parseOne(text []byte) (*yaml.Node, error) {
	documents, err := parseAll(text)
	if err != nil {
		return nil, err
	}
	switch {
	case len(documents) == 0 || len(documents) == 1 && isEmpty(documents[0].Content[0]):
		return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}, nil
	case len(documents) > 1:
		return nil, errors.New("it has more than one document")
	case documents[0].Content[0].Kind != yaml.MappingNode:
		return nil, errors.New("it is no mapping")
	}
	return documents[0], nil
}

// isEmpty reports whether a node is a document without content.
func isEmpty(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == nullTag }

// parseAll parses the documents of a file.
func parseAll(text []byte) (documents []*yaml.Node, err error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("it is no YAML: %w", err)
		}
		documents = append(documents, &document)
	}
}

// equal compares what two documents mean: kinds, tags and values, and neither the style
// nor the order of keys. An alias is compared by its name.
func equal(x, y *yaml.Node) bool {
	if x.Kind != y.Kind || x.Value != y.Value || x.ShortTag() != y.ShortTag() || x.Anchor != y.Anchor || len(x.Content) != len(y.Content) {
		return false
	}
	switch x.Kind {
	case yaml.AliasNode:
		return true
	case yaml.MappingNode:
		return equalEntries(x, y)
	}
	return slices.EqualFunc(x.Content, y.Content, equal)
}

// equalEntries compares mappings. Keys that are no scalars are never equal: such files
// are not edited.
func equalEntries(x, y *yaml.Node) bool {
	values := map[string]*yaml.Node{}
	for i := 0; i+1 < len(x.Content); i += 2 {
		values[x.Content[i].ShortTag()+x.Content[i].Value] = x.Content[i+1]
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		value := values[y.Content[i].ShortTag()+y.Content[i].Value]
		if value == nil || y.Content[i].Kind != yaml.ScalarNode || !equal(value, y.Content[i+1]) {
			return false
		}
	}
	return len(values) == len(y.Content)/2
}

// offset is the position of a node in the text; -1 if it has none.
func offset(text []byte, line, column int) int {
	if line < 1 || column < 1 {
		return -1
	}
	at := 0
	for range line - 1 {
		next := bytes.IndexByte(text[at:], '\n')
		if next < 0 {
			return -1
		}
		at += next + 1
	}
	for range column - 1 {
		if at >= len(text) || text[at] == '\n' {
			return -1
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return at
}

// extent is the place of a scalar in the text, which ends on the line it begins on.
func extent(text []byte, node *yaml.Node) (from, to int, ok bool) {
	from = offset(text, node.Line, node.Column)
	if from < 0 || node.Kind != yaml.ScalarNode {
		return 0, 0, false
	}
	line := text[from:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	switch node.Style {
	case yaml.DoubleQuotedStyle:
		for i := 1; i < len(line); i++ {
			if line[i] == '\\' {
				i++
			} else if line[i] == '"' {
				return from, from + i + 1, line[0] == '"'
			}
		}
	case yaml.SingleQuotedStyle:
		for i := 1; i < len(line); i++ {
			if line[i] == '\'' && i+1 < len(line) && line[i+1] == '\'' {
				i++
			} else if line[i] == '\'' {
				return from, from + i + 1, line[0] == '\''
			}
		}
	case 0:
		return from, from + len(node.Value), bytes.HasPrefix(line, []byte(node.Value))
	}
	return 0, 0, false
}

// quoted writes a value in a style. A plain value that YAML would not read as a string,
// such as 1.10, gets quotes.
func quoted(value string, style yaml.Style) string {
	switch {
	case strings.ContainsFunc(value, func(c rune) bool { return !isPlain(c) }):
		return fmt.Sprintf("%q", value)
	case style == yaml.SingleQuotedStyle:
		return "'" + value + "'"
	case style == yaml.DoubleQuotedStyle || !isString(value):
		return `"` + value + `"`
	}
	return value
}

// isPlain reports whether a character of names and tags means itself in every style.
func isPlain(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-/:@", c)
}

// isString reports whether YAML reads a plain value as a string.
func isString(value string) bool {
	var node yaml.Node
	err := yaml.Unmarshal([]byte(value), &node)
	return err == nil && len(node.Content) == 1 && node.Content[0].Kind == yaml.ScalarNode && node.Content[0].Tag == stringTag && node.Content[0].Value == value
}

// newScalar is the node of a string.
func newScalar(value string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: stringTag, Value: value}
	if !isString(value) {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// setScalar replaces a value by a string.
func setScalar(node *yaml.Node, value string) {
	style := node.Style &^ (yaml.TaggedStyle | yaml.LiteralStyle | yaml.FoldedStyle)
	if style == 0 && !isString(value) {
		style = yaml.DoubleQuotedStyle
	}
	node.Kind, node.Tag, node.Value, node.Style, node.Content, node.Alias = yaml.ScalarNode, stringTag, value, style, nil, nil
}

// get returns the value of a key of a mapping; nil if there is none.
func get(mapping *yaml.Node, key string) (keyNode, value *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Kind == yaml.ScalarNode && mapping.Content[i].Value == key {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// add adds a key to a mapping.
func add(mapping *yaml.Node, key string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, newScalar(key), value)
}

// remove removes a key of a mapping.
func remove(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}
