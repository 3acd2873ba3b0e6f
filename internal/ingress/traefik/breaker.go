package traefik

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

const (
	// breakerWindow is the sliding window of Traefik.
	breakerWindow = 10 * time.Second
	// breakerOpen is the default time that a breaker stays open.
	breakerOpen = 10 * time.Second
)

// circuitBreaker converts a circuit breaker with a failure ratio. Latency has no
// equivalent and is refused.
func circuitBreaker(r *record) *route.Policy {
	breaker := &route.CircuitBreaker{
		Window: route.Duration(breakerWindow), Open: route.Duration(r.span("fallbackDuration")),
	}
	breaker.Open = cmp.Or(breaker.Open, route.Duration(breakerOpen))
	percent, problem := failurePercent(r.text("expression"))
	if problem != "" {
		r.fault("expression", refusal.Unsupported, "%s", problem)
	}
	breaker.FailurePercent = percent
	if status := r.count("responseCode"); status != 0 && status != 503 {
		r.fault("responseCode", refusal.Unsupported, "an open circuit breaker responds with 503, so that clients retry; remove it")
	}
	// Intervals of the check and of the recovery have no effect: our breaker
	// evaluates every response, and sends one probe request when it half-opens.
	r.ignore("checkPeriod", "recoveryDuration")
	r.rest()
	return &route.Policy{CircuitBreaker: breaker}
}

// maxBreakerText bounds the expression of a breaker.
const maxBreakerText = 256

// breakerForms lists the supported expressions, for messages.
const breakerForms = `only NetworkErrorRatio() > 0.30 and ResponseCodeRatio(500, 600, 0, 600) > 0.25 are, with other ratios`

// failurePercent parses the condition of a breaker: a function, > or >=, and a ratio.
// Both functions become the share of failed responses, which our breaker counts.
func failurePercent(expression string) (percent int, problem string) {
	if len(expression) > maxBreakerText {
		return 0, "the expression is too long: " + breakerForms
	}
	function, rest, found := strings.Cut(expression, ")")
	ratio, compares := strings.CutPrefix(strings.TrimSpace(rest), ">")
	if !found || !compares || strings.ContainsAny(rest, "&|()!") {
		return 0, "the expression is not supported: " + breakerForms
	}
	// Traefik's expressions are Go syntax, where blanks have no meaning.
	function = strings.Join(strings.Fields(function), "")
	if function != "NetworkErrorRatio(" && function != "ResponseCodeRatio(500,600,0,600" {
		return 0, "the function is not supported: " + breakerForms
	}
	// The difference between > and >= is smaller than one percent, the
	// resolution of the table.
	ratio = strings.TrimSpace(strings.TrimPrefix(ratio, "="))
	share, err := strconv.ParseFloat(ratio, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, "the ratio is not a number from 0 to 1, such as 0.25"
	}
	// Rounded first: a float is often slightly above the intended number.
	return max(1, int(math.Ceil(math.Round(share*1e6)/1e4))), ""
}
