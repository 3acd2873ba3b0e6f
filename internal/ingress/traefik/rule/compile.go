package rule

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// MaxAlternatives bounds the alternatives of one rule. Each becomes a rule of the
// routing table, and their number is the product of the alternatives that && joins.
const MaxAlternatives = 256

// Syntax is the version of the syntax of rules.
type Syntax string

// The syntaxes.
const (
	V2 Syntax = "v2"
	V3 Syntax = "v3"
)

// Options are what the compilation of rules depends on.
type Options struct {
	Syntax Syntax
	// SpellHost and SpellPath normalise a host and a path as those of requests.
	SpellHost, SpellPath func(string) string
}

// Alternative is one of the ways in which a request can fit a rule.
type Alternative struct {
	// Host is as in route.Rule.
	Host  string
	Match route.Match
}

// Compile returns the alternatives of a rule for requests.
func Compile(text string, options Options) ([]Alternative, error) {
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	conjunctions, err := (&compiler{options: options, matchers: httpMatchers(options.Syntax)}).conjunctions(parsed, false)
	if err != nil {
		return nil, err
	}
	var alternatives []Alternative
	for _, literals := range conjunctions {
		literals, possible := reduce(literals)
		if !possible {
			continue
		}
		if len(literals) > route.MaxConditions {
			return nil, fmt.Errorf("%d conditions have to hold at once; at most %d are possible", len(literals), route.MaxConditions)
		}
		alternatives = append(alternatives, alternativeOf(literals))
	}
	if len(alternatives) == 0 {
		return nil, errors.New("no request can match: the conditions exclude each other")
	}
	return alternatives, nil
}

// compiler brings an expression into disjunctive form.
type compiler struct {
	options  Options
	matchers map[string]matcherReader
	// connections is set for a rule of connections, and not of requests.
	connections bool
}

// selects describes what the rule selects, for messages.
func (c *compiler) selects() string {
	if c.connections {
		return "connections"
	}
	return "requests"
}

