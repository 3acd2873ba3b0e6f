package gateway

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/route"
)

// sessionCookie returns the cookie that keeps the clients of a rule at their backend and
// endpoint; nil without session persistence. Without a name the edge derives one from the
// rule and its match, so that rules and paths do not share sessions, as Gateway API asks for.
func (r *httpRoute) sessionCookie(field string, written *gatewayv1.SessionPersistence, path route.PathMatch, tls bool) *route.StickyCookie {
	if written == nil {
		return nil
	}
	if or(written.Type, gatewayv1.CookieBasedSessionPersistence) != gatewayv1.CookieBasedSessionPersistence {
		r.refuse(field+".type", fmt.Sprintf("%s is not supported: use Cookie", *written.Type))
	}
	cookie := &route.StickyCookie{
		Name: or(written.SessionName, ""), Path: cookiePath(path), Secure: tls, HTTPOnly: true,
		// Strict would end a session when the client follows a link from another site.
		SameSite: route.SameSiteLax,
	}
	lifetime := gatewayv1.SessionCookieLifetimeType
	if written.CookieConfig != nil {
		lifetime = or(written.CookieConfig.LifetimeType, lifetime)
	}
	switch timeout := time.Duration(r.duration(field+".absoluteTimeout", written.AbsoluteTimeout)); {
	case lifetime == gatewayv1.PermanentCookieLifetimeType && timeout < time.Second:
		r.refuse(field+".absoluteTimeout", "a cookie with the lifetime Permanent lives for a second or longer: set 1s or more")
	case lifetime == gatewayv1.PermanentCookieLifetimeType:
		cookie.MaxAge = route.Duration(timeout)
	case written.AbsoluteTimeout != nil:
		// The value of the cookie does not have the time at which the session began.
		r.refuse(field+".absoluteTimeout", "it is supported for the lifetime Permanent only: set cookieConfig.lifetimeType, or remove it")
	}
	return cookie
}

// cookiePath returns the path of the cookie for a match: that of the match, or the segments
// in front of the first part of an expression that is not literal.
func cookiePath(match route.PathMatch) string {
	path := match.Value
	if match.Type == route.PathRegexp {
		path = "/"
		if expression, err := regexp.Compile(match.Value); err == nil {
			literal, all := expression.LiteralPrefix()
			if path = literal; !all {
				path = literal[:strings.LastIndexByte(literal, '/')+1]
			}
		}
	}
	return "/" + strings.Trim(path, "/")
}
