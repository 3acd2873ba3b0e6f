package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// maxMessage bounds the message of a fault in a chain, which grows at every object.
const maxMessage = 600

// filter builds the policy of one filter. The field of a fault starts with the name
// of the filter.
func (b builder) filter(f *v1alpha1.Filter, name string) (route.Policy, []refusal.Refusal) {
	switch {
	// Decode refuses this already; Filters does not rely on its callers.
	case name == "":
		return route.Policy{}, []refusal.Refusal{{Reason: refusal.Invalid, Message: "a filter has exactly one field: make one of each, in the order in which they apply"}}
	case f.Chain != nil:
		chain, faults := b.chain(f.Chain)
		return route.Policy{Chain: chain}, at(faults, "chain")
	case f.BasicAuth != nil, f.ForwardAuth != nil, f.ErrorPages != nil, f.Mirror != nil:
		made, fault := b.naming(f)
		if fault != nil {
			return made, []refusal.Refusal{*fault.At(name)}
		}
		return made, nil
	case f.RequestHeaders != nil, f.ResponseHeaders != nil:
		made, fault := headers(f)
		if fault != nil {
			return made, []refusal.Refusal{*fault.At(name)}
		}
		return made, nil
	}
	// The remaining filters are pure values and cannot fail here; check
	// validates them.
	if made, found := pathPolicy(f); found {
		return made, nil
	}
	return trafficPolicy(f), nil
}

// naming builds the policies that refer to other objects. They are apart because
// only they can fail for a missing object.
func (b builder) naming(f *v1alpha1.Filter) (made route.Policy, fault *refusal.Refusal) {
	switch {
	case f.BasicAuth != nil:
		made.BasicAuth, fault = b.basicAuth(f.BasicAuth)
	case f.ForwardAuth != nil:
		made.ForwardAuth, fault = b.forwardAuth(f.ForwardAuth)
	case f.ErrorPages != nil:
		// The policy is complete even with a fault, which the caller returns.
		pages := &route.ErrorPages{Path: f.ErrorPages.Path}
		for _, status := range f.ErrorPages.Statuses {
			pages.Statuses = append(pages.Statuses, route.StatusRange{From: status.From, To: status.To})
		}
		pages.Backend, fault = b.service(f.ErrorPages.Service)
		made.ErrorPages = pages
	case f.Mirror != nil:
		mirror := &route.Mirror{Percent: int(f.Mirror.Percent), MaxBodyBytes: int64(f.Mirror.MaxBodyBytes)}
		mirror.Backend, fault = b.service(f.Mirror.Service)
		made.Mirror = mirror
	}
	return made, fault
}

// service resolves a port of a Service. The reference package decides whether
// it may be in another namespace. A port by name is resolved to its number, so
// that the backend is the same for every spelling.
func (b builder) service(wanted v1alpha1.ServiceRef) (route.BackendID, *refusal.Refusal) {
	port := networkingv1.ServiceBackendPort{Name: wanted.Port.Name, Number: wanted.Port.Number}
	id, fault := b.source.Backend(wanted.Name, port)
	if fault != nil {
		fault = fault.At("service")
	}
	return id, fault
}

// forwardAuth builds the policy even with a fault, which the caller returns; the
// zero backend is never used.
func (b builder) forwardAuth(f *v1alpha1.ForwardAuth) (*route.ForwardAuth, *refusal.Refusal) {
	backend, fault := b.service(f.Service)
	return &route.ForwardAuth{
		Backend: backend, Path: f.Path, Query: f.Query, Host: f.Host, Method: f.Method,
		RequestHeaders: f.RequestHeaders, ResponseHeaders: f.ResponseHeaders, SigninURL: f.SigninURL,
		MaxBodyBytes: int64(f.MaxBodyBytes), MaxResponseBytes: int64(f.MaxResponseBytes), Timeout: route.Duration(f.Timeout),
	}, fault
}

