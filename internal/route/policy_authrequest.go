package route

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// maxAuthHeaders bounds the headers that an AuthRequest sets.
const maxAuthHeaders = 64

// AuthRequest makes a [ForwardAuth] what auth_request of nginx is: 2xx lets the request
// in, 401 and 403 refuse it without the page of the server, and everything else is 500.
// Its texts can have variables, see [ParseVariables].
type AuthRequest struct {
	// Target is path and query of the sub-request, in the place of those of the
	// ForwardAuth; empty for these.
	Target string `json:"target,omitempty"`
	// Host is the Host header, in the place of that of the ForwardAuth; empty for it.
	Host string `json:"host,omitempty"`
	// Headers are set in the sub-request, in the place of the client's. One with an
	// empty value is left out.
	Headers []HeaderValue `json:"headers,omitempty"`
	// Signin is the Location of the redirect after a 401; empty for none.
	Signin string `json:"signin,omitempty"`
	// AlwaysSetCookie passes the cookies of the server on with every response, and not
	// only with those that succeed or redirect.
	AlwaysSetCookie bool `json:"alwaysSetCookie,omitempty"`
	// CacheKey is the key under which decisions are cached; empty for no cache.
	CacheKey string `json:"cacheKey,omitempty"`
	// Cache has how long decisions are cached. The first entry with a status counts.
	Cache []AuthCacheTime `json:"cache,omitempty"`
}

// AuthCacheTime is how long the decisions with some statuses are cached.
type AuthCacheTime struct {
	// Statuses are the statuses; none means all.
	Statuses []int    `json:"statuses,omitempty"`
	For      Duration `json:"for"`
}

// check validates the texts, so that compiling them cannot fail.
func (p *AuthRequest) check(r *report) {
	if p == nil {
		return
	}
	r.enter("authRequest")
	defer r.leave()
	checkVariableText(r, "target", p.Target)
	if p.Target != "" && !strings.HasPrefix(p.Target, "/") {
		r.add("target", refusal.Invalid, "%s does not start with a slash", shorten(p.Target))
	}
	checkVariableText(r, "host", p.Host)
	checkVariableText(r, "signin", p.Signin)
	checkVariableText(r, "cacheKey", p.CacheKey)
	if len(p.Headers) > maxAuthHeaders {
		r.add("headers", refusal.TooLarge, "there are more than %d headers", maxAuthHeaders)
	}
	for i := range p.Headers {
		r.enterItem("headers", i)
		checkHeaderValue(r, p.Headers[i])
		if strings.EqualFold(p.Headers[i].Name, "Host") {
			r.add("name", refusal.Invalid, "the Host header is set by host")
		}
		checkVariableText(r, "value", p.Headers[i].Value)
		r.leave()
	}
	for i := range p.Cache {
		checkDuration(r, "cache", p.Cache[i].For)
	}
}

// checkVariableText validates a text with variables.
func checkVariableText(r *report, field, text string) {
	_, err := ParseVariables(text)
	switch {
	case len(text) > MaxPathLength || hasControl(text):
		r.add(field, refusal.Invalid, "it has control characters, or more than %d bytes", MaxPathLength)
	case err != nil:
		r.add(field, refusal.Invalid, "%v", err)
	}
}
