package difference

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// ofTraefik returns the differences of objects of Traefik.
func ofTraefik() []Difference { return slices.Concat(traefikRequests, traefikLimits, traefikGeneral) }

// traefikRequests are those about requests and responses.
var traefikRequests = []Difference{
	{
		ID: "redirect-status", Source: Traefik, About: "status of `redirectScheme` and `redirectRegex`",
		Before: "302 and 301 for GET, 307 and 308 for other methods", After: "307, or 308 when it is permanent, for every method",
		Advice: "none is needed for browsers: both keep a GET", applies: redirectStatus,
	},
	{
		ID: "redirect-port", Source: Traefik, About: "`redirectScheme` with a port", Before: "compares scheme and port of the request", After: "compares the scheme only",
		applies: redirectPort,
	},
	{
		ID: "strip-prefix", Source: Traefik, About: "`stripPrefix`", Before: "removes letters: `/shop` from `/shopping`, too",
		After: "removes whole elements: `/shop` from `/shop/cart`, and not from `/shopping`", Advice: "use stripPrefixRegex for letters", applies: stripPrefix,
	},
	{
		ID: "replaced-path", Source: Traefik, About: "`replacePath`, `replacePathRegex`", Before: "send X-Replaced-Path to the backend", After: "do not",
		Advice: "set the header with customRequestHeaders if the backend reads it", applies: onPolicy(func(p *route.Policy) bool { return p.ReplacePath != nil || p.ReplacePathRegexp != nil },
			"the backend gets X-Replaced-Path", "the backend does not get X-Replaced-Path"),
	},
	{
		ID: "plain-sts", Source: Traefik, About: "`Strict-Transport-Security` and `Public-Key-Pins`", Before: "are sent on encrypted connections, unless `forceSTSHeader` is set",
		After: "are sent on plain connections, too, where browsers ignore them", applies: plainSTS,
	},
	{
		ID: "preflight", Source: Traefik, About: "preflight requests with `accessControl*`", Before: "get 200", After: "get 204", applies: preflight,
	},
	{
		ID: "cors-credentials", Source: Traefik, About: "`accessControlAllowCredentials` with the origin `*`", Before: "the header is sent, and browsers refuse it", After: "the header is not sent",
		Advice: "list the origins if scripts send cookies", applies: anyOrigin,
	},
	{
		ID: "compress-types", Source: Traefik, About: "`compress` without `includedContentTypes`", Before: "compresses all content types but those excluded", After: "compresses those that usually compress well",
		Advice: "list others in includedContentTypes", applies: compressTypes,
	},
	{
		ID: "error-requests", Source: Traefik, About: "requests of `errors` for a page", Before: "have the headers of the request",
		After: "have Accept, Accept-Language and X-Forwarded-Host, -Proto, -Uri only; `{originalStatus}` is `{status}`",
		applies: onPolicy(func(p *route.Policy) bool { return p.ErrorPages != nil },
			"the server of pages gets the headers of the request", "the server of pages gets Accept, Accept-Language and X-Forwarded-Host, -Proto, -Uri"),
	},
	{
		ID: "client-certificate", Source: Traefik, About: "`passTLSClientCert`", Before: "sends the chain of the client",
		After:   "sends the client's own certificate without those of authorities, and only one that was verified; each value of `info` is escaped separately, and the unescaped header is the same",
		applies: clientCertificate,
	},
}

