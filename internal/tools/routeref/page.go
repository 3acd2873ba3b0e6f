package main

import (
	"fmt"
	"go/doc/comment"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/api/declare"
)

// generatedNote is the first line of the page.
const generatedNote = "<!-- Written by `make generate`. Change the comments in internal/route, not this page. -->\n\n"

// intro is the text above the types.
const intro = `# The routes file

A routes file is YAML or JSON with one [Table](#table). ` + "`slipway edge --providers.file.filename=routes.yaml`" + ` serves it and
watches it for changes; the last-good table that the edge keeps on disk has the same format. A field that is not listed here,
or that is written twice, is an error. Fields without "required" are optional.

`

// scalars describes the types of fields that have no section of their own.
var scalars = map[string]string{
	"string": "text", "bool": "true or false",
	"int": "number", "int32": "number", "int64": "number", "uint16": "number", "uint32": "number",
	"time.Time":      "time such as 2026-01-31T12:00:00Z",
	"netip.AddrPort": "ip:port",
	"netip.Prefix":   "network such as 10.0.0.0/8",
	"Duration":       "duration such as 1m30s",
	"Secret":         "secret text, never shown",
}

// page returns the whole page: every type in the order in which the table
// refers to it, the order of rules below Rule, and the policies with their
// examples below Policy.
func (m *model) page(examples map[string]string) (string, error) {
	var out declare.Page
	out.WriteString(generatedNote + intro)
	// The order of sections is that of the references, so a reader meets a type
	// after the field that uses it.
	order := m.reachable("Table")
	policy := m.structs["Policy"]
	if policy == nil || m.structs["Table"] == nil {
		return "", fmt.Errorf("there is no Table or no Policy in the source")
	}
	// Policies get a section below Policy and not one of their own.
	policies := map[string]member{}
	for _, field := range policy.fields {
		if m.isPolicy(field) {
			policies[field.kind.name] = field
		}
	}
	for _, name := range order {
		// Written below, with its example.
		if _, is := policies[name]; is {
			continue
		}
		m.section(&out, "## ", name)
		if name == "Rule" {
			out.WriteString("### Order of rules\n\n" + m.orderText() + "\n")
		}
		if name != "Policy" {
			continue
		}
		for _, field := range policy.fields {
			if !m.isPolicy(field) {
				continue
			}
			example, ok := examples[field.key]
			if !ok {
				return "", fmt.Errorf("the policy %s has no example: add %s.yaml to the examples", field.key, field.key)
			}
			m.section(&out, "### ", field.kind.name)
			out.Printf("```yaml\n%s```\n\n", example)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n", nil
}

// isPolicy reports whether a field of Policy is an action, and not the identity
// of the policy.
func (m *model) isPolicy(field member) bool {
	return m.structs[field.kind.name] != nil && !strings.HasSuffix(field.kind.name, "ID")
}

// reachable returns the types that a type refers to, directly or through
// others, in depth-first order and starting with itself. Types that no field
// refers to are not part of the file.
func (m *model) reachable(first string) []string {
	var order []string
	var visit func(name string)
	visit = func(name string) {
		if slices.Contains(order, name) || m.structs[name] == nil && m.choices[name] == nil {
			return
		}
		order = append(order, name)
		if s := m.structs[name]; s != nil {
			for _, field := range s.fields {
				visit(field.kind.name)
			}
		}
	}
	visit(first)
	return order
}

// section writes one type as a table of its fields or values.
func (m *model) section(out *declare.Page, level, name string) {
	out.WriteString(level + name + "\n\n")
	if c := m.choices[name]; c != nil {
		out.WriteString(m.prose(c.text, nil) + "\n\n")
		out.Table("Value", "Meaning")
		for _, v := range c.values {
			out.Row(declare.Code(v.literal), m.line(v.text, nil))
		}
		out.WriteString("\n")
		return
	}
	s := m.structs[name]
	out.WriteString(m.prose(s.text, s) + "\n\n")
	out.Table("Field", "Type", "Description")
	for _, field := range s.fields {
		text, of := field.text, s
		// A field without a comment gets the first sentence of its type's.
		if below := m.structs[field.kind.name]; text == "" && below != nil {
			text, _, _ = strings.Cut(strings.ReplaceAll(below.text, "\n", " "), ". ")
			text, of = strings.TrimSuffix(text, ".")+".", below
		}
		out.Row(declare.Code(field.key), m.kindText(field), m.line(text, of))
	}
	out.WriteString("\n")
}

// kindText returns the type of a field with a link to its section. A
// description in scalars takes precedence.
func (m *model) kindText(field member) string {
	text := scalars[field.kind.name]
	if m.structs[field.kind.name] != nil || m.choices[field.kind.name] != nil {
		text = fmt.Sprintf("[%s](#%s)", field.kind.name, strings.ToLower(field.kind.name))
	}
	if s, has := scalars[field.kind.name]; has {
		text = s
	}
	if field.kind.list {
		text = "list of " + text
	}
	if field.required {
		text += ", required"
	}
	return text
}

// orderText returns the section "Order" of the package comment as Markdown.
func (m *model) orderText() string {
	_, order, _ := strings.Cut(m.text, "# Order\n")
	order, _, _ = strings.Cut(order, "\n# ")
	parsed := new(comment.Parser).Parse(goLink.ReplaceAllString(order, "$1"))
	return strings.TrimSpace(string(new(comment.Printer).Markdown(parsed))) + "\n"
}

// prose returns a comment as a paragraph, with fields named as in the file.
func (m *model) prose(text string, s *structure) string {
	return m.fileNames(strings.TrimSpace(text), s)
}

// line returns a comment as one line, for a table.
func (m *model) line(text string, s *structure) string {
	return m.fileNames(strings.Join(strings.Fields(text), " "), s)
}

// goLink matches a doc link such as [Rule], goSelector a field such as
// Rule.Host, and goWord a capitalized word that is not part of a link or
// selector.
var (
	goLink     = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
	goSelector = regexp.MustCompile(`\b([A-Z][A-Za-z]+)\.([A-Z][A-Za-z]+)\b`)
	goWord     = regexp.MustCompile(`(^|[^#\[A-Za-z.])([A-Z][A-Za-z0-9]*)\b`)
)

// fileNames replaces the Go names of fields in a comment by their keys in the
// file. Selectors come first, because their second part is a word as well.
func (m *model) fileNames(text string, s *structure) string {
	// Doc links have no target outside of godoc.
	text = goLink.ReplaceAllString(text, "$1")
	text = goSelector.ReplaceAllStringFunc(text, func(selector string) string {
		parts := goSelector.FindStringSubmatch(selector)
		if key := m.structs[parts[1]].key(parts[2]); key != "" {
			return fmt.Sprintf("`%s` of [%s](#%s)", key, parts[1], strings.ToLower(parts[1]))
		}
		return selector
	})
	var out strings.Builder
	done := 0
	for _, at := range goWord.FindAllStringSubmatchIndex(text, -1) {
		word, rest := text[at[4]:at[5]], text[at[5]:]
		key := s.key(word)
		// "the Host header" is HTTP's and not the field. The name of the type
		// itself is not a field either.
		if key == "" || s.name == word || strings.HasPrefix(rest, " header") {
			continue
		}
		// Only the word is replaced; the match includes the character before
		// it.
		out.WriteString(text[done:at[4]] + "`" + key + "`")
		done = at[5]
	}
	return out.String() + text[done:]
}

// key returns the name of a field in the file, or an empty string. A nil
// structure has no fields.
func (s *structure) key(field string) string {
	if s == nil {
		return ""
	}
	for _, f := range s.fields {
		if f.name == field {
			return f.key
		}
	}
	return ""
}