// conjunctions returns the alternatives of an expression, or of its opposite, each a
// list of conditions that all must hold. The opposite of && is || of the opposites.
func (c *compiler) conjunctions(e *expression, opposite bool) ([][]route.Condition, error) {
	switch {
	case e.operator == matches:
		return c.literals(&e.matcher, opposite)
	case e.operator == not:
		return c.conjunctions(e.operands[0], !opposite)
	}
	parts := make([][][]route.Condition, len(e.operands))
	for i, operand := range e.operands {
		part, err := c.conjunctions(operand, opposite)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	return combine(parts, (e.operator == and) != opposite)
}

// combine joins alternatives by && or ||, within the bound.
func combine(parts [][][]route.Condition, all bool) ([][]route.Condition, error) {
	joined := parts[0]
	for _, part := range parts[1:] {
		size := len(joined) + len(part)
		if all {
			size = len(joined) * len(part)
		}
		if size > MaxAlternatives {
			return nil, fmt.Errorf("the rule has more than %d alternatives: split it into several routes", MaxAlternatives)
		}
		if !all {
			joined = append(slices.Clip(joined), part...)
			continue
		}
		product := make([][]route.Condition, 0, size)
		for _, a := range joined {
			for _, b := range part {
				product = append(product, slices.Concat(a, b))
			}
		}
		joined = product
	}
	return joined, nil
}

// literals returns the conditions of a matcher, or of its opposite.
func (c *compiler) literals(m *matcher, opposite bool) ([][]route.Condition, error) {
	read, known := c.matchers[strings.ToLower(m.name)]
	if !known {
		return nil, fmt.Errorf("at %d: there is no matcher %s for %s in the syntax %s", m.at+1, m.name, c.selects(), c.options.Syntax)
	}
	if len(m.values) < read.least || read.most > 0 && len(m.values) > read.most {
		return nil, fmt.Errorf("at %d: %s has %s in the syntax %s, and here %d", m.at+1, m.name, read.arity(), c.options.Syntax, len(m.values))
	}
	conditions, err := read.conditions(m.values, &c.options)
	if err != nil {
		return nil, fmt.Errorf("at %d: %s: %w", m.at+1, m.name, err)
	}
	parts := make([][][]route.Condition, len(conditions))
	for i := range conditions {
		conditions[i].Not = opposite
		parts[i] = [][]route.Condition{{conditions[i]}}
	}
	return combine(parts, read.all != opposite)
}

// reduce removes conditions that others imply, and reports whether the rest can hold at
// all. It finds what people write: the same condition twice or with its opposite, and two
// hosts, paths or methods. A rule with others that exclude each other never matches.
func reduce(literals []route.Condition) ([]route.Condition, bool) {
	var reduced []route.Condition
	for _, literal := range literals {
		if slices.ContainsFunc(reduced, func(other route.Condition) bool { return excludes(&other, &literal) }) {
			return nil, false
		}
		if !slices.ContainsFunc(reduced, func(other route.Condition) bool { return samePart(&other, &literal) }) {
			reduced = append(reduced, literal)
		}
	}
	return reduced, true
}

// excludes reports whether two conditions cannot hold at once.
func excludes(a, b *route.Condition) bool {
	if a.Not != b.Not {
		return samePart(a, b)
	}
	return !a.Not && (exactHost(a) && exactHost(b) && a.Host != b.Host ||
		exactPath(a) && exactPath(b) && a.Path.Value != b.Path.Value ||
		a.Method != "" && b.Method != "" && a.Method != b.Method)
}

// samePart reports whether two conditions are the same, apart from Not.
func samePart(a, b *route.Condition) bool {
	return a.Host == b.Host && a.HostRegexp == b.HostRegexp && a.Method == b.Method &&
		sameValue(a.Path, b.Path) && sameValue(a.Header, b.Header) && sameValue(a.Query, b.Query) && slices.Equal(a.Clients, b.Clients)
}

func sameValue[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func exactHost(c *route.Condition) bool {
	_, wildcard := route.WildcardParent(c.Host)
	return c.Host != "" && !wildcard
}

func exactPath(c *route.Condition) bool { return c.Path != nil && c.Path.Type == route.PathExact }

// alternativeOf assigns conditions to the fields of a match. Host and path select rules
// by index, so the most specific ones become those; everything else is a further
// condition.
func alternativeOf(literals []route.Condition) Alternative {
	var a Alternative
	host, path := best(literals, hostSpecificity), best(literals, pathSpecificity)
	for i := range literals {
		switch literal := &literals[i]; {
		case i == host:
			a.Host = hostOf(literal)
			if literal.HostRegexp != "" {
				a.Match.Further = append(a.Match.Further, *literal)
			}
		case i == path:
			a.Match.Path = *literal.Path
		case literal.Not:
			a.Match.Further = append(a.Match.Further, *literal)
		case literal.Method != "" && len(a.Match.Methods) == 0:
			a.Match.Methods = []string{literal.Method}
		case literal.Header != nil:
			a.Match.Headers = append(a.Match.Headers, *literal.Header)
		case literal.Query != nil:
			a.Match.Query = append(a.Match.Query, *literal.Query)
		default:
			a.Match.Further = append(a.Match.Further, *literal)
		}
	}
	return a
}

// best returns the index of the condition with the highest specificity above 0, -1 for
// none.
func best(literals []route.Condition, specificity func(*route.Condition) int) int {
	found, highest := -1, 0
	for i := range literals {
		if of := specificity(&literals[i]); of > highest {
			found, highest = i, of
		}
	}
	return found
}

// hostSpecificity is that of a condition that can be the host of a rule.
func hostSpecificity(c *route.Condition) int {
	switch {
	case c.Not || hostOf(c) == "":
		return 0
	case exactHost(c):
		return 3
	case c.Host != "":
		return 2
	default:
		return 1
	}
}

// hostOf returns the host of a rule with a condition: that of the condition, or the
// wildcard that includes all hosts which an expression matches; empty for neither.
func hostOf(c *route.Condition) string {
	if c.HostRegexp != "" {
		return wildcardOf(c.HostRegexp)
	}
	return c.Host
}

// pathSpecificity is that of a condition that can be the path of a rule.
func pathSpecificity(c *route.Condition) int {
	switch {
	case c.Not || c.Path == nil:
		return 0
	case c.Path.Type == route.PathExact:
		return route.MaxPathLength * 2
	case c.Path.Type == route.PathRegexp:
		return 1
	default:
		return 1 + len(c.Path.Value)
	}
}

// network parses a network or a single address.
func network(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
	}
	address = address.Unmap()
	return netip.PrefixFrom(address, address.BitLen()), nil
}
