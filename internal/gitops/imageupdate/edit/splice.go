package edit

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// replaceScalar writes a value in the place of another, in its style.
func replaceScalar(text []byte, node *yaml.Node, value string) ([]byte, bool) {
	return replaceText(text, node, quoted(value, node.Style))
}

// replaceText writes the text of a value in the place of another.
func replaceText(text []byte, node *yaml.Node, written string) ([]byte, bool) {
	if node.Kind == yaml.ScalarNode && node.Value == "" && node.Tag == nullTag && node.Style == 0 {
		// A key without a value: the node is right behind its colon.
		at := offset(text, node.Line, node.Column)
		if at < 1 || text[at-1] != ':' {
			return nil, false
		}
		return splice(text, at, at, " "+written), true
	}
	from, to, ok := extent(text, node)
	if !ok {
		return nil, false
	}
	return splice(text, from, to, written), true
}

// splice replaces a part of the text.
func splice(text []byte, from, to int, with string) []byte {
	return slices.Concat(text[:from], []byte(with), text[to:])
}

// lineEnd is the position behind the line that has an offset, and the text with a line
// break there if it had none.
func lineEnd(text []byte, at int) ([]byte, int) {
	if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
		return text, at + end + 1
	}
	text = append(slices.Clone(text), '\n')
	return text, len(text)
}

// insertInto adds lines to a block mapping, behind the last of its entries that are on
// one line: entries over several lines may end anywhere.
func insertInto(text []byte, mapping *yaml.Node, lines []string) ([]byte, bool) {
	if mapping.Style&yaml.FlowStyle != 0 {
		return nil, false
	}
	for i := len(mapping.Content) - 2; i >= 0; i -= 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		_, to, ok := extent(text, value)
		if !ok || value.Line != key.Line {
			continue
		}
		text, at := lineEnd(text, to)
		return splice(text, at, at, indented(lines, key.Column-1)), true
	}
	return nil, false
}

// appendToRoot adds lines behind everything else.
func appendToRoot(text []byte, root *yaml.Node, lines []string) ([]byte, bool) {
	mapping := root.Content[0]
	if mapping.Style&yaml.FlowStyle != 0 || len(mapping.Content) > 0 && mapping.Content[0].Column != 1 {
		return nil, false
	}
	text = bytes.TrimRight(text, " \t")
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clone(text), '\n')
	}
	return slices.Concat(text, []byte(indented(lines, 0))), true
}

// removeLine removes an entry of a block mapping that has a line of its own.
func removeLine(text []byte, key, value *yaml.Node) ([]byte, bool) {
	from := offset(text, key.Line, 1)
	start := offset(text, key.Line, key.Column)
	_, to, ok := extent(text, value)
	if !ok || from < 0 || value.Line != key.Line || strings.TrimSpace(string(text[from:start])) != "" {
		return nil, false
	}
	text, end := lineEnd(text, to)
	return splice(text, from, end, ""), true
}

// indented joins lines with an indentation.
func indented(lines []string, columns int) string {
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(strings.Repeat(" ", columns) + line + "\n")
	}
	return out.String()
}
