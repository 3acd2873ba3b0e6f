package cli

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/wire/permission"
)

// rightsReference returns the page with the right that each procedure and path
// needs and the roles that have it, from the table that the platform and the
// runtimes enforce.
func rightsReference() string {
	var page strings.Builder
	page.WriteString(`# Rights

<!-- Written by make generate. Change internal/wire/permission, not this page. -->

What each procedure and path needs, and which roles have it. [security.md](../security.md#rights) explains roles and rights. A key has
at most the rights of its user, and those of its scope: a key to read only calls what is marked as reading. Policies give and take rights on
Applications beside the roles.

## Procedures

`)
	writeRightsHeader(&page, "procedure")
	for _, procedure := range permission.Procedures() {
		rule, _ := permission.Of(procedure)
		writeRight(&page, procedure, rule)
	}
	page.WriteString(`
## Paths

`)
	writeRightsHeader(&page, "path")
	for _, path := range permission.Paths() {
		reading, changing := permission.OfPath(path, "GET", false), permission.OfPath(path, "POST", false)
		if reading == changing {
			writeRight(&page, path, reading)
			continue
		}
		writeRight(&page, "GET "+path, reading)
		writeRight(&page, path, changing)
	}
	return page.String()
}

// writeRightsHeader writes the header of a table, with a column for each role.
func writeRightsHeader(page *strings.Builder, first string) {
	roles := permission.Roles()
	fmt.Fprintf(page, "| %s | needs | reads | %s |\n|---|---|---|%s\n", first, strings.Join(roles, " | "), strings.Repeat("---|", len(roles)))
}

// writeRight writes the row of a procedure or path.
func writeRight(page *strings.Builder, name string, rule permission.Rule) {
	needs := rule.Permission.String()
	if rule.Verb != "" {
		needs = string(rule.Verb) + " on Applications"
	}
	mark := func(yes bool) string {
		if yes {
			return "yes"
		}
		return ""
	}
	fmt.Fprintf(page, "| `%s` | %s | %s |", strings.TrimPrefix(name, "/slipway."), needs, mark(rule.Read))
	for _, role := range permission.Roles() {
		fmt.Fprintf(page, " %s |", mark(rule.Role(role)))
	}
	page.WriteString("\n")
}
