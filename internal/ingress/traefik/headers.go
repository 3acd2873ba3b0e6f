package traefik

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// headers returns up to four policies: a redirect, CORS, request headers and response
// headers.
// In this order CORS wins over a custom header of the same name, as in Traefik.
func headers(r *record) []route.Policy {
	var policies []route.Policy
	if redirect := secureRedirect(r); redirect != nil {
		policies = append(policies, route.Policy{RedirectScheme: redirect})
	}
	if cors := crossOrigin(r); cors != nil {
		policies = append(policies, route.Policy{CORS: cors})
	}
	request := &changes{}
	request.custom(r, "customRequestHeaders")
	if len(request.set)+len(request.remove) > 0 {
		policies = append(policies, route.Policy{RequestHeaders: &route.RequestHeaders{Set: request.set, Remove: request.remove}})
	}
	response := &changes{}
	// Custom headers come second and override the security options, as in
	// Traefik.
	response.secure(r)
	response.custom(r, "customResponseHeaders")
	if len(response.set)+len(response.remove) > 0 {
		policies = append(policies, route.Policy{ResponseHeaders: &route.ResponseHeaders{Set: response.set, Remove: response.remove}})
	}
	refuseHosts(r)
	r.rest()
	return policies
}

// refuseHosts refuses the options that depend on the host or scheme of a
// request. The edge has routed by host already, and redirects have Middlewares
// of their own.
func refuseHosts(r *record) {
	r.refuse("allowedHosts", "an Ingress takes requests for its hosts only; remove it")
	r.refuse("hostsProxyHeaders", "the host of a request is its Host header; remove it")
	r.refuse("sslHost", "use redirectRegex")
	r.refuse("sslForceHost", "use redirectRegex")
	// It detects TLS for the STS header, which is always sent here.
	r.ignore("sslProxyHeaders")
}

// secureRedirect reads the redirect to https of version 2, nil for none. There is none in
// development mode.
func secureRedirect(r *record) *route.RedirectScheme {
	wanted, temporary, development := r.flag("sslRedirect"), r.flag("sslTemporaryRedirect"), r.flag("isDevelopment")
	switch {
	case !wanted || development:
		return nil
	case temporary:
		return &route.RedirectScheme{Scheme: route.SchemeHTTPS, Status: 302}
	default:
		return &route.RedirectScheme{Scheme: route.SchemeHTTPS, Status: 301}
	}
}

// changes collects the changes of one header section. A header is either in set
// or in remove, never twice in set.
type changes struct {
	set    []route.HeaderValue
	remove []string
}

// put sets a header and overrides an earlier change of it.
func (c *changes) put(name, value string) {
	c.set = slices.DeleteFunc(c.set, func(h route.HeaderValue) bool { return strings.EqualFold(h.Name, name) })
	c.set = append(c.set, route.HeaderValue{Name: name, Value: value})
}

// drop removes a header and overrides an earlier change of it.
func (c *changes) drop(name string) {
	c.set = slices.DeleteFunc(c.set, func(h route.HeaderValue) bool { return strings.EqualFold(h.Name, name) })
	c.remove = append(c.remove, name)
}

// custom reads headers by name. An empty value removes the header.
func (c *changes) custom(r *record, field string) {
	seen := map[string]bool{}
	// Pairs are sorted, so of two spellings of a name the fault is always on
	// the same one.
	for _, header := range r.pairs(field) {
		at := field + "." + header.name
		switch lower := strings.ToLower(header.name); {
		case lower == "host":
			r.fault(at, refusal.Unsupported, "the Host header is the backend's to choose: set service.passhostheader of the Service to false, or use an ExternalName")
		case lower == "expect" || lower == "http2-settings":
			r.fault(at, refusal.Unsupported, "the header belongs to the connection and cannot be changed")
		case seen[lower]:
			r.fault(at, refusal.Invalid, "the header is there twice, in two spellings: remove one")
		case header.value == "":
			c.drop(header.name)
		default:
			c.put(header.name, header.value)
		}
		seen[strings.ToLower(header.name)] = true
	}
}

