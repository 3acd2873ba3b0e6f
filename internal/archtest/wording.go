package archtest

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// codeSpan matches code in a line of Markdown. Code quotes names and output of
// programs, which have their own words.
var codeSpan = regexp.MustCompile("`[^`]*`")

// isPage reports whether a file is text that users read: a page of Markdown, or
// a part of a chart. The charts have the descriptions of CRDs and values.
func isPage(name string) bool {
	return path.Ext(name) == ".md" || strings.HasPrefix(name, "charts/") && path.Ext(name) != ".go"
}

// page checks the words of a file that users read, outside of code.
func (c *sourceCheck) page(name string, text []byte) {
	fenced, number := false, 0
	for line := range bytes.Lines(text) {
		number++
		switch {
		case bytes.HasPrefix(bytes.TrimSpace(line), []byte("```")):
			fenced = !fenced
		case !fenced:
			c.wording(name, number, codeSpan.ReplaceAllLiteral(line, nil))
		}
	}
}

// literals checks the words of descriptions, help texts, logs and errors in Go.
// A literal without a space is a name or a value and not text.
func (c *sourceCheck) literals(f goFile) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
			c.wording(f.name, f.line(literal.Pos()), []byte(literal.Value))
		}
		return true
	})
}

// wording reports the replaced words in a text. Allowed phrases are removed
// first, because some of these words have a correct use.
func (c *sourceCheck) wording(name string, line int, text []byte) {
	for _, phrase := range c.rules.Phrases {
		text = bytes.ReplaceAll(text, []byte(phrase), nil)
	}
	for word := range bytes.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if instead := c.rules.Gone[strings.ToLower(string(word))]; instead != "" {
			c.reportLine(name, line, "contains the word %q; use %s", word, instead)
		}
	}
	for _, pattern := range c.rules.Wording {
		if found := pattern.Pattern.Find(text); found != nil {
			c.reportLine(name, line, "contains %q: %s", found, pattern.Reason)
		}
	}
}
