package project

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/gitops/glob"
)

// matcher is a compiled pattern.
type matcher interface{ Match(text string) bool }

// rule is one pattern of an AppProject. What matches is allowed, or forbidden if
// deny is set.
type rule struct {
	matcher
	deny bool
	// literal is the text of a pattern without special characters.
	literal string
}

// never and always stand for patterns that cannot be read.
type never struct{}

func (never) Match(string) bool { return false }

type always struct{}

func (always) Match(string) bool { return true }

// broken fails closed.
func broken(deny bool) rule {
	if deny {
		return rule{matcher: always{}, deny: true}
	}
	return rule{matcher: never{}}
}

// errDenyAll is Argo CD's rule too.
var errDenyAll = errors.New("!* forbids everything: remove it, and what it was meant for")

// parseRule reads a pattern that may start with !.
func parseRule(text string, compile func(string) (glob.Pattern, error)) (rule, error) {
	rest, deny := strings.CutPrefix(text, "!")
	if deny && rest == "*" {
		return broken(true), errDenyAll
	}
	pattern, err := compile(rest)
	if err != nil {
		return broken(deny), err
	}
	parsed := rule{matcher: pattern, deny: deny}
	if !strings.ContainsAny(rest, `*?[]{}\`) {
		parsed.literal = rest
	}
	return parsed, nil
}

// plainRule reads a pattern that cannot start with !.
func plainRule(text string) (rule, error) {
	if strings.HasPrefix(text, "!") {
		return broken(false), errors.New("a ! has no meaning here: list what is allowed")
	}
	return parseRule(text, glob.Compile)
}

// denied is plainRule for a list that forbids: one that cannot be read forbids
// everything.
func denied(text string) (rule, error) {
	parsed, err := plainRule(text)
	if err != nil {
		parsed.matcher = always{}
	}
	return parsed, err
}

// namespaceRule reads an entry of sourceNamespaces: a pattern, or a regular
// expression between slashes.
func namespaceRule(text string) (rule, error) {
	if len(text) < 2 || !strings.HasPrefix(text, "/") || !strings.HasSuffix(text, "/") {
		return plainRule(text)
	}
	if len(text) > maxExpression {
		return broken(false), fmt.Errorf("the expression has %d characters, the most is %d", len(text), maxExpression)
	}
	expression, err := regexp.Compile(text[1 : len(text)-1])
	if err != nil {
		return broken(false), errors.New("the regular expression cannot be read: write one that Go has, without look-ahead")
	}
	return rule{matcher: matchExpression{expression}}, nil
}

// maxExpression bounds a regular expression as patterns are bounded.
const maxExpression = 512

type matchExpression struct{ *regexp.Regexp }

func (m matchExpression) Match(text string) bool { return m.MatchString(text) }

// anyMatches reports whether one of the rules matches.
func anyMatches(rules []rule, text string) bool {
	return slices.ContainsFunc(rules, func(rule rule) bool { return rule.Match(text) })
}
