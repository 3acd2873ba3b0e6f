package filter

import (
	"errors"
	"fmt"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// invalid is the error of a constructor, with a field relative to its policy; the
// compiler completes the field.
func invalid(field, format string, args ...any) error {
	return refusal.New(field, refusal.Invalid, format, args...)
}

// Deps are the dependencies of filters. A policy whose dependency is nil is
// refused.
type Deps struct {
	// Counters hold the state of filters that count.
	Counters *Counters
	// Backend returns the sub-request client of a backend.
	Backend func(route.BackendID) SubrequestClient
	// Encoders compress responses.
	Encoders *Encoders
	// WAF compiles the rules of a web application firewall. It is a dependency because
	// the rules are an engine of their own.
	WAF func(*route.WAF) (Filter, error)
}

// Compile compiles policies that need neither sub-requests nor encoders. See
// [Deps.Compile].
func Compile(policies []route.Policy, counters *Counters) (Chain, error) {
	return Deps{Counters: counters}.Compile(policies)
}

// Compile compiles the policies of a rule. One that cannot be compiled fails the
// whole chain, with a *[refusal.Refusal]: the rule must then respond with 503 and not be
// served with the rest.
func (d Deps) Compile(policies []route.Policy) (Chain, error) {
	if len(policies) == 0 {
		return Chain{}, nil
	}
	if d.Counters == nil {
		return Chain{}, invalid("policies", "the edge was built without counters")
	}
	if err := validate(policies, nil); err != nil {
		return Chain{}, err
	}
	c := newCompiler(d)
	if err := c.addAll("policies", policies); err != nil {
		return Chain{}, err
	}
	return c.chain, nil
}

var notServed = route.Response{Status: 503}

// validate validates policies and directives as the table does. The table was validated
// before, but a filter compiled from an unchecked declaration could let every
// request in, so this does not rely on it.
func validate(policies []route.Policy, directives *route.Directives) error {
	// With a name and a response it has no further problems, whose messages would be made
	// for each rule.
	rule := route.Rule{ID: route.ID{Name: "policies"}, Response: &notServed, Policies: policies, Directives: directives}
	for _, problem := range rule.Validate() {
		if strings.HasPrefix(problem.Field, "policies") || strings.HasPrefix(problem.Field, "directives") {
			return invalid(problem.Field, "%s", problem.Message)
		}
	}
	return nil
}

// compiler collects the filters of one rule.
type compiler struct {
	counters *Counters
	deps     Deps
	chain    Chain
	// vouched are the headers by which filters pass on the client's identity.
	// Filters read it when requests come, so it has those of the whole chain.
	vouched         *[]string
	vouchedPatterns *[]*headerPattern
	// directives are those of the rule, nil for policies that come before them.
	directives *directives
}

func newCompiler(d Deps) *compiler {
	return &compiler{counters: d.Counters, deps: d, vouched: new([]string), vouchedPatterns: new([]*headerPattern)}
}

// vouch guards headers that pass on the client's identity.
func (c *compiler) vouch(names ...string) {
	c.guard(names...)
	*c.vouched = append(*c.vouched, names...)
}

// guard adds names of headers that only filters may set.
func (c *compiler) guard(names ...string) {
	for _, name := range names {
		if name != "" {
			c.chain.guarded = append(c.chain.guarded, name)
		}
	}
}

// backend returns the sub-request client of a backend.
func (c *compiler) backend(id route.BackendID) (SubrequestClient, error) {
	switch {
	case c.deps.Backend == nil:
		return nil, invalid("backend", "the edge was built without sub-requests")
	case id == route.BackendID{}:
		return nil, invalid("backend", "there is no backend; name one")
	}
	return c.deps.Backend(id), nil
}

// mark allocates a filter's place in Exchange.Marks.
func (c *compiler) mark() int {
	c.chain.marks++
	return c.chain.marks - 1
}

// addAll adds policies in order, those of a chain in its place. validate has
// bounded their number and depth.
func (c *compiler) addAll(field string, policies []route.Policy) error {
	at := func(i int) string { return fmt.Sprintf("%s[%d]", field, i) }
	for i := range policies {
		if chain := policies[i].Chain; chain != nil {
			if err := c.addAll(at(i)+".chain.policies", chain.Policies); err != nil {
				return err
			}
			continue
		}
		name, action := policies[i].Named()
		filter, err := c.build(action, policies[i].ID)
		if err != nil {
			return placed(at(i)+"."+name, err)
		}
		c.chain.add(filter)
	}
	return nil
}

// placed completes the field of a constructor's error.
func placed(field string, err error) error {
	if inner, ok := errors.AsType[*refusal.Refusal](err); ok {
		return inner.At(field)
	}
	return invalid(field, "%s", err)
}

// build compiles one policy. It is split in three by length only.
func (c *compiler) build(action route.Action, id route.PolicyID) (Filter, error) {
	switch a := action.(type) {
	case *route.RedirectScheme:
		return newRedirectScheme(a)
	case *route.RedirectRegexp:
		return newRedirectRegexp(a)
	case *route.AddPrefix:
		return newAddPrefix(a)
	case *route.StripPrefix:
		return newStripPrefix(a)
	case *route.StripPrefixRegexp:
		return newStripPrefixRegexp(a)
	case *route.ReplacePath:
		return newReplacePath(a)
	case *route.ReplacePathRegexp:
		return newReplacePathRegexp(a)
	case *route.RequestHeaders:
		return newRequestHeaders(a, c)
	case *route.ResponseHeaders:
		return newResponseHeaders(a)
	case *route.CORS:
		return newCORS(a, c.mark())
	case *route.ForwardCertificate:
		c.vouch(a.PEMHeader, a.InfoHeader, a.VerifyHeader, a.SubjectHeader, a.IssuerHeader)
		return newForwardCertificate(a)
	default:
		return c.buildGuard(action, id)
	}
}

// buildGuard is build for the policies that refuse requests.
func (c *compiler) buildGuard(action route.Action, id route.PolicyID) (Filter, error) {
	switch a := action.(type) {
	case *route.BasicAuth:
		c.vouch(a.UserHeader)
		return newBasicAuth(a, c.counters)
	case *route.IPFilter:
		return newIPFilter(a)
	case *route.RateLimit:
		return newRateLimit(a, id, c.counters)
	case *route.InFlight:
		return newInFlight(a, id, c)
	case *route.BodyLimit:
		return newBodyLimit(a)
	case *route.CircuitBreaker:
		return newCircuitBreaker(a, id, c)
	case *route.ForwardAuth:
		return newForwardAuth(a, c)
	case *route.WAF:
		if c.deps.WAF == nil {
			return nil, invalid("", "the edge was built without a web application firewall")
		}
		return c.deps.WAF(a)
	default:
		return c.buildOwned(action)
	}
}

// buildOwned is build for the policies about the exchange itself.
func (c *compiler) buildOwned(action route.Action) (Filter, error) {
	switch a := action.(type) {
	case *route.Buffering:
		return &buffering{request: a.MaxRequestBytes, response: a.MaxResponseBytes}, nil
	case *route.Compression:
		return newCompression(a, c)
	case *route.Retry:
		return newRetry(a)
	case *route.ErrorPages:
		return newErrorPages(a, c)
	case *route.Mirror:
		return newMirror(a, c)
	default:
		return nil, errors.New("the edge cannot run this policy; remove it from the route")
	}
}
