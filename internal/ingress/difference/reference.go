package difference

import (
	"bytes"
	"fmt"
	"slices"

	"slipway.dev/slipway/api/declare"
)

// The marks of the table in a page, which are comments of Markdown.
const (
	begin = "<!-- differences: written by make generate -->\n"
	end   = "<!-- end of differences -->\n"
)

// WriteTable returns a page with the table of the differences of a source between its
// marks.
func WriteTable(page []byte, source Source) ([]byte, error) {
	before, rest, found := bytes.Cut(page, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return nil, fmt.Errorf("the page has no marks of the table of differences: %s%s", begin, end)
	}
	return slices.Concat(before, []byte(begin), []byte("\n"+tableOf(source)+"\n"), []byte(end), after), nil
}

// tableOf writes the differences of a source, and the computed ones, as a table.
func tableOf(source Source) string {
	var page declare.Page
	page.Table("Name", "About", source.Side(), Slipway)
	for _, d := range slices.Concat(Of(source), Computed()) {
		if d.ID == Specification && source != Plain {
			continue
		}
		page.Row(declare.Code(d.ID), d.About, d.Before, d.After)
	}
	return page.String()
}
