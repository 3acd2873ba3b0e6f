package route

// Policy is one step that a request passes before it is forwarded, and that the
// response passes on its way back. Exactly one of the pointers is set; Action
// returns it.
type Policy struct {
	// ID names the declaration. The policies that count (rateLimit, inFlight,
	// circuitBreaker) need it: their counts are keyed by it.
	ID PolicyID `json:"id,omitzero"`

	RedirectScheme     *RedirectScheme     `json:"redirectScheme,omitempty"`
	RedirectRegexp     *RedirectRegexp     `json:"redirectRegexp,omitempty"`
	AddPrefix          *AddPrefix          `json:"addPrefix,omitempty"`
	StripPrefix        *StripPrefix        `json:"stripPrefix,omitempty"`
	StripPrefixRegexp  *StripPrefixRegexp  `json:"stripPrefixRegexp,omitempty"`
	ReplacePath        *ReplacePath        `json:"replacePath,omitempty"`
	ReplacePathRegexp  *ReplacePathRegexp  `json:"replacePathRegexp,omitempty"`
	RequestHeaders     *RequestHeaders     `json:"requestHeaders,omitempty"`
	ResponseHeaders    *ResponseHeaders    `json:"responseHeaders,omitempty"`
	CORS               *CORS               `json:"cors,omitempty"`
	BasicAuth          *BasicAuth          `json:"basicAuth,omitempty"`
	ForwardAuth        *ForwardAuth        `json:"forwardAuth,omitempty"`
	IPFilter           *IPFilter           `json:"ipFilter,omitempty"`
	RateLimit          *RateLimit          `json:"rateLimit,omitempty"`
	InFlight           *InFlight           `json:"inFlight,omitempty"`
	BodyLimit          *BodyLimit          `json:"bodyLimit,omitempty"`
	Buffering          *Buffering          `json:"buffering,omitempty"`
	Compression        *Compression        `json:"compression,omitempty"`
	Retry              *Retry              `json:"retry,omitempty"`
	CircuitBreaker     *CircuitBreaker     `json:"circuitBreaker,omitempty"`
	ErrorPages         *ErrorPages         `json:"errorPages,omitempty"`
	Mirror             *Mirror             `json:"mirror,omitempty"`
	ForwardCertificate *ForwardCertificate `json:"forwardCertificate,omitempty"`
	WAF                *WAF                `json:"waf,omitempty"`
	Chain              *Chain              `json:"chain,omitempty"`
}

// Action is what a policy does: the one value that is set in it.
type Action interface {
	check(*report)
}

// Action returns the value that is set, for a type switch. It is nil when none or
// several are, which Validate reports.
func (p *Policy) Action() Action {
	_, action := p.Named()
	return action
}

// Named returns Action with the name of its field, such as rateLimit.
func (p *Policy) Named() (name string, action Action) {
	name, action, count := p.actions()
	if count != 1 {
		return "", nil
	}
	return name, action
}

// actions returns one of the values that are set, with the name of its field, and
// how many are set.
func (p *Policy) actions() (name string, found Action, count int) {
	set := func(field string, present bool, action Action) {
		if present {
			name, found = field, action
			count++
		}
	}
	set("redirectScheme", p.RedirectScheme != nil, p.RedirectScheme)
	set("redirectRegexp", p.RedirectRegexp != nil, p.RedirectRegexp)
	set("addPrefix", p.AddPrefix != nil, p.AddPrefix)
	set("stripPrefix", p.StripPrefix != nil, p.StripPrefix)
	set("stripPrefixRegexp", p.StripPrefixRegexp != nil, p.StripPrefixRegexp)
	set("replacePath", p.ReplacePath != nil, p.ReplacePath)
	set("replacePathRegexp", p.ReplacePathRegexp != nil, p.ReplacePathRegexp)
	set("requestHeaders", p.RequestHeaders != nil, p.RequestHeaders)
	set("responseHeaders", p.ResponseHeaders != nil, p.ResponseHeaders)
	set("cors", p.CORS != nil, p.CORS)
	set("basicAuth", p.BasicAuth != nil, p.BasicAuth)
	set("forwardAuth", p.ForwardAuth != nil, p.ForwardAuth)
	set("ipFilter", p.IPFilter != nil, p.IPFilter)
	set("rateLimit", p.RateLimit != nil, p.RateLimit)
	set("inFlight", p.InFlight != nil, p.InFlight)
	set("bodyLimit", p.BodyLimit != nil, p.BodyLimit)
	set("buffering", p.Buffering != nil, p.Buffering)
	set("compression", p.Compression != nil, p.Compression)
	set("retry", p.Retry != nil, p.Retry)
	set("circuitBreaker", p.CircuitBreaker != nil, p.CircuitBreaker)
	set("errorPages", p.ErrorPages != nil, p.ErrorPages)
	set("mirror", p.Mirror != nil, p.Mirror)
	set("forwardCertificate", p.ForwardCertificate != nil, p.ForwardCertificate)
	set("waf", p.WAF != nil, p.WAF)
	set("chain", p.Chain != nil, p.Chain)
	return name, found, count
}

// Chain is a list of policies in the place of one.
type Chain struct {
	Policies []Policy `json:"policies,omitempty"`
}

// BackendIDs calls yield for each backend that the rule names: those that serve its
// requests, and those of its policies. It stops when yield returns false. A
// backend can come more than once.
func (r *Rule) BackendIDs(yield func(BackendID) bool) {
	for i := range r.Backends {
		if r.Backends[i].Status == 0 && !yield(r.Backends[i].Backend) {
			return
		}
	}
	policyBackends(r.Policies, MaxChainDepth, yield)
}

// BackendIDs calls yield for each backend that the route names, as
// [Rule.BackendIDs] does.
func (r *TCPRoute) BackendIDs(yield func(BackendID) bool) {
	for i := range r.Backends {
		if r.Backends[i].Status == 0 && !yield(r.Backends[i].Backend) {
			return
		}
	}
}

// policyBackends reports whether to go on. It recurses no deeper than a valid table
// does.
func policyBackends(policies []Policy, depth int, yield func(BackendID) bool) bool {
	for i := range policies {
		p := &policies[i]
		if p.ErrorPages != nil && !yield(p.ErrorPages.Backend) {
			return false
		}
		if p.Mirror != nil && !yield(p.Mirror.Backend) {
			return false
		}
		if p.ForwardAuth != nil && p.ForwardAuth.Backend != (BackendID{}) && !yield(p.ForwardAuth.Backend) {
			return false
		}
		if p.Chain != nil && depth > 0 && !policyBackends(p.Chain.Policies, depth-1, yield) {
			return false
		}
	}
	return true
}
