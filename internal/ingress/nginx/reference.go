package nginx

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/internal/route"
)

// WriteTables returns a page with the tables of annotations, keys, directives and
// variables between their marks, which are comments of Markdown.
func WriteTables(page []byte) ([]byte, error) {
	for _, part := range []struct{ name, table string }{
		{"annotations", tableOf(Annotations())}, {"keys", tableOf(ConfigKeys())}, {"directives", directiveTable()}, {"variables", variableTable()},
		{"authentication variables", authVariableTable()},
	} {
		begin, end := []byte("<!-- "+part.name+": written by make generate -->\n"), []byte("<!-- end of "+part.name+" -->\n")
		before, rest, found := bytes.Cut(page, begin)
		_, after, ended := bytes.Cut(rest, end)
		if !found || !ended {
			return nil, fmt.Errorf("the page has no marks of the table of %s: %s%s", part.name, begin, end)
		}
		page = slices.Concat(before, begin, []byte("\n"+part.table+"\n"), end, after)
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

// directiveTable writes the directives of snippets, in the order of their declaration.
func directiveTable() string {
	var page declare.Page
	page.Table("Directive", "In `if`", "In server-snippet", "In auth-snippet", "Here")
	yes := map[bool]string{true: "yes"}
	for _, d := range SnippetDirectives() {
		page.Row(declare.Code(d.Name), yes[d.Within], yes[d.Server], yes[d.Auth], d.Note)
	}
	return page.String()
}

// variableTable writes the variables of snippets.
func variableTable() string {
	var page declare.Page
	page.Table("Variable", "Value")
	page.Row("`$1` to `$9`", "Groups of the last expression that matched: of `if`, `rewrite`, or the path, if it is one.")
	addVariables(&page, route.RequestVariables())
	return page.String()
}

// authVariableTable writes the variables of responses of authentication servers.
func authVariableTable() string {
	var page declare.Page
	page.Table("Variable", "Value")
	addVariables(&page, route.AuthVariables())
	return page.String()
}

func addVariables(page *declare.Page, list []route.RequestVariable) {
	for _, v := range list {
		name := "$" + v.Name
		if v.Prefix {
			name += "NAME"
		}
		page.Row(declare.Code(name), v.Note)
	}
}
