package rule

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// hostTemplate reads a host of the syntax v2, in which {name} stands for a label and
// {name:expression} for what the expression matches. Hosts are compared in lower case.
func hostTemplate(value string, options *Options) (route.Condition, error) {
	expression, variables, err := expandTemplate(value, "[^.]+", func(text string) string { return text })
	if err != nil {
		return route.Condition{}, err
	}
	if !variables {
		return host(value, options)
	}
	expression = "(?i)^" + expression + "$"
	return route.Condition{HostRegexp: expression}, compiles(expression)
}

// pathTemplate reads a path of the syntax v2, in which {name} stands for an element and
// {name:expression} for what the expression matches.
func pathTemplate(kind route.PathType) func(string, *Options) (route.Condition, error) {
	return func(value string, options *Options) (route.Condition, error) {
		expression, variables, err := expandTemplate(value, "[^/]+", options.SpellPath)
		if err != nil {
			return route.Condition{}, err
		}
		if !variables {
			return path(kind)(value, options)
		}
		if !strings.HasPrefix(value, "/") {
			return route.Condition{}, fmt.Errorf("the path %q does not start with /", value)
		}
		expression = "^" + expression
		if kind == route.PathExact {
			expression += "$"
		}
		return route.Condition{Path: &route.PathMatch{Type: route.PathRegexp, Value: expression}}, compiles(expression)
	}
}

// queryPair reads a parameter of the syntax v2, such as mobile=true. A parameter without
// a value can have any.
func queryPair(value string, _ *Options) (route.Condition, error) {
	name, wanted, found := strings.Cut(value, "=")
	if !found || name == "" {
		return route.Condition{}, fmt.Errorf("%q is not a parameter with its value, such as mobile=true", value)
	}
	match := &route.ValueMatch{Name: name, Value: wanted, Type: route.ValueExact}
	expression, variables, err := expandTemplate(wanted, ".*", func(text string) string { return text })
	switch {
	case err != nil:
		return route.Condition{}, err
	case variables:
		match.Type, match.Value = route.ValueRegexp, "^"+expression+"$"
		err = compiles(match.Value)
	case wanted == "":
		match.Type = route.ValuePresent
	}
	return route.Condition{Query: match}, err
}

// expandTemplate returns the regular expression of a text with variables, and whether it
// has any. The text between them is spelled as it is in requests.
func expandTemplate(text, each string, spell func(string) string) (expression string, variables bool, err error) {
	var out strings.Builder
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if strings.Contains(literal, "}") {
			return "", false, errors.New("a } has no { before it")
		}
		out.WriteString(regexp.QuoteMeta(spell(literal)))
		if !found {
			break
		}
		end := closing(rest)
		if end < 0 {
			return "", false, errors.New("a { has no } after it")
		}
		name, pattern, given := strings.Cut(rest[:end], ":")
		if !given {
			pattern = each
		}
		if name == "" || pattern == "" {
			return "", false, fmt.Errorf("{%s} is no variable: write {name} or {name:expression}", rest[:end])
		}
		out.WriteString("(?:" + pattern + ")")
		text, variables = rest[end+1:], true
	}
	return out.String(), variables, nil
}

// closing returns the place of the brace that closes one before the text, -1 for none. An
// expression can have braces of its own.
func closing(text string) int {
	depth := 1
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
