package gateway

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/route"
)

const (
	// longestTimeout stands for no timeout: the edge has a default for the head of
	// responses, and 0s turns it off.
	longestTimeout = route.Duration(24 * time.Hour)
	// defaultRetries and defaultBackoff are those of a retry without a number.
	defaultRetries = 2
	defaultBackoff = route.Duration(25 * time.Millisecond)
	// maxRetries and maxBackoff are what the edge supports: each retry multiplies the
	// load of a backend that fails, and keeps its client waiting.
	maxRetries = 9
	maxBackoff = route.Duration(5 * time.Second)
	// maxMirrored bounds the body of requests that are mirrored, in bytes. Larger ones
	// are served, and not mirrored.
	maxMirrored = 1 << 20
	// defaultMaxAge is how long browsers keep a preflight, as Gateway API has it.
	defaultMaxAge = 5
)

// duration reads a duration. Those of Gateway API are a part of what Go has.
func (r *httpRoute) duration(field string, written *gatewayv1.Duration) route.Duration {
	if written == nil {
		return 0
	}
	parsed, err := time.ParseDuration(string(*written))
	if err != nil || parsed < 0 {
		r.refuse(field, fmt.Sprintf("%q is not a duration: write it as 10s or 1h30m", *written))
	}
	return route.Duration(parsed)
}

// timeouts returns the timeouts of a rule. The time for a request to a backend is that
// of each attempt.
func (r *httpRoute) timeouts(field string, written *gatewayv1.HTTPRouteTimeouts) route.Timeouts {
	if written == nil || written.Request == nil && written.BackendRequest == nil {
		return route.Timeouts{}
	}
	total, attempt := r.duration(field+".request", written.Request), r.duration(field+".backendRequest", written.BackendRequest)
	return route.Timeouts{Header: cmp.Or(attempt, total, longestTimeout), Attempt: attempt, Total: total}
}

// retry returns the policy of retries; nil for none. Errors of connections and timeouts
// are retried with every status, as Gateway API asks for. The number of attempts is a
// maximum, so that one above maxRetries is served with fewer; 0 turns retries off.
func (r *httpRoute) retry(field string, written *gatewayv1.HTTPRouteRetry) *route.Retry {
	if written == nil {
		return nil
	}
	retries := or(written.Attempts, defaultRetries)
	if retries == 0 {
		return nil
	}
	backoff := defaultBackoff
	if written.Backoff != nil {
		backoff = r.duration(field+".backoff", written.Backoff)
	}
	if backoff > maxBackoff {
		r.refuse(field+".backoff", fmt.Sprintf("the longest wait between two attempts is %s", maxBackoff))
	}
	policy := &route.Retry{
		// The first attempt counts.
		Attempts: min(retries, maxRetries) + 1, Backoff: backoff,
		On: []route.RetryCondition{route.RetryConnect, route.RetryReset, route.RetryTimeout},
	}
	for _, code := range written.Codes {
		policy.Statuses = append(policy.Statuses, int(code))
	}
	return policy
}

// mirror returns the policy of a mirror; nil if it gets nothing. One that does not
// resolve is dropped, and the requests are served.
func (r *httpRoute) mirror(field string, written *gatewayv1.HTTPRequestMirrorFilter) *route.Mirror {
	id, resolved := r.backend(field+".backendRef", &written.BackendRef)
	mirror := &route.Mirror{Backend: id, Percent: int(or(written.Percent, 100)), MaxBodyBytes: maxMirrored}
	if fraction := written.Fraction; fraction != nil {
		mirror.Percent, mirror.Of = int(fraction.Numerator), int(or(fraction.Denominator, 100))
	}
	if !resolved || mirror.Percent == 0 {
		return nil
	}
	return mirror
}

// cors returns the policy of cross-origin requests.
func cors(written *gatewayv1.HTTPCORSFilter) *route.CORS {
	credentials := or(written.AllowCredentials, false)
	policy := &route.CORS{
		AllowMethods: texts(written.AllowMethods), AllowHeaders: texts(written.AllowHeaders), ExposeHeaders: texts(written.ExposeHeaders),
		AllowCredentials: credentials, MaxAge: route.Duration(time.Duration(cmp.Or(written.MaxAge, defaultMaxAge)) * time.Second),
	}
	if credentials && slices.Contains(policy.ExposeHeaders, "*") {
		policy.ExposeHeaders = nil // with credentials, browsers read * as a name
	}
	for _, allowed := range written.AllowOrigins {
		origin := spellOrigin(string(allowed))
		if strings.Contains(origin, "*") && (origin != "*" || credentials) {
			policy.AllowOriginRegexps = append(policy.AllowOriginRegexps, originExpression(origin))
		} else {
			policy.AllowOrigins = append(policy.AllowOrigins, origin)
		}
	}
	return policy
}

// spellOrigin spells an origin as browsers do: in lower case, and without the port that
// its scheme implies.
func spellOrigin(origin string) string {
	origin = strings.ToLower(origin)
	if strings.HasPrefix(origin, "https://") {
		return strings.TrimSuffix(origin, ":443")
	}
	return strings.TrimSuffix(origin, ":80")
}

// originExpression returns the expression for an origin with wildcards. One stands for
// any number of labels, and not for a port; alone it stands for every origin.
func originExpression(origin string) string {
	if origin == "*" {
		return ".+"
	}
	return strings.ReplaceAll(regexp.QuoteMeta(origin), `\*`, `[^/:]+`)
}

// texts converts a list of names.
func texts[T ~string](written []T) []string {
	var list []string
	for _, text := range written {
		list = append(list, string(text))
	}
	return list
}
