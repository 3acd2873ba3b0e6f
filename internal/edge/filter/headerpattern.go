package filter

import (
	"bytes"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
)

// maxPatternHeaders bounds the headers of a response that a pattern copies.
const maxPatternHeaders = 64

// headerPattern matches the names of headers by an expression. A nil one matches none.
type headerPattern struct{ expression *regexp.Regexp }

// newHeaderPattern compiles an expression, nil for an empty one.
func newHeaderPattern(expression string) (*headerPattern, error) {
	if expression == "" {
		return nil, nil
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, invalid("responseHeadersRegexp", "not a regular expression in RE2 syntax: %v", err)
	}
	return &headerPattern{compiled}, nil
}

// matches compares a name in its canonical spelling, X-Auth-User, with dashes for
// underscores: many backends treat both as one.
func (p *headerPattern) matches(name []byte) bool {
	return p != nil && p.expression.MatchString(textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(string(name), "_", "-")))
}

// removals appends the removal of the client's headers that match.
func (p *headerPattern) removals(edits []h1.Edit, fields *h1.Fields) []h1.Edit {
	if p == nil {
		return edits
	}
	for i := range fields.Len() {
		if !p.matches(fields.Name(i)) {
			continue
		}
		// The others frame the message, and are set by the edge.
		if edit, err := h1.RemoveField(string(fields.Name(i))); err == nil {
			edits = append(edits, edit)
		}
	}
	return edits
}

// copies appends the headers of a response that match, and reports whether there are not too
// many of them. Those that belong to the connection or frame the message are left out.
func (p *headerPattern) copies(x *Exchange, fields *h1.Fields) bool {
	if p == nil {
		return true
	}
	var seen [][]byte
	for line := range fields.Len() {
		id, name := fields.ID(line), fields.Name(line)
		if !p.matches(name) || id.ConnectionOnly() || id.Identity() || connectionLists(fields, id, name) {
			continue
		}
		change := h1.SetField
		if slices.ContainsFunc(seen, func(before []byte) bool { return bytes.EqualFold(before, name) }) {
			change = h1.AddField
		}
		edit, err := change(string(name), x.keep(fields.Value(line)))
		if err != nil {
			continue
		}
		if seen = append(seen, name); len(seen) > maxPatternHeaders {
			return false
		}
		x.RequestEdits = append(x.RequestEdits, edit)
	}
	return true
}

// matchesAny reports whether one of several patterns matches a name.
func matchesAny(patterns []*headerPattern, name []byte) bool {
	return slices.ContainsFunc(patterns, func(p *headerPattern) bool { return p.matches(name) })
}

// vouchPattern is vouch for the names that a pattern matches.
func (c *compiler) vouchPattern(pattern *headerPattern) {
	if pattern == nil {
		return
	}
	c.chain.patterns = append(c.chain.patterns, pattern)
	*c.vouchedPatterns = append(*c.vouchedPatterns, pattern)
}
