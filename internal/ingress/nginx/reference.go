package nginx

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"slipway.dev/slipway/api/declare"
)

// WriteTables returns a page with the tables of annotations and keys between their marks,
// which are comments of Markdown.
func WriteTables(page []byte) ([]byte, error) {
	for _, part := range []struct {
		name     string
		settings []Setting
	}{{"annotations", Annotations()}, {"keys", ConfigKeys()}} {
		begin, end := []byte("<!-- "+part.name+": written by make generate -->\n"), []byte("<!-- end of "+part.name+" -->\n")
		before, rest, found := bytes.Cut(page, begin)
		_, after, ended := bytes.Cut(rest, end)
		if !found || !ended {
			return nil, fmt.Errorf("the page has no marks of the table of %s: %s%s", part.name, begin, end)
		}
		page = slices.Concat(before, begin, []byte("\n"+tableOf(part.settings)+"\n"), end, after)
	}
	return page, nil
}

// tableOf writes settings as a table, sorted by name.
func tableOf(settings []Setting) string {
	var page declare.Page
	page.Table("Name", "Here", "What it does, why not, or what to do")
	sorted := slices.SortedFunc(slices.Values(settings), func(a, b Setting) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		s := &sorted[i]
		support := string(s.Support)
		if s.Closes {
			support += ", closes"
		}
		page.Row(declare.Code(s.Name), support, s.Note)
	}
	return page.String()
}