// chain resolves the Middlewares of a chain. A fault of one of them includes its
// name, because it is reported on the object with the chain.
func (b builder) chain(f *v1alpha1.Chain) (*route.Chain, []refusal.Refusal) {
	if b.depth == route.MaxChainDepth {
		return nil, []refusal.Refusal{*refusal.New("", refusal.TooLarge,
			"chains are nested more than %d deep: name the middlewares in one chain", route.MaxChainDepth)}
	}
	b.depth++
	chain := &route.Chain{}
	var faults []refusal.Refusal
	for i, name := range f.Middlewares {
		place := fmt.Sprintf("middlewares[%d]", i)
		object, fault := b.source.Resource(snapshot.Middleware, name)
		if fault != nil {
			faults = append(faults, *fault.At(place))
			continue
		}
		// Depth alone would end a cycle too, but with a message about nesting
		// that does not name the cause.
		if slices.Contains(b.trail, refOf(object)) {
			faults = append(faults, *refusal.New(place, refusal.Invalid, "%s leads back to itself: take it out of the chain", refOf(object)))
			continue
		}
		policies, found := b.middleware(object)
		for j := range found {
			faults = append(faults, refusal.Refusal{Field: place, Reason: found[j].Reason, Message: refusal.Shorten(refOf(object).String()+": "+found[j].Text(), maxMessage)})
		}
		chain.Policies = append(chain.Policies, policies...)
		// The budget is used up and the fault is recorded; more Middlewares
		// would only repeat it.
		if *b.left < 0 {
			break
		}
	}
	return chain, faults
}

// pathPolicy builds the policies that rewrite or redirect, from values alone.
// found is false for a filter of another group.
func pathPolicy(f *v1alpha1.Filter) (made route.Policy, found bool) {
	switch {
	case f.RedirectScheme != nil:
		made.RedirectScheme = &route.RedirectScheme{
			Scheme: route.Scheme(f.RedirectScheme.Scheme), Port: uint16(f.RedirectScheme.Port), Status: int(f.RedirectScheme.Status),
		}
	case f.RedirectRegexp != nil:
		made.RedirectRegexp = &route.RedirectRegexp{
			Regexp: f.RedirectRegexp.Regexp, Replacement: f.RedirectRegexp.Replacement, Status: int(f.RedirectRegexp.Status),
		}
	case f.AddPrefix != nil:
		made.AddPrefix = &route.AddPrefix{Prefix: f.AddPrefix.Prefix}
	case f.StripPrefix != nil:
		made.StripPrefix = &route.StripPrefix{Prefixes: f.StripPrefix.Prefixes, ForwardPrefix: f.StripPrefix.ForwardPrefix}
	case f.StripPrefixRegexp != nil:
		made.StripPrefixRegexp = &route.StripPrefixRegexp{
			Regexps: expressions(f.StripPrefixRegexp.Regexps), ForwardPrefix: f.StripPrefixRegexp.ForwardPrefix,
		}
	case f.ReplacePath != nil:
		made.ReplacePath = &route.ReplacePath{Path: f.ReplacePath.Path}
	case f.ReplacePathRegexp != nil:
		made.ReplacePathRegexp = &route.ReplacePathRegexp{Regexp: f.ReplacePathRegexp.Regexp, Replacement: f.ReplacePathRegexp.Replacement}
	default:
		return made, false
	}
	return made, true
}

// trafficPolicy builds the policies about limits and reliability. All of their values
// are validated by the caller with check.
func trafficPolicy(f *v1alpha1.Filter) (made route.Policy) {
	switch {
	case f.CORS != nil:
		made.CORS = &route.CORS{
			AllowOrigins: f.CORS.AllowOrigins, AllowOriginRegexps: expressions(f.CORS.AllowOriginRegexps),
			AllowMethods: f.CORS.AllowMethods, AllowHeaders: f.CORS.AllowHeaders, ExposeHeaders: f.CORS.ExposeHeaders,
			AllowCredentials: f.CORS.AllowCredentials, MaxAge: route.Duration(f.CORS.MaxAge),
		}
	case f.IPFilter != nil:
		made.IPFilter = &route.IPFilter{Allow: prefixes(f.IPFilter.Allow), Deny: prefixes(f.IPFilter.Deny), Status: int(f.IPFilter.Status)}
	case f.ForwardCertificate != nil:
		made.ForwardCertificate = &route.ForwardCertificate{
			PEMHeader: f.ForwardCertificate.PEMHeader, InfoHeader: f.ForwardCertificate.InfoHeader,
			Info: words[route.CertificateInfo](f.ForwardCertificate.Info),
		}
	case f.RateLimit != nil:
		made.RateLimit = &route.RateLimit{
			Requests: f.RateLimit.Requests, Period: route.Duration(f.RateLimit.Period), Burst: f.RateLimit.Burst, Key: hashKey(f.RateLimit.Key),
		}
	case f.InFlight != nil:
		made.InFlight = &route.InFlight{Max: f.InFlight.Max, Key: hashKey(f.InFlight.Key)}
	case f.WAF != nil:
		made.WAF = &route.WAF{Directives: directives(f.WAF)}
	case f.BodyLimit != nil:
		made.BodyLimit = &route.BodyLimit{MaxBytes: int64(f.BodyLimit.MaxBytes)}
	case f.Buffering != nil:
		made.Buffering = &route.Buffering{
			MaxRequestBytes: int64(f.Buffering.MaxRequestBytes), MaxResponseBytes: int64(f.Buffering.MaxResponseBytes),
		}
	case f.Compression != nil:
		made.Compression = &route.Compression{
			Encodings: words[route.Encoding](f.Compression.Encodings), MinBytes: int64(f.Compression.MinBytes),
			ContentTypes: f.Compression.ContentTypes, ExcludeContentTypes: f.Compression.ExcludeContentTypes,
		}
	case f.Retry != nil:
		made.Retry = &route.Retry{
			Attempts: int(f.Retry.Attempts), On: words[route.RetryCondition](f.Retry.On), UnsafeMethods: f.Retry.UnsafeMethods,
			AttemptTimeout: route.Duration(f.Retry.AttemptTimeout), Backoff: route.Duration(f.Retry.Backoff),
		}
	case f.CircuitBreaker != nil:
		made.CircuitBreaker = &route.CircuitBreaker{
			FailurePercent: int(f.CircuitBreaker.FailurePercent), Window: route.Duration(f.CircuitBreaker.Window),
			MinRequests: f.CircuitBreaker.MinRequests, Open: route.Duration(f.CircuitBreaker.Open),
		}
	}
	return made
}

