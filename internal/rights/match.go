package rights

import (
	"fmt"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/gitops/glob"
)

// Mode is how patterns are matched (policy.matchMode).
type Mode string

// The modes.
const (
	// Glob: * takes any text, also slashes, and the pattern takes all of the
	// value.
	Glob Mode = "glob"
	// Regex: regular expressions as Go has them. As in Argo CD they may match a
	// part of the value: ^ and $ are the author's.
	Regex Mode = "regex"
)

// maxPattern bounds what a regular expression costs to compile and to keep, as
// the glob package bounds its patterns.
const maxPattern = 512

// pattern is a compiled field of a rule: the one of its mode is set.
type pattern struct {
	glob  glob.Pattern
	regex *regexp.Regexp
}

// compilePattern reads a field of a rule.
func compilePattern(text string, mode Mode) (pattern, error) {
	if mode != Regex {
		compiled, err := glob.Compile(text)
		return pattern{glob: compiled}, err
	}
	if len(text) > maxPattern {
		return pattern{}, fmt.Errorf("a pattern has %d characters, the most is %d", len(text), maxPattern)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return pattern{}, fmt.Errorf("%q is not a regular expression, which policy.matchMode: regex requires (any text is .*)", text)
	}
	return pattern{regex: compiled}, nil
}

// match reports whether the pattern takes a value.
func (p pattern) match(value string) bool {
	if p.regex != nil {
		return p.regex.MatchString(value)
	}
	return p.glob.Match(value)
}

// isLiteral reports whether a text matches itself only. A regular expression
// never does: it may match a part of a value.
func isLiteral(text string, mode Mode) bool {
	return mode != Regex && !strings.ContainsAny(text, `*?[]{}\`)
}
