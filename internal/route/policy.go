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
	Chain              *Chain              `json:"chain,omitempty"`
}

// Action is what a policy does: the one value that is set in it.
type Action interface {
	check(*report)
}

// Action returns the value that is set, for a type switch. It is nil when none or
// several are, which Validate reports.
func (p *Policy) Action() Action {
	action, count := p.actions()
	if count != 1 {
		return nil
	}
	return action
}

// actions returns one of the values that are set, and how many are.
func (p *Policy) actions() (Action, int) {
	var found Action
	count := 0
	set := func(present bool, action Action) {
		if present {
			found = action
			count++
		}
	}
	set(p.RedirectScheme != nil, p.RedirectScheme)
	set(p.RedirectRegexp != nil, p.RedirectRegexp)
	set(p.AddPrefix != nil, p.AddPrefix)
	set(p.StripPrefix != nil, p.StripPrefix)
	set(p.StripPrefixRegexp != nil, p.StripPrefixRegexp)
	set(p.ReplacePath != nil, p.ReplacePath)
	set(p.ReplacePathRegexp != nil, p.ReplacePathRegexp)
	set(p.RequestHeaders != nil, p.RequestHeaders)
	set(p.ResponseHeaders != nil, p.ResponseHeaders)
	set(p.CORS != nil, p.CORS)
	set(p.BasicAuth != nil, p.BasicAuth)
	set(p.ForwardAuth != nil, p.ForwardAuth)
	set(p.IPFilter != nil, p.IPFilter)
	set(p.RateLimit != nil, p.RateLimit)
	set(p.InFlight != nil, p.InFlight)
	set(p.BodyLimit != nil, p.BodyLimit)
	set(p.Buffering != nil, p.Buffering)
	set(p.Compression != nil, p.Compression)
	set(p.Retry != nil, p.Retry)
	set(p.CircuitBreaker != nil, p.CircuitBreaker)
	set(p.ErrorPages != nil, p.ErrorPages)
	set(p.Mirror != nil, p.Mirror)
	set(p.ForwardCertificate != nil, p.ForwardCertificate)
	set(p.Chain != nil, p.Chain)
	return found, count
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
		if !yield(r.Backends[i].Backend) {
			return
		}
	}
	policyBackends(r.Policies, MaxChainDepth, yield)
}

// BackendIDs calls yield for each backend that the route names, as
// [Rule.BackendIDs] does.
func (r *TCPRoute) BackendIDs(yield func(BackendID) bool) {
	for i := range r.Backends {
		if !yield(r.Backends[i].Backend) {
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
