package filter

import (
	"errors"
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// Unsupported is why a policy that is in order cannot be compiled: the edge
// has no filter for it. The rule must not be served without it.
type Unsupported struct {
	// Field is the place of the policy: policies[1].mirror.
	Field string
	// Action is the name of the policy in the table, such as mirror.
	Action string
}

// Error says what to do.
func (e *Unsupported) Error() string {
	return fmt.Sprintf("%s: the edge cannot run the policy %s; remove it from the route", e.Field, e.Action)
}

// Invalid is why a policy cannot be compiled as it is written.
type Invalid struct {
	// Field is the place in the rule: policies[1].basicAuth.users.
	Field string
	Err   error
}

// Error says where and what.
func (e *Invalid) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap gives what is wrong, without the place.
func (e *Invalid) Unwrap() error { return e.Err }

// invalid is for the filters' own constructors; the compiler completes the
// field.
func invalid(field, format string, args ...any) error {
	return &Invalid{Field: field, Err: fmt.Errorf(format, args...)}
}

// Compile makes the filters of a rule from its policies. Any policy that cannot
// be made into one fails the whole, with an *Unsupported or an *Invalid: the
// rule must then answer 503 and not be served with the rest.
func Compile(policies []route.Policy, counters *Counters) (Chain, error) {
	if len(policies) == 0 {
		return Chain{}, nil
	}
	if counters == nil {
		return Chain{}, &Invalid{Field: "policies", Err: errors.New("there is nothing to count with: the edge was built without counters")}
	}
	if err := validate(policies); err != nil {
		return Chain{}, err
	}
	c := compiler{counters: counters}
	if err := c.addAll("policies", policies); err != nil {
		return Chain{}, err
	}
	return c.chain, nil
}

// validate holds the policies to what the table demands of them. The table was
// checked before; a filter made of a declaration that nobody checked would be
// an open door, so this does not rely on it.
func validate(policies []route.Policy) error {
	rule := route.Rule{Policies: policies}
	for _, problem := range rule.Validate() {
		if strings.HasPrefix(problem.Field, "policies") {
			return &Invalid{Field: problem.Field, Err: errors.New(problem.Message)}
		}
	}
	return nil
}

// compiler collects the filters of one rule.
type compiler struct {
	counters *Counters
	chain    Chain
}

// mark gives a filter its place in Exchange.Marks.
func (c *compiler) mark() int {
	c.chain.marks++
	return c.chain.marks - 1
}

// addAll adds policies in order, those of a chain in its place. validate has
// bounded their number and depth.
func (c *compiler) addAll(field string, policies []route.Policy) error {
	for i := range policies {
		at := fmt.Sprintf("%s[%d]", field, i)
		if chain := policies[i].Chain; chain != nil {
			if err := c.addAll(at+".chain.policies", chain.Policies); err != nil {
				return err
			}
			continue
		}
		name, filter, err := c.build(&policies[i])
		switch {
		case err != nil:
			return placed(at+"."+name, err)
		case filter == nil:
			return &Unsupported{Field: at + "." + name, Action: name}
		}
		c.chain.filters = append(c.chain.filters, filter)
	}
	return nil
}

// placed puts an error of a constructor in its place in the rule.
func placed(field string, err error) error {
	if inner, ok := errors.AsType[*Invalid](err); ok {
		return &Invalid{Field: field + "." + inner.Field, Err: inner.Err}
	}
	return &Invalid{Field: field, Err: err}
}

// build makes the filter of one policy, nil when there is no filter for it.
func (c *compiler) build(p *route.Policy) (name string, f Filter, err error) {
	switch a := p.Action().(type) {
	case *route.RedirectScheme:
		name = "redirectScheme"
		f, err = newRedirectScheme(a)
	case *route.RedirectRegexp:
		name = "redirectRegexp"
		f, err = newRedirectRegexp(a)
	case *route.AddPrefix:
		name = "addPrefix"
		f, err = newAddPrefix(a)
	case *route.StripPrefix:
		name = "stripPrefix"
		f, err = newStripPrefix(a)
	case *route.StripPrefixRegexp:
		name = "stripPrefixRegexp"
		f, err = newStripPrefixRegexp(a)
	case *route.ReplacePath:
		name = "replacePath"
		f, err = newReplacePath(a)
	case *route.ReplacePathRegexp:
		name = "replacePathRegexp"
		f, err = newReplacePathRegexp(a)
	case *route.RequestHeaders:
		name = "requestHeaders"
		f, err = newRequestHeaders(a)
	case *route.ResponseHeaders:
		name = "responseHeaders"
		f, err = newResponseHeaders(a)
	case *route.CORS:
		name = "cors"
		f, err = newCORS(a, c.mark())
	case *route.ForwardCertificate:
		name = "forwardCertificate"
		f, err = newForwardCertificate(a)
	default:
		return c.buildGuard(p)
	}
	return name, f, err
}

// buildGuard is build for the policies that keep requests out.
func (c *compiler) buildGuard(p *route.Policy) (name string, f Filter, err error) {
	switch a := p.Action().(type) {
	case *route.BasicAuth:
		name = "basicAuth"
		f, err = newBasicAuth(a, c.counters)
	case *route.IPFilter:
		name = "ipFilter"
		f, err = newIPFilter(a)
	case *route.RateLimit:
		name = "rateLimit"
		f, err = newRateLimit(a, p.ID, c.counters)
	case *route.InFlight:
		name = "inFlight"
		f, err = newInFlight(a, p.ID, c)
	case *route.BodyLimit:
		name = "bodyLimit"
		f, err = newBodyLimit(a)
	case *route.CircuitBreaker:
		name = "circuitBreaker"
		f, err = newCircuitBreaker(a, p.ID, c)
	case *route.ForwardAuth:
		name = "forwardAuth"
	case *route.Buffering:
		name = "buffering"
	case *route.Compression:
		name = "compression"
	case *route.Retry:
		name = "retry"
	case *route.ErrorPages:
		name = "errorPages"
	case *route.Mirror:
		name = "mirror"
	default:
		name = fmt.Sprintf("%T", a)
	}
	return name, f, err
}