// traefikLimits are those about limits and failures.
var traefikLimits = []Difference{
	{
		ID: "rate-limit-delay", Source: Traefik, About: "requests above a `rateLimit`", Before: "are delayed for up to half a second, then get 429",
		After: "get 429 at once; an IPv6 client is its network of 64 bits", applies: rateLimitDelay,
	},
	{
		ID: "shared-counters", Source: Traefik, About: "`rateLimit`, `inFlightReq` or `circuitBreaker` of several routes", Before: "counts for each route",
		After: "counts for the Middleware: all its routes share the counter, and a change of routes does not reset it", Advice: "give each route a Middleware of its own", applies: sharedCounters,
	},
	{
		ID: "ip-strategy", Source: Traefik, About: "`ipStrategy`", Before: "selects an address of X-Forwarded-For of every connection",
		After: "selects one only if the connection is that of a proxy in `forwardedHeaders.trustedIPs`; otherwise, and if it selects none, `ipAllowList` refuses the request, " +
			"and limits count the address of the entry point; several header lines are one list",
		Advice: "list the proxies in forwardedHeaders.trustedIPs of the entry point", applies: addressStrategy,
	},
	{
		ID: "buffering", Source: Traefik, About: "`buffering`", Before: "buffers both directions; a larger response results in 500", After: "streams the direction that has no limit; a larger response results in 502",
		applies: onPolicy(func(p *route.Policy) bool { return p.Buffering != nil || p.BodyLimit != nil }, "500 for a response above the limit", "502 for a response above the limit"),
	},
	{
		ID: "circuit-breaker", Source: Traefik, About: "`circuitBreaker`", Before: "counts what its expression names, and recovers slowly",
		After: "counts responses with status 500 and above, for both expressions; after its time it probes with one request, and closes when that succeeds; " +
			"a ratio is rounded up to whole percents, and `>` opens at the ratio itself",
		applies: onPolicy(func(p *route.Policy) bool { return p.CircuitBreaker != nil }, "while it recovers: a growing share of requests is served", "while it recovers: 503 until one request succeeded"),
	},
	{
		ID: "retry", Source: Traefik, About: "`retry`", Before: "has an exponential backoff, and sends bodies again",
		After:  "doubles the backoff after each attempt; by status it retries only requests that it still has: one with a body needs `buffering` before it",
		Advice: "put buffering before retry if requests with bodies are retried by status",
		applies: onPolicy(func(p *route.Policy) bool { return p.Retry != nil }, "a request with a body is sent again after 502, 503 or 504",
			"a request with a body is sent again only with buffering before retry"),
	},
	{
		ID: "forward-auth", Source: Traefik, About: "`forwardAuth`", Before: "returns the whole sub-response, and 500 when the server is unreachable",
		After:   "returns at most 64 KiB of a sub-response unless `maxResponseBodySize` overrides it, and 503 when the server is unreachable",
		applies: onPolicy(func(p *route.Policy) bool { return p.ForwardAuth != nil }, "500 while the authentication server is unreachable", "503 while the authentication server is unreachable"),
	},
}

// traefikGeneral are those of all objects.
var traefikGeneral = []Difference{
	{
		ID: "client-address", Source: Traefik, General: true, About: "addresses of clients", Before: "that of the connection, unless an `ipStrategy` overrides it",
		After: "determined once, by the entry point: `forwardedHeaders.trustedIPs` lists the proxies in front; all Middlewares use that address",
	},
}

// onPolicy returns the condition that a rule has a policy, with the responses.
func onPolicy(has func(*route.Policy) bool, before, after string) func(*Subject) *Example {
	return func(s *Subject) *Example {
		for rule, policy := range s.policies {
			if has(policy) {
				return s.get(rule, before, after)
			}
		}
		return nil
	}
}

func clientCertificate(s *Subject) *Example {
	for rule, policy := range s.policies {
		if policy.ForwardCertificate != nil {
			return &Example{
				URL:    "https://" + HostFor(rule.Host) + PathFor(rule.Match.Path),
				Before: "the backend gets the certificates of the client and its authorities", After: "the backend gets the certificate of the client, if it was verified",
			}
		}
	}
	return nil
}

func redirectStatus(s *Subject) *Example {
	for rule, policy := range s.policies {
		status := 0
		switch {
		case policy.RedirectScheme != nil && policy.ID.Variant == "redirectScheme":
			status = policy.RedirectScheme.Status
		case policy.RedirectRegexp != nil:
			status = policy.RedirectRegexp.Status
		}
		before := map[int]int{307: 302, 308: 301}[status]
		if before == 0 {
			continue
		}
		example := s.get(rule, fmt.Sprint(before), fmt.Sprint(status))
		switch {
		case policy.RedirectRegexp != nil:
			example.Before, example.After = example.Before+", if the URL matches", example.After+", if the URL matches"
		case policy.RedirectScheme.Scheme == route.SchemeHTTPS:
			example.URL = "http://" + strings.TrimPrefix(example.URL, "https://")
		default:
			example.URL = "https://" + strings.TrimPrefix(example.URL, "http://")
		}
		return example
	}
	return nil
}

func redirectPort(s *Subject) *Example {
	for rule, policy := range s.policies {
		to := policy.RedirectScheme
		if to == nil || to.Port == 0 || to.Port == 443 && to.Scheme == route.SchemeHTTPS || to.Port == 80 && to.Scheme == route.SchemeHTTP {
			continue
		}
		example := s.get(rule, fmt.Sprintf("a redirect to port %d", to.Port), "the response of the backend")
		_, rest, _ := strings.Cut(example.URL, "://")
		example.URL = string(to.Scheme) + "://" + rest
		return example
	}
	return nil
}

