package annotation

import (
	"strings"

	"slipway.dev/slipway/internal/route"
)

// traefikCookie collects Traefik's annotations of a sticky cookie, where each
// attribute is an annotation of its own.
type traefikCookie struct {
	// enabled is nil if service.sticky.cookie is not set; the attributes alone
	// enable the cookie as well.
	enabled *bool
	route.StickyCookie
}

// traefikCookieKeys are about the sticky cookie. Any of them turns it on.
func traefikCookieKeys() []*key {
	const cookie = traefikPrefix + "service.sticky.cookie"
	attribute := func(name, meaning, form, example string) *key {
		return &key{name: cookie + "." + name, closes: true, meaning: meaning, form: form, otherwise: "not set", example: example}
	}
	text := func(k *key, slot func(*traefikCookie) *string) *key {
		k.read = setting(func(r *reading) *string { return slot(&r.cookie) }, parseText)
		return k
	}
	flag := func(k *key, slot func(*traefikCookie) *bool) *key {
		k.read = setting(func(r *reading) *bool { return slot(&r.cookie) }, parsePlainBool)
		return k
	}
	sameSite := attribute("samesite", "Which requests from other sites carry the cookie.", "`none`, `lax` or `strict`", "lax")
	sameSite.read = setting(func(r *reading) *route.SameSite { return &r.cookie.SameSite }, func(text string) (route.SameSite, error) {
		return oneOf(route.SameSiteNone, route.SameSiteLax, route.SameSiteStrict)(strings.ToLower(text))
	})
	maxAge := attribute("maxage", "How long the client keeps the cookie.", "number of seconds", "3600")
	maxAge.read = setting(func(r *reading) *route.Duration { return &r.cookie.MaxAge }, parseSeconds)
	expires := attribute("expires", "How long the client keeps the cookie, in older browsers. Not supported.", "number of seconds", "3600")
	expires.read = unsupported("use service.sticky.cookie.maxage, which browsers prefer")
	return []*key{
		{
			name: cookie, closes: true, meaning: "Sends all requests of a client to the endpoint of its first request (sticky sessions). The attributes below enable it too.",
			form: "`true` or `false`", otherwise: "false", example: "true",
			read: setting(func(r *reading) **bool { return &r.cookie.enabled }, parseBool),
		},
		text(attribute("name", "Name of the cookie. By default, the edge generates one.", "name", "endpoint"), func(c *traefikCookie) *string { return &c.Name }),
		flag(attribute("secure", "Restricts the cookie to requests over TLS.", "`true` or `false`", "true"), func(c *traefikCookie) *bool { return &c.Secure }),
		flag(attribute("httponly", "Hides the cookie from scripts.", "`true` or `false`", "true"), func(c *traefikCookie) *bool { return &c.HTTPOnly }),
		sameSite, maxAge, expires,
		text(attribute("path", "Path of the cookie.", "path", "/"), func(c *traefikCookie) *string { return &c.Path }),
		text(attribute("domain", "Domain of the cookie.", "host", "example.com"), func(c *traefikCookie) *string { return &c.Domain }),
	}
}

// finishCookie merges the attributes into one cookie after all annotations are
// read. It uses give, so that slipway.dev/sticky-cookie beside it is a conflict
// unless both agree.
func (r *reading) finishCookie() {
	c := &r.cookie
	var at place
	// The first attribute that is set stands for the cookie in faults.
	for _, slot := range []any{&c.enabled, &c.Name, &c.Secure, &c.HTTPOnly, &c.SameSite, &c.MaxAge, &c.Path, &c.Domain} {
		if found, given := r.given[slot]; given && at.key == nil {
			at = found
		}
	}
	if at.key == nil {
		return
	}
	if c.enabled != nil && !*c.enabled {
		give(r, at, &r.service.Sticky, nil)
		return
	}
	cookie := c.StickyCookie
	if cookie.Path == "" {
		// Without a path the browser would limit the cookie to the directory of
		// the first request.
		cookie.Path = "/"
	}
	give(r, at, &r.service.Sticky, &cookie)
}
