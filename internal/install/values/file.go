package values

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// commentWidth is where the lines of comments end.
const commentWidth = 96

// File returns values.yaml: every value with its default and description. It is
// generated, so that the file and the schema cannot disagree.
func (c Catalogue) File() ([]byte, error) {
	var text strings.Builder
	text.WriteString("# Values of the chart " + c.Chart + ". " + c.About + "\n")
	text.WriteString("# Written by make generate: change internal/install/values, not this file.\n")
	for _, each := range c.tree(false).below {
		text.WriteByte('\n')
		if err := writeNode(&text, each, 0); err != nil {
			return nil, err
		}
	}
	return []byte(text.String()), nil
}

// writeNode writes a group or a value with its comment.
func writeNode(text *strings.Builder, of *node, depth int) error {
	indent := strings.Repeat("  ", depth)
	if of.value == nil {
		text.WriteString(indent + of.name + ":\n")
		if onlyUnset(of) {
			// A group of comments alone would be null.
			text.WriteString(indent + "  {}\n")
		}
		for _, each := range of.below {
			if err := writeNode(text, each, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	// The rule is part of the comment, so that users need not read the schema.
	about := of.value.About
	if words := of.value.Rule.words(); words != "" {
		about += " (" + words + ")"
	}
	for _, line := range wrapped(about, commentWidth-len(indent)) {
		text.WriteString(indent + "# " + line + "\n")
	}
	given, there := of.value.initial()
	// A key without a value would be null, which is not the same as unset. It
	// stays a comment.
	if !there {
		text.WriteString(indent + "# " + of.name + ":\n")
		return nil
	}
	document, err := yaml.Marshal(map[string]any{of.name: given})
	if err != nil {
		return fmt.Errorf("write %s: %w", of.path, err)
	}
	for line := range strings.Lines(string(document)) {
		text.WriteString(indent + line)
	}
	return nil
}

// onlyUnset reports whether a group has only values without a default, which
// are written as comments.
func onlyUnset(of *node) bool {
	for _, each := range of.below {
		if each.value == nil {
			return false
		}
		if _, there := each.value.initial(); there {
			return false
		}
	}
	return true
}

// wrapped breaks a text at blanks into lines.
// A word that is longer than the width gets a line of its own.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
