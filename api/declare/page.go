package declare

import (
	"fmt"
	"strings"
)

// Page builds a reference page in Markdown. The pages of annotations, options,
// commands, chart values and the routes file are made with it, so that a table
// is escaped in one place.
type Page struct{ strings.Builder }

// Printf appends formatted text. Writes to a Builder do not fail.
func (p *Page) Printf(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

// Table starts a table with the names of its columns. Rows follow.
func (p *Page) Table(columns ...string) {
	p.Row(columns...)
	p.WriteString("|" + strings.Repeat("---|", len(columns)) + "\n")
}

// Row appends a row to a table. Cells are Markdown in one line: a pipe would
// end the cell, a line break the row, and a less-than sign outside of code would
// start an HTML tag.
func (p *Page) Row(cells ...string) {
	p.WriteString("|")
	for _, text := range cells {
		parts := strings.Split(strings.NewReplacer("|", `\|`, "\n", " ").Replace(text), "`")
		for i := 0; i < len(parts); i += 2 {
			parts[i] = strings.ReplaceAll(parts[i], "<", "&lt;")
		}
		p.WriteString(" " + strings.Join(parts, "`") + " |")
	}
	p.WriteString("\n")
}

// Code returns text as code. No text stays empty, for an empty cell.
func Code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
