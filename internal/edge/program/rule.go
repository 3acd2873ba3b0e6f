package program

import (
	"fmt"
	"net/textproto"
	"regexp"
	"slices"

	"slipway.dev/slipway/internal/route"
)

// compiledRule is a rule in the form in which it is compared with requests. The
// fields that every lookup reads come first.
type compiledRule struct {
	source  *route.Rule
	binding any
	// entryPoints has a bit for each entry point that the rule serves.
	entryPoints uint64
	rank        route.Rank
	pathType    pathType
	// conditional is set when there are conditions apart from entry points.
	conditional bool
	scheme      scheme
	methods     []string
	headers     []condition
	query       []condition
	// further is nil for most rules.
	further *furtherConditions
	// literal is the prefix that every matching path has; see route.PathMatch.
	literal string
	// expression is the whole condition of a path of type regexp.
	expression *regexp.Regexp
	// With order and the rest the size is a whole number of cache lines, so that the
	// first fields share one.
	order route.Order
	_     uint64
}

// scheme is a scheme of requests, as a number that fits beside the path type.
type scheme uint8

const (
	anyScheme scheme = iota
	plainScheme
	encryptedScheme
)

// schemeOf returns the number of a scheme.
func schemeOf(of route.Scheme) scheme {
	switch of {
	case route.SchemeHTTP:
		return plainScheme
	case route.SchemeHTTPS:
		return encryptedScheme
	default:
		return anyScheme
	}
}

// servesHostOf reports whether the rule, of a less specific host, may serve
// requests for a host that belongs to a namespace alone. Rules without an owner are
// the operator's, such as the redirect of an entry point.
func (r *compiledRule) servesHostOf(owner string) bool {
	return r.source.HostOwner.Namespace == "" || r.source.ID.Namespace == owner
}

// key is the key of the rule in its index.
func (r *compiledRule) key() route.ID { return r.source.ID }

// result is the result of a lookup that finds the rule.
func (r *compiledRule) result() Result { return Result{Rule: r.source, Binding: r.binding} }

// pathType is the type of a path match, as a number that is quick to compare.
type pathType uint8

const (
	pathAny pathType = iota
	pathExact
	pathPrefix
	pathCharacterPrefix
	pathRegexp
)

// condition is a condition on a header or a parameter of the query.
type condition struct {
	name  string
	value string
	// present is set if every value matches.
	present    bool
	expression *regexp.Regexp
}

// fits reports whether a value meets the condition.
func (c *condition) fits(value string) bool {
	switch {
	case c.present:
		return true
	case c.expression != nil:
		return c.expression.MatchString(value)
	default:
		return value == c.value
	}
}

// acceptsAt reports whether the type of the path accepts a path that starts
// with the rule's literal, which has length bytes. It leaves the regular
// expression out.
func (r *compiledRule) acceptsAt(path string, length int) bool {
	switch r.pathType {
	case pathExact:
		return length == len(path)
	case pathPrefix:
		// The only prefix of one byte is /, which matches everything.
		return length == len(path) || length == 1 || path[length] == '/'
	default:
		return true
	}
}

// part is a part of a rule that a request can fail to match.
type part uint8

const (
	noPart part = iota
	partEntryPoint
	partScheme
	partMethod
	partHeader
	partQuery
	partFurther
	partPath
)

// mismatch is the first part of a rule that a request does not match; noPart is
// a match. index is the place in the list of headers, parameters or further conditions.
type mismatch struct {
	part  part
	index int
}

// conditions checks everything except host and path. Lookup and Explain both
// use it, so they cannot disagree.
func (r *compiledRule) conditions(req *Request, entryPoint uint64) mismatch {
	if r.entryPoints&entryPoint == 0 {
		return mismatch{part: partEntryPoint}
	}
	if !r.conditional {
		return mismatch{}
	}
	if r.scheme != anyScheme && (r.scheme == encryptedScheme) != req.TLS {
		return mismatch{part: partScheme}
	}
	if len(r.methods) > 0 && !slices.Contains(r.methods, req.Method) {
		return mismatch{part: partMethod}
	}
	for i := range r.headers {
		if !headerFits(&r.headers[i], req.Header) {
			return mismatch{partHeader, i}
		}
	}
	for i := range r.query {
		if !queryFits(&r.query[i], req.Query) {
			return mismatch{partQuery, i}
		}
	}
	if r.further != nil {
		return r.further.mismatch(req)
	}
	return mismatch{}
}

// headerFits reports whether one of the values of a header meets a condition.
func headerFits(c *condition, header Header) bool {
	if header == nil {
		return false
	}
	for i := 0; ; i++ {
		value, ok := header.Value(c.name, i)
		if !ok {
			return false
		}
		if c.fits(value) {
			return true
		}
	}
}

// compileRule compiles the part of a rule that does not depend on other
// elements.
func (e *edit) compileRule(rule *route.Rule) (*compiledRule, error) {
	match := &rule.Match
	order := route.OrderOf(rule)
	compiled := &compiledRule{
		source:      rule,
		order:       order,
		rank:        order.Rank(),
		literal:     match.Path.Literal(),
		conditional: match.Conditions() > 0,
		scheme:      schemeOf(match.Scheme),
		methods:     match.Methods,
	}
	var err error
	switch match.Path.Type {
	case route.PathExact:
		compiled.pathType = pathExact
	case route.PathPrefix:
		compiled.pathType = pathPrefix
	case route.PathCharacterPrefix:
		compiled.pathType = pathCharacterPrefix
	case route.PathRegexp:
		compiled.pathType = pathRegexp
		if compiled.expression, err = e.expression(match.Path.Value); err != nil {
			return nil, err
		}
	}
	if compiled.headers, err = e.conditions(match.Headers); err != nil {
		return nil, err
	}
	// Lookup compares with canonical names, which Header.Value expects.
	for i := range compiled.headers {
		compiled.headers[i].name = textproto.CanonicalMIMEHeaderKey(compiled.headers[i].name)
	}
	if compiled.query, err = e.conditions(match.Query); err != nil {
		return nil, err
	}
	if compiled.further, err = e.furtherConditions(match.Further); err != nil {
		return nil, err
	}
	if e.next.compiler.Bind != nil {
		if compiled.binding, err = e.next.compiler.Bind(rule); err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.ID, err)
		}
	}
	return compiled, nil
}

// conditions compiles the conditions on headers or query parameters.
func (e *edit) conditions(matches []route.ValueMatch) ([]condition, error) {
	if len(matches) == 0 {
		return nil, nil
	}
	compiled := make([]condition, len(matches))
	for i := range matches {
		var err error
		if compiled[i], err = e.valueCondition(&matches[i]); err != nil {
			return nil, err
		}
	}
	return compiled, nil
}

// valueCondition compiles the condition on one header or query parameter.
func (e *edit) valueCondition(match *route.ValueMatch) (condition, error) {
	compiled := condition{name: match.Name, value: match.Value, present: match.Type == route.ValuePresent}
	var err error
	if match.Type == route.ValueRegexp {
		compiled.expression, err = e.expression(match.Value)
	}
	return compiled, err
}

// intern returns one copy of a text for each edit: many hosts have the same
// paths, and lookups of one then find those of another in the CPU cache.
func (e *edit) intern(intern string) string {
	if known, ok := e.interned[intern]; ok {
		return known
	}
	e.interned[intern] = intern
	return intern
}

// expression compiles a regular expression once for each edit: many rules have
// the same.
func (e *edit) expression(text string) (*regexp.Regexp, error) {
	if known, ok := e.expressions[text]; ok {
		return known, nil
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	e.expressions[text] = compiled
	return compiled, nil
}
