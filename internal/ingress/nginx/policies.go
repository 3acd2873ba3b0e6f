package nginx

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/route"
)

// Step is a policy of the rules of an Ingress: one that is complete, or a filter that
// names other objects.
type Step struct {
	Policy route.Policy
	Filter *v1alpha1.Filter
	// Annotation is the one that it comes from, for a Refusal.
	Annotation string
}

// policySteps collects steps. Their identities have the names of annotations, so that
// they are none of a filter of slipway.dev.
type policySteps struct {
	id    route.PolicyID
	steps []Step
}

func (p *policySteps) add(variant string, policy route.Policy) {
	policy.ID = p.id
	policy.ID.Variant = variant
	p.steps = append(p.steps, Step{Policy: policy, Annotation: strings.TrimPrefix(variant, variantPrefix)})
}

// variantPrefix starts the variants of policies; the rest is the annotation. They are
// constants, because each Ingress has some.
const variantPrefix = "nginx-"

// Before returns the policies that come before the redirect to https, in the order of
// nginx's phases: a body that is too large is refused when the location is found, and
// return comes before the rest of the rewrite phase.
func (s *Settings) Before(id route.PolicyID) []Step {
	p := policySteps{id: id}
	if s.AppRoot != "" {
		p.add(variantPrefix+"app-root", route.Policy{RedirectRegexp: &route.RedirectRegexp{
			Regexp: `^(https?://[^/?]*)/(?:\?.*)?$`, Replacement: "${1}" + s.AppRoot, Status: 302,
		}})
	}
	if s.BodyBytes > 0 {
		p.add(variantPrefix+"proxy-body-size", route.Policy{BodyLimit: &route.BodyLimit{MaxBytes: s.BodyBytes}})
	}
	redirect, name := s.Permanent, variantPrefix+"permanent-redirect"
	if s.Temporal.URL != "" {
		redirect, name = s.Temporal, variantPrefix+"temporal-redirect"
	}
	if redirect.URL != "" {
		replacement, _ := replacementOf(redirect.URL) // checked when it was read
		p.add(name, route.Policy{RedirectRegexp: &route.RedirectRegexp{Regexp: requestURL, Replacement: replacement, Status: redirect.Status}})
	}
	if s.CORS.Enabled {
		p.add(variantPrefix+"enable-cors", route.Policy{CORS: s.CORS.policy()})
	}
	return p.steps
}

// After returns the policies that come behind the redirect to https.
func (s *Settings) After(id route.PolicyID) []Step {
	p := policySteps{id: id}
	p.addLimits(&s.Limits)
	if len(s.Allow)+len(s.Deny) > 0 {
		name := variantPrefix + "whitelist-source-range"
		if len(s.Allow) == 0 {
			name = variantPrefix + "denylist-source-range"
		}
		p.add(name, route.Policy{IPFilter: &route.IPFilter{Allow: s.Allow, Deny: s.Deny}})
	}
	// With whitelist-source-range, whose last rule denies all others, those of a snippet
	// are never reached.
	if of := s.Snippets.located(); of != nil && of.Access != nil && len(s.Allow) == 0 {
		p.add(variantPrefix+"configuration-snippet", route.Policy{IPFilter: of.Access})
	}
	if firewall := s.WAF.policy(); firewall != nil {
		p.add(variantPrefix+"enable-modsecurity", route.Policy{WAF: firewall})
	}
	if s.Auth.Type != "" {
		// nginx passes the password on to the backend.
		p.steps = append(p.steps, Step{Annotation: "auth-secret", Filter: &v1alpha1.Filter{BasicAuth: &v1alpha1.BasicAuth{
			Secret: s.Auth.Secret, Realm: s.Auth.Realm, KeepAuthorization: true,
		}}})
	}
	if s.ClientAuth.Secret != "" {
		p.add(variantPrefix+"auth-tls-secret", route.Policy{ForwardCertificate: s.ClientAuth.forwarding()})
		if !s.ClientAuth.Forward {
			p.add(variantPrefix+"auth-tls-secret", route.Policy{RequestHeaders: &route.RequestHeaders{Remove: []string{clientCertificate}}})
		}
	}
	if len(s.Retry.On)+len(s.Retry.Statuses) > 0 && s.Retry.Tries > 1 {
		on := s.Retry.On
		if len(on) == 0 {
			on = []route.RetryCondition{route.RetryConnect}
		}
		p.add(variantPrefix+"proxy-next-upstream", route.Policy{Retry: &route.Retry{
			Attempts: s.Retry.Tries, On: on, Statuses: s.Retry.Statuses, UnsafeMethods: s.Retry.Unsafe,
		}})
	}
	return p.steps
}

// clientCertificate is the header with the client's certificate.
const clientCertificate = "ssl-client-cert"

// forwarding returns the headers about the client's certificate. Backends trust them, so
// those of the client are removed also if clients have no certificates.
func (c *ClientAuth) forwarding() *route.ForwardCertificate {
	made := &route.ForwardCertificate{
		VerifyHeader: "ssl-client-verify", Unverified: c.Mode == "request", SubjectHeader: "ssl-client-subject-dn", IssuerHeader: "ssl-client-issuer-dn",
	}
	if c.Forward {
		made.PEMHeader = clientCertificate
	}
	return made
}