// directives returns the directives of a firewall: the recommended settings, the mode, those
// that were written, and the Core Rule Set.
func directives(f *v1alpha1.WAF) string {
	parts := []string{"Include @recommended"}
	if f.Mode == "deny" {
		parts = append(parts, "SecRuleEngine On")
	}
	if f.Directives != "" {
		parts = append(parts, f.Directives)
	}
	if !f.WithoutCoreRules {
		parts = append(parts, "Include @owasp_crs")
	}
	return strings.Join(parts, "\n")
}

// headers builds a change of headers. Names that differ only in case are one header,
// and a map has no order that could decide between them, so that is a fault.
func headers(f *v1alpha1.Filter) (made route.Policy, fault *refusal.Refusal) {
	if change := f.RequestHeaders; change != nil {
		made.RequestHeaders = &route.RequestHeaders{Add: headerList(change.Add), Remove: change.Remove}
		made.RequestHeaders.Set, fault = headerMap(change.Set)
		return made, fault
	}
	change := f.ResponseHeaders
	made.ResponseHeaders = &route.ResponseHeaders{Add: headerList(change.Add), Remove: change.Remove}
	made.ResponseHeaders.Set, fault = headerMap(change.Set)
	return made, fault
}

// headerMap converts a map sorted by name, so that equal declarations give equal
// policies.
func headerMap(set map[string]string) ([]route.HeaderValue, *refusal.Refusal) {
	var list []route.HeaderValue
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if lower := strings.ToLower(name); seen[lower] {
			return nil, refusal.New("set", refusal.Invalid, "%.80q is there twice: keep one", name)
		} else {
			seen[lower] = true
		}
		list = append(list, route.HeaderValue{Name: name, Value: set[name]})
	}
	return list, nil
}

// headerList converts a list in its order, which is that of the header lines.
func headerList(add []v1alpha1.HeaderValue) []route.HeaderValue {
	var list []route.HeaderValue
	for _, header := range add {
		list = append(list, route.HeaderValue{Name: header.Name, Value: header.Value})
	}
	return list
}

// hashKey converts the key that requests are counted by; the zero key is the default
// of the policy.
func hashKey(key *v1alpha1.RequestKey) route.HashKey {
	if key == nil {
		return route.HashKey{}
	}
	return route.HashKey{By: route.KeySource(key.By), Name: key.Name}
}

// prefixes converts address ranges, which their Scalar has parsed and masked.
func prefixes(ranges []v1alpha1.AddressRange) []netip.Prefix {
	var list []netip.Prefix
	for _, addresses := range ranges {
		list = append(list, addresses.Prefix)
	}
	return list
}

// expressions converts regular expressions to strings. The table compiles them
// in check.
func expressions(list []v1alpha1.Expression) []string {
	var texts []string
	for _, expression := range list {
		texts = append(texts, string(expression))
	}
	return texts
}

// words converts the values of an enumeration to the type of the table.
func words[T ~string](list []string) []T {
	var typed []T
	for _, word := range list {
		typed = append(typed, T(word))
	}
	return typed
}