// secure reads the options that set one response header each.
func (c *changes) secure(r *record) {
	c.strictTransport(r)
	// Both fields are taken before the switch: rest would refuse one that a
	// case skips.
	frame, deny := r.text("customFrameOptionsValue"), r.flag("frameDeny")
	switch {
	case frame != "":
		c.put("X-Frame-Options", frame)
	case deny:
		c.put("X-Frame-Options", "DENY")
	}
	if r.flag("contentTypeNosniff") {
		c.put("X-Content-Type-Options", "nosniff")
	}
	filter, block := r.text("customBrowserXSSValue"), r.flag("browserXssFilter")
	switch {
	case filter != "":
		c.put("X-XSS-Protection", filter)
	case block:
		c.put("X-XSS-Protection", "1; mode=block")
	}
	for _, option := range []struct{ field, header string }{
		{"contentSecurityPolicy", "Content-Security-Policy"},
		{"contentSecurityPolicyReportOnly", "Content-Security-Policy-Report-Only"},
		{"referrerPolicy", "Referrer-Policy"},
		{"permissionsPolicy", "Permissions-Policy"},
		{"featurePolicy", "Feature-Policy"},
	} {
		value := r.text(option.field)
		if strings.Contains(value, "$NONCE") {
			r.fault(option.field, refusal.Unsupported, "$NONCE has no value, because the backend could not know it: let the backend send the header")
		}
		if value != "" {
			c.put(option.header, value)
		}
	}
}

// strictTransport reads the HSTS options. The header is sent on all connections:
// browsers ignore it without TLS (RFC 6797, section 8.1), and behind a balancer that
// terminates TLS the edge cannot detect it. So forceSTSHeader is always on.
func (c *changes) strictTransport(r *record) {
	seconds := r.count("stsSeconds")
	value := fmt.Sprintf("max-age=%d", seconds)
	if r.flag("stsIncludeSubdomains") {
		value += "; includeSubDomains"
	}
	if r.flag("stsPreload") {
		value += "; preload"
	}
	// All fields are taken before the return below, so that rest does not
	// refuse them.
	pins := r.text("publicKey")
	r.ignore("forceSTSHeader")
	if r.flag("isDevelopment") {
		return // development mode sends no header
	}
	if seconds > 0 {
		c.put("Strict-Transport-Security", value)
	}
	if pins != "" {
		c.put("Public-Key-Pins", pins)
	}
}

// crossOrigin reads the CORS options, nil if there are none.
func crossOrigin(r *record) *route.CORS {
	cors := &route.CORS{
		AllowOrigins:     r.texts("accessControlAllowOriginList"),
		AllowMethods:     r.texts("accessControlAllowMethods"),
		AllowHeaders:     r.texts("accessControlAllowHeaders"),
		ExposeHeaders:    r.texts("accessControlExposeHeaders"),
		AllowCredentials: r.flag("accessControlAllowCredentials"),
	}
	// Vary: Origin is always sent, so addVaryHeader has no effect.
	vary := r.flag("addVaryHeader")
	age := r.count("accessControlMaxAge")
	if age > int64(100*365*24*time.Hour/time.Second) {
		r.fault("accessControlMaxAge", refusal.Invalid, "%d seconds are more than a hundred years: give fewer", age)
		age = 0
	}
	cors.MaxAge = route.Duration(time.Duration(age) * time.Second)
	for i, expression := range r.texts("accessControlAllowOriginListRegex") {
		if _, ok := r.expression(fmt.Sprintf("accessControlAllowOriginListRegex[%d]", i), expression); ok {
			// Traefik searches the origin; the expression of the table has to match
			// all of it.
			cors.AllowOriginRegexps = append(cors.AllowOriginRegexps, ".*(?:"+expression+").*")
		}
	}
	requested := vary || age > 0 || cors.AllowCredentials || len(cors.AllowMethods)+len(cors.AllowHeaders)+len(cors.ExposeHeaders) > 0
	if len(cors.AllowOrigins)+len(cors.AllowOriginRegexps) == 0 {
		if requested {
			r.fault("accessControlAllowOriginList", refusal.Invalid, "no origin is allowed, so the other accessControl options have no effect: list the origins, or * for all")
		}
		return nil
	}
	if slices.Contains(cors.AllowOrigins, "*") {
		// Browsers reject credentials if all origins are allowed, so leaving them
		// out makes no difference.
		cors.AllowCredentials = false
	}
	return cors
}