// addLimits adds the limits of a client. nginx admits the burst and one request more.
func (p *policySteps) addLimits(limits *Limits) {
	if limits.Connections > 0 {
		p.add(variantPrefix+"limit-connections", route.Policy{InFlight: &route.InFlight{
			Max: limits.Connections, Key: route.HashKey{By: route.KeyClient}, Status: limits.ConnectionStatus, PerReplica: true,
		}})
	}
	rate := func(name string, requests int64, period time.Duration) {
		if requests > 0 {
			p.add(name, route.Policy{RateLimit: &route.RateLimit{
				Requests: requests, Period: route.Duration(period), Burst: requests*limits.Burst + 1,
				Key: route.HashKey{By: route.KeyClient}, Status: limits.RequestStatus, PerReplica: true,
			}})
		}
	}
	rate(variantPrefix+"limit-rps", limits.PerSecond, time.Second)
	rate(variantPrefix+"limit-rpm", limits.PerMinute, time.Minute)
}

// policy returns the policy of cross-origin requests. Browsers refuse credentials for
// all origins, and so does the edge.
func (c *CORS) policy() *route.CORS {
	made := &route.CORS{
		AllowMethods: c.Methods, AllowHeaders: c.Headers, ExposeHeaders: c.Show, AllowCredentials: c.Credentials, MaxAge: c.MaxAge,
	}
	for _, origin := range c.Origins {
		switch {
		case origin == "*":
			made.AllowOrigins, made.AllowCredentials = []string{"*"}, false
			return made
		case strings.Contains(origin, "*."):
			made.AllowOriginRegexps = append(made.AllowOriginRegexps, "(?i)"+strings.Replace(regexp.QuoteMeta(origin), `\*\.`, `[A-Za-z0-9-]+\.`, 1))
		default:
			made.AllowOrigins = append(made.AllowOrigins, origin)
		}
	}
	return made
}

// acmePath is where ingress-nginx redirects nothing, so that challenges are served.
const acmePath = "/.well-known/acme-challenge"

// ToTLS returns the redirect to https of a path, and the header of encrypted responses;
// nil for none.
func (s *Settings) ToTLS(id route.PolicyID, path string) (redirect, header *route.Policy) {
	if !s.TLS.Redirect && !s.TLS.Force || strings.HasPrefix(path, acmePath) {
		return nil, nil
	}
	id.Variant = "nginx-ssl-redirect"
	redirect = &route.Policy{ID: id, RedirectScheme: &route.RedirectScheme{
		Scheme: route.SchemeHTTPS, Status: s.TLS.Status, TrimSlash: !s.TLS.KeepSlash,
	}}
	if !s.TLS.HSTS {
		return redirect, nil
	}
	value := "max-age=" + strconv.FormatInt(s.TLS.HSTSSeconds, 10)
	if s.TLS.Subdomains {
		value += "; includeSubDomains"
	}
	if s.TLS.Preload {
		value += "; preload"
	}
	id.Variant = "nginx-hsts"
	return redirect, &route.Policy{ID: id, ResponseHeaders: &route.ResponseHeaders{Set: []route.HeaderValue{{Name: "Strict-Transport-Security", Value: value}}}}
}

// Expressions reports whether a path makes all paths of its host expressions.
func (s *Settings) Expressions(path string) bool { return s.UseRegex || s.NeedsRewrite(path) }

// NeedsRewrite reports whether the requests of a path get another one.
func (s *Settings) NeedsRewrite(path string) bool {
	return s.RewriteTarget != "" && s.RewriteTarget != path
}

// Rewriting returns the policies that rewrite the requests of a path. nginx applies the
// expression without regard to case, and replaces the whole path by the target.
func (s *Settings) Rewriting(id route.PolicyID, path string) []route.Policy {
	if !s.NeedsRewrite(path) {
		return nil
	}
	var policies []route.Policy
	id.Variant = "nginx-rewrite-target"
	if s.Located(path, 0) == nil { // otherwise it is one of the directives
		policies = append(policies, route.Policy{ID: id, ReplacePathRegexp: &route.ReplacePathRegexp{
			Regexp: `^(?s:.*?)(?i:` + path + `)(?s:.*)$`, Replacement: targetReplacement(s.RewriteTarget, groupsOf(path)),
		}})
	}
	if s.ForwardedPrefix != "" {
		id.Variant = "nginx-x-forwarded-prefix"
		policies = append(policies, route.Policy{ID: id, RequestHeaders: &route.RequestHeaders{
			Set: []route.HeaderValue{{Name: "X-Forwarded-Prefix", Value: s.ForwardedPrefix}},
		}})
	}
	return policies
}

// groupsOf returns the number of groups of an expression, 0 for one that is invalid.
func groupsOf(path string) int {
	compiled, err := regexp.Compile(path)
	if err != nil {
		return 0
	}
	return compiled.NumSubexp()
}

// targetReplacement returns the target as a replacement. A group has one digit in nginx,
// and one that the path does not have is empty.
func targetReplacement(target string, groups int) string {
	var out strings.Builder
	for i := 0; i < len(target); i++ {
		if target[i] != '$' || i+1 == len(target) {
			out.WriteByte(target[i])
			continue
		}
		i++
		if number := int(target[i] - '0'); number <= groups {
			fmt.Fprintf(&out, "${%d}", number)
		}
	}
	return out.String()
}