func stripPrefix(s *Subject) *Example {
	for rule, policy := range s.policies {
		if policy.StripPrefix == nil {
			continue
		}
		for _, written := range policy.StripPrefix.Prefixes {
			prefix := strings.TrimSuffix(written, "/")
			sent := prefix + "ping"
			if prefix == "" || !matches(rule.Match.Path, sent) {
				continue
			}
			return &Example{URL: s.url(rule, sent), Before: "the backend gets /ping", After: "the backend gets " + sent}
		}
	}
	return nil
}

// matches reports whether a literal match selects a path. An expression may.
func matches(match route.PathMatch, path string) bool {
	literal := match.Literal()
	rest, starts := strings.CutPrefix(path, literal)
	switch match.Type {
	case route.PathExact:
		return path == literal
	case route.PathPrefix:
		return starts && (rest == "" || rest[0] == '/' || literal == "/")
	case route.PathCharacterPrefix:
		return starts
	default:
		return true
	}
}

func plainSTS(s *Subject) *Example {
	if !s.Plain {
		return nil
	}
	for rule, policy := range s.policies {
		if policy.ResponseHeaders == nil || s.setting(policy, "forceSTSHeader") || rule.Match.Scheme == route.SchemeHTTPS || redirectsToTLS(rule) {
			continue
		}
		for _, header := range policy.ResponseHeaders.Set {
			if header.Name != "Strict-Transport-Security" && header.Name != "Public-Key-Pins" {
				continue
			}
			example := s.get(rule, "no "+header.Name, header.Name+": "+header.Value)
			example.URL = "http://" + HostFor(rule.Host) + PathFor(rule.Match.Path)
			return example
		}
	}
	return nil
}

func preflight(s *Subject) *Example {
	for rule, policy := range s.policies {
		if policy.CORS == nil {
			continue
		}
		example := s.get(rule, "200", "204")
		example.Method = "OPTIONS"
		example.Headers = []string{"Origin: " + originOf(policy.CORS), "Access-Control-Request-Method: GET"}
		return example
	}
	return nil
}

// originOf returns an origin that is allowed.
func originOf(cors *route.CORS) string {
	if len(cors.AllowOrigins) > 0 && cors.AllowOrigins[0] != "*" {
		return cors.AllowOrigins[0]
	}
	return "https://other.example"
}

// anyOrigin looks at the Middleware: the rule leaves out credentials with all origins.
func anyOrigin(s *Subject) *Example {
	for rule, policy := range s.policies {
		if policy.CORS == nil || !slices.Contains(policy.CORS.AllowOrigins, "*") || !s.setting(policy, "accessControlAllowCredentials") {
			continue
		}
		example := s.get(rule, "Access-Control-Allow-Credentials: true", "no Access-Control-Allow-Credentials")
		example.Headers = []string{"Origin: https://other.example"}
		return example
	}
	return nil
}

func compressTypes(s *Subject) *Example {
	for rule, policy := range s.policies {
		if policy.Compression == nil || len(policy.Compression.ContentTypes) > 0 {
			continue
		}
		example := s.get(rule, "Content-Encoding for every content type", "Content-Encoding for types such as text and JSON")
		example.Headers = []string{"Accept-Encoding: gzip"}
		return example
	}
	return nil
}

// maxExampleTimes bounds the requests of an example for a rate limit.
const maxExampleTimes = 1000

func rateLimitDelay(s *Subject) *Example {
	for rule, policy := range s.policies {
		if policy.RateLimit == nil {
			continue
		}
		example := s.get(rule, "the requests above the burst wait, then 429", "the requests above the burst get 429 at once")
		example.Times = int(min(max(policy.RateLimit.Burst, 1)+5, maxExampleTimes))
		return example
	}
	return nil
}

func sharedCounters(s *Subject) *Example {
	for rule, policy := range s.policies {
		if policy.RateLimit == nil && policy.InFlight == nil && policy.CircuitBreaker == nil || s.Uses[policy.ID] < 2 {
			continue
		}
		name := policy.ID.Namespace + "/" + policy.ID.Name
		return s.get(rule, "counts for this route", fmt.Sprintf("counts for Middleware %s, with its %d objects", name, s.Uses[policy.ID]))
	}
	return nil
}

func addressStrategy(s *Subject) *Example {
	for rule, policy := range s.policies {
		filter := policy.IPFilter != nil && policy.IPFilter.Client != nil
		limit := policy.RateLimit != nil && policy.RateLimit.Client != nil || policy.InFlight != nil && policy.InFlight.Client != nil
		if !filter && !limit {
			continue
		}
		example := s.get(rule, "the address is one of X-Forwarded-For", "the address is that of the connection, unless it is a trusted proxy")
		if filter {
			example.After = "refused, unless the connection is that of a trusted proxy"
		}
		example.Headers = []string{"X-Forwarded-For: 203.0.113.7"}
		return example
	}
	return nil
}
