package route

import (
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// checkPolicies validates the policies of a rule. Their number is bounded over all
// chains, because every request passes all of them.
func checkPolicies(r *report, policies []Policy) {
	if countPolicies(policies, MaxChainDepth) > MaxPolicies {
		r.add("policies", refusal.TooMany, "there are more than %d, those in chains included; use fewer", MaxPolicies)
		return
	}
	if countWAF(policies, MaxChainDepth) > 1 {
		r.add("policies", refusal.Conflict, "a rule has one waf, those in chains included; put the directives into one")
	}
	checkPolicyList(r, policies, MaxChainDepth)
}

// countPolicies counts policies, those in chains included. It recurses no deeper
// than a valid table does.
func countPolicies(policies []Policy, depth int) int {
	count := len(policies)
	for i := range policies {
		if chain := policies[i].Chain; chain != nil && depth > 0 && count <= MaxPolicies {
			count += countPolicies(chain.Policies, depth-1)
		}
	}
	return count
}

// checkPolicyList validates each policy of a list.
func checkPolicyList(r *report, policies []Policy, depth int) {
	for i := range policies {
		r.enterItem("policies", i)
		policies[i].check(r, depth)
		r.leave()
	}
}

// check requires exactly one action, and an ID for the policies that count.
func (p *Policy) check(r *report, depth int) {
	r.enter("id")
	checkOptionalName(r, "name", p.ID.Name)
	checkOptionalName(r, "namespace", p.ID.Namespace)
	checkOptionalName(r, "kind", p.ID.Kind)
	checkOptionalName(r, "variant", p.ID.Variant)
	r.leave()
	name, action, count := p.actions()
	switch {
	case count == 0:
		r.add("", refusal.Required, "the policy does nothing; set one of its fields")
		return
	case count > 1:
		r.add("", refusal.Conflict, "a policy does one thing; make one of each, in the order in which they apply")
		return
	}
	switch action.(type) {
	case *RateLimit, *InFlight, *CircuitBreaker:
		if p.ID.Name == "" {
			r.add("id", refusal.Required, "what the policy counts is kept under its identity; give it a name")
		}
	}
	r.enter(name)
	switch {
	case p.Chain == nil:
	case depth == 0:
		r.add("", refusal.TooMany, "chains are nested more than %d deep; put the policies into one list", MaxChainDepth)
	default:
		checkPolicyList(r, p.Chain.Policies, depth-1)
	}
	action.check(r)
	r.leave()
}

// check refuses an empty chain; its policies are validated by [Policy.check].
func (c *Chain) check(r *report) {
	if len(c.Policies) == 0 {
		r.add("", refusal.Required, "the chain is empty; remove it")
	}
}

// check allows http and https only.
func (p *RedirectScheme) check(r *report) {
	checkChoice(r, "scheme", p.Scheme, SchemeHTTP, SchemeHTTPS)
	checkRedirectStatus(r, p.Status)
}

// check requires an expression in RE2 and a replacement.
func (p *RedirectRegexp) check(r *report) {
	checkExpressionField(r, "regexp", p.Regexp)
	if p.Replacement == "" || hasControl(p.Replacement) {
		r.add("replacement", refusal.Invalid, "give the URL to redirect to, without control characters")
	}
	checkRedirectStatus(r, p.Status)
}

// checkRedirectStatus allows the statuses that browsers follow.
func checkRedirectStatus(r *report, status int) {
	if status != 0 && !slices.Contains([]int{301, 302, 303, 307, 308}, status) {
		r.add("status", refusal.Invalid, "%d is none of 301, 302, 303, 307, 308", status)
	}
}

// check requires a canonical path, as for the other path policies: the result is
// forwarded, so it must be one that a client could have sent.
func (p *AddPrefix) check(r *report) {
	checkPath(r, "prefix", p.Prefix)
}

func (p *StripPrefix) check(r *report) {
	if len(p.Prefixes) == 0 {
		r.add("prefixes", refusal.Required, "there is no prefix to remove; give one")
	}
	checkEach(r, "prefixes", p.Prefixes, checkPath)
}

func (p *StripPrefixRegexp) check(r *report) {
	if len(p.Regexps) == 0 {
		r.add("regexps", refusal.Required, "there is no expression; give one")
	}
	checkEach(r, "regexps", p.Regexps, checkExpressionField)
}

func (p *ReplacePath) check(r *report) {
	checkPath(r, "path", p.Path)
}

func (p *ReplacePathRegexp) check(r *report) {
	checkExpressionField(r, "regexp", p.Regexp)
	if p.Replacement == "" || hasControl(p.Replacement) {
		r.add("replacement", refusal.Invalid, "give the new path, without control characters")
	}
}

func (p *RequestHeaders) check(r *report) {
	checkHeaderChange(r, p.Set, p.Add, p.Remove)
}

func (p *ResponseHeaders) check(r *report) {
	checkHeaderChange(r, p.Set, p.Add, p.Remove)
}

// checkHeaderChange refuses changes of the headers that frame a message: with those
// a second message could be hidden in the first (request smuggling).
func checkHeaderChange(r *report, set, add []HeaderValue, remove []string) {
	for i := range set {
		r.enterItem("set", i)
		checkHeaderValue(r, set[i])
		r.leave()
	}
	for i := range add {
		r.enterItem("add", i)
		checkHeaderValue(r, add[i])
		r.leave()
	}
	checkEach(r, "remove", remove, checkChangedHeader)
}

func checkHeaderValue(r *report, header HeaderValue) {
	checkChangedHeader(r, "name", header.Name)
	if hasControl(header.Value) {
		r.add("value", refusal.Invalid, "a header value has no control characters")
	}
}

// checkChangedHeader refuses the headers that frame a message or choose its
// destination.
func checkChangedHeader(r *report, field, name string) {
	checkHeaderName(r, field, name)
	switch strings.ToLower(name) {
	case "connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade":
		r.add(field, refusal.Invalid, "%s belongs to the connection and cannot be changed", name)
	}
}

// check refuses credentials for all origins, which browsers refuse too.
func (p *CORS) check(r *report) {
	if len(p.AllowOrigins)+len(p.AllowOriginRegexps) == 0 {
		r.add("allowOrigins", refusal.Required, "no origin is allowed; give one, or * for all")
	}
	if p.AllowCredentials && slices.Contains(p.AllowOrigins, "*") {
		r.add("allowCredentials", refusal.Conflict, "browsers refuse credentials for all origins; list the origins")
	}
	checkTexts(r, "allowOrigins", p.AllowOrigins)
	checkEach(r, "allowOriginRegexps", p.AllowOriginRegexps, checkExpressionField)
	checkTokens(r, "allowMethods", p.AllowMethods)
	checkTokens(r, "allowHeaders", p.AllowHeaders)
	checkTokens(r, "exposeHeaders", p.ExposeHeaders)
	checkDuration(r, "maxAge", p.MaxAge)
}

// check requires a backend, a path and ranges of error statuses.
func (p *ErrorPages) check(r *report) {
	if len(p.Statuses) == 0 {
		r.add("statuses", refusal.Required, "no status is replaced; give a range such as 500 to 599")
	}
	checkStatuses(r, p.Statuses, 400)
	checkPath(r, "path", p.Path)
	for i := range p.Headers {
		r.enterItem("headers", i)
		checkHeaderValue(r, p.Headers[i])
		r.leave()
	}
}

// check requires users. Their hashes are parsed when the policy is compiled.
func (p *BasicAuth) check(r *report) {
	if p.Users.IsZero() {
		r.add("users", refusal.Required, "there are no users, so every request would be refused; give the lines of an htpasswd file")
	}
	checkText(r, "users", p.Users.Reveal())
	if hasControl(p.Realm) || strings.Contains(p.Realm, `"`) {
		r.add("realm", refusal.Invalid, "a realm has no control characters and no quotes")
	}
	checkOptionalHeaderName(r, "userHeader", p.UserHeader)
}

// check requires a backend of the table: a policy cannot name an address.
func (p *ForwardAuth) check(r *report) {
	checkPath(r, "path", p.Path)
	if len(p.Query) > MaxPathLength || strings.ContainsFunc(p.Query, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' }) {
		r.add("query", refusal.Invalid, "a query has at most %d visible characters and no #; write others as %%XX", MaxPathLength)
	}
	if p.Host != "" && !validHostHeader(p.Host) {
		r.add("host", refusal.Invalid, "%q is not a host", p.Host)
	}
	if p.Method != "" && !validMethod(p.Method) {
		r.add("method", refusal.Invalid, "%q is not a method; write it in capitals, such as GET", p.Method)
	}
	checkTokens(r, "requestHeaders", p.RequestHeaders)
	checkTokens(r, "responseHeaders", p.ResponseHeaders)
	if p.ResponseHeadersRegexp != "" {
		checkExpressionField(r, "responseHeadersRegexp", p.ResponseHeadersRegexp)
	}
	if hasControl(p.SigninURL) {
		r.add("signinURL", refusal.Invalid, "a URL has no control characters")
	}
	checkAtLeast(r, "maxBodyBytes", p.MaxBodyBytes, 0)
	checkAtLeast(r, "maxResponseBytes", p.MaxResponseBytes, 0)
	checkDuration(r, "timeout", p.Timeout)
	p.AuthRequest.check(r)
}

// check requires a list. A filter without one would admit every client.
func (p *IPFilter) check(r *report) {
	if len(p.Allow)+len(p.Deny) == 0 {
		r.add("allow", refusal.Required, "the filter lists no address; list addresses to allow or to deny")
	}
	checkPrefixes(r, "allow", p.Allow)
	checkPrefixes(r, "deny", p.Deny)
	p.Client.check(r)
	checkErrorStatus(r, p.Status)
}

// maxForwardedDepth bounds the depth of a ClientSource: no chain of proxies is longer.
const maxForwardedDepth = 64

// check allows a depth or excluded networks, not both.
func (c *ClientSource) check(r *report) {
	if c == nil {
		return
	}
	r.enter("client")
	switch {
	case c.Depth < 0 || c.Depth > maxForwardedDepth:
		r.add("depth", refusal.Invalid, "%d is not between 1 and %d", c.Depth, maxForwardedDepth)
	case (c.Depth == 0) == (len(c.Excluded) == 0):
		r.add("depth", refusal.Invalid, "an address is selected by a depth or by excluded networks; give one of the two")
	}
	checkPrefixes(r, "excluded", c.Excluded)
	r.leave()
}

// checkPrefixes validates ranges of addresses.
func checkPrefixes(r *report, field string, prefixes []netip.Prefix) {
	for i, prefix := range prefixes {
		if !prefix.IsValid() {
			r.addItem(field, i, refusal.Invalid, "not a range of addresses; write 10.0.0.0/8, or 10.0.0.1/32 for one")
		}
	}
}
