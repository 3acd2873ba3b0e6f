package rule

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// matcherReader reads the values of one matcher.
type matcherReader struct {
	// least and most bound the number of values; 0 as most is no bound.
	least, most int
	// all is set if all conditions have to hold, and not just one.
	all        bool
	conditions func(values []string, options *Options) ([]route.Condition, error)
}

// arity describes the number of values for messages.
func (r *matcherReader) arity() string {
	switch {
	case r.most == 0:
		return fmt.Sprintf("at least %d values", r.least)
	case r.least == r.most && r.most == 1:
		return "one value"
	case r.least == r.most:
		return fmt.Sprintf("%d values", r.most)
	default:
		return fmt.Sprintf("%d to %d values", r.least, r.most)
	}
}

// httpMatchers returns the matchers for requests by their names in lower case. Traefik
// accepts several spellings of each name.
func httpMatchers(syntax Syntax) map[string]matcherReader {
	if syntax == V2 {
		return map[string]matcherReader{
			"host":          {least: 1, conditions: each(host)},
			"hostheader":    {least: 1, conditions: each(host)},
			"hostregexp":    {least: 1, conditions: each(hostTemplate)},
			"path":          {least: 1, conditions: each(pathTemplate(route.PathExact))},
			"pathprefix":    {least: 1, conditions: each(pathTemplate(route.PathCharacterPrefix))},
			"method":        {least: 1, conditions: each(method)},
			"headers":       {least: 2, all: true, conditions: header(route.ValueExact)},
			"headersregexp": {least: 2, all: true, conditions: header(route.ValueRegexp)},
			"query":         {least: 1, all: true, conditions: each(queryPair)},
			"clientip":      {least: 1, conditions: each(client)},
		}
	}
	return map[string]matcherReader{
		"host":         {least: 1, most: 1, conditions: each(host)},
		"hostregexp":   {least: 1, most: 1, conditions: each(hostExpression)},
		"path":         {least: 1, most: 1, conditions: each(path(route.PathExact))},
		"pathprefix":   {least: 1, most: 1, conditions: each(path(route.PathCharacterPrefix))},
		"pathregexp":   {least: 1, most: 1, conditions: each(pathExpression)},
		"method":       {least: 1, most: 1, conditions: each(method)},
		"header":       {least: 2, most: 2, conditions: header(route.ValueExact)},
		"headerregexp": {least: 2, most: 2, conditions: header(route.ValueRegexp)},
		"query":        {least: 1, most: 2, conditions: query(route.ValueExact)},
		"queryregexp":  {least: 1, most: 2, conditions: query(route.ValueRegexp)},
		"clientip":     {least: 1, most: 1, conditions: each(client)},
	}
}

// each reads every value as a condition of its own.
func each(read func(value string, options *Options) (route.Condition, error)) func([]string, *Options) ([]route.Condition, error) {
	return func(values []string, options *Options) ([]route.Condition, error) {
		conditions := make([]route.Condition, len(values))
		for i, value := range values {
			condition, err := read(value, options)
			if err != nil {
				return nil, err
			}
			conditions[i] = condition
		}
		return conditions, nil
	}
}

func host(value string, options *Options) (route.Condition, error) {
	spelled := options.SpellHost(value)
	if spelled == "" {
		return route.Condition{}, errors.New("the host is empty: give its name")
	}
	return route.Condition{Host: spelled}, nil
}

// hostExpression refuses a variable of the syntax v2, which would be the literal text of
// an expression that no host matches.
func hostExpression(value string, _ *Options) (route.Condition, error) {
	if variable.MatchString(value) {
		return route.Condition{}, fmt.Errorf("%q has a variable of the syntax v2: write a regular expression, or set syntax to v2", value)
	}
	return route.Condition{HostRegexp: value}, compiles(value)
}

// variable finds a variable such as {name:[a-z]+} in an expression. The bounds of a
// repetition are numbers.
var variable = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*:`)

func path(kind route.PathType) func(string, *Options) (route.Condition, error) {
	return func(value string, options *Options) (route.Condition, error) {
		if !strings.HasPrefix(value, "/") {
			return route.Condition{}, fmt.Errorf("the path %q does not start with /", value)
		}
		return route.Condition{Path: &route.PathMatch{Type: kind, Value: options.SpellPath(value)}}, nil
	}
}

func pathExpression(value string, _ *Options) (route.Condition, error) {
	return route.Condition{Path: &route.PathMatch{Type: route.PathRegexp, Value: value}}, compiles(value)
}

func method(value string, _ *Options) (route.Condition, error) {
	if value == "" {
		return route.Condition{}, errors.New("the method is empty")
	}
	return route.Condition{Method: strings.ToUpper(value)}, nil
}

// header reads pairs of a name and a value, of which the syntax v3 has one.
func header(kind route.ValueType) func([]string, *Options) ([]route.Condition, error) {
	return func(values []string, _ *Options) ([]route.Condition, error) {
		if len(values)%2 != 0 {
			return nil, errors.New("the last header has no value")
		}
		var conditions []route.Condition
		for i := 0; i < len(values); i += 2 {
			match := &route.ValueMatch{Name: values[i], Value: values[i+1], Type: kind}
			if strings.EqualFold(match.Name, "Host") {
				return nil, errors.New("the host is no header for rules: use the matcher Host")
			}
			if kind == route.ValueRegexp {
				if err := compiles(match.Value); err != nil {
					return nil, err
				}
			}
			conditions = append(conditions, route.Condition{Header: match})
		}
		return conditions, nil
	}
}

// query reads a parameter and its value. Without a value the parameter has to be there
// with an empty one, as in Traefik.
func query(kind route.ValueType) func([]string, *Options) ([]route.Condition, error) {
	return func(values []string, _ *Options) ([]route.Condition, error) {
		match := &route.ValueMatch{Name: values[0], Type: route.ValueExact}
		var err error
		if len(values) == 2 {
			match.Value, match.Type = values[1], kind
			if kind == route.ValueRegexp {
				err = compiles(match.Value)
			}
		}
		return []route.Condition{{Query: match}}, err
	}
}

func client(value string, _ *Options) (route.Condition, error) {
	prefix, err := network(value)
	if err != nil {
		return route.Condition{}, err
	}
	return route.Condition{Clients: []netip.Prefix{prefix}}, nil
}

// compiles checks the syntax of an expression; the table bounds its size. An expression
// that is empty matches everything, which the table does not have.
func compiles(expression string) error {
	if expression == "" {
		return errors.New("the expression is empty")
	}
	if _, err := regexp.Compile(expression); err != nil {
		return fmt.Errorf("%q is not a regular expression in RE2 syntax", expression)
	}
	return nil
}
