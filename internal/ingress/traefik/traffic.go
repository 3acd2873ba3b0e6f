package traefik

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// rateLimit returns no policy for an average of 0, which means no limit. The
// default key is the client address, as in Traefik.
func rateLimit(r *record) *route.Policy {
	// A burst of 0 would admit no request at all; Traefik uses 1 then, too.
	limit := &route.RateLimit{
		Requests: r.count("average"),
		Period:   route.Duration(r.span("period")),
		Burst:    max(1, r.count("burst")),
		// As in Traefik without redis.
		PerReplica: true,
	}
	limit.Key, limit.Client = sourceCriterion(r, route.KeyClient)
	limit.Period = cmp.Or(limit.Period, route.Duration(time.Second))
	r.refuse("redis", "each replica of the edge counts on its own; remove it")
	r.rest()
	if limit.Requests == 0 {
		return nil
	}
	return &route.Policy{RateLimit: limit}
}

// inFlight converts a limit of concurrent requests, by host if no key is set.
func inFlight(r *record) *route.Policy {
	amount, present := r.wholeIfSet("amount")
	if !present || amount < 1 {
		r.fault("amount", refusal.Invalid, "no request may run: give a number from 1")
	}
	key, client := sourceCriterion(r, route.KeyHost)
	r.rest()
	return &route.Policy{InFlight: &route.InFlight{Max: amount, Key: key, Client: client, PerReplica: true}}
}

// sourceCriterion returns the key that requests are counted by, fallback if it is not
// set, and which address is the client.
func sourceCriterion(r *record, fallback route.KeySource) (route.HashKey, *route.ClientSource) {
	criterion := r.inner("sourceCriterion")
	header, host := criterion.text("requestHeaderName"), criterion.flag("requestHost")
	// An empty ipStrategy selects the client address too, so its presence
	// counts.
	_, address := criterion.take("ipStrategy")
	strategy := criterion.inner("ipStrategy")
	client := addressStrategy(strategy)
	if bits := strategy.count("ipv6Subnet"); bits != 0 && bits != 64 {
		strategy.fault("ipv6Subnet", refusal.Unsupported, "an IPv6 client always is its network of 64 bits; remove it")
	}
	strategy.rest()
	criterion.rest()
	key := route.HashKey{By: fallback}
	chosen := 0
	if header != "" {
		key = route.HashKey{By: route.KeyHeader, Name: header}
		chosen++
	}
	if host {
		key = route.HashKey{By: route.KeyHost}
		chosen++
	}
	if address {
		key = route.HashKey{By: route.KeyClient}
		chosen++
	}
	if chosen > 1 {
		r.fault("sourceCriterion", refusal.Invalid, "ipStrategy, requestHeaderName and requestHost exclude each other: keep one")
	}
	return key, client
}

// buffering streams bodies without a limit: an unbounded body is never buffered.
func buffering(r *record) *route.Policy {
	buffer := &route.Buffering{
		MaxRequestBytes: r.count("maxRequestBodyBytes"), MaxResponseBytes: r.count("maxResponseBodyBytes"),
	}
	if buffer.MaxRequestBytes+buffer.MaxResponseBytes == 0 {
		r.fault("maxRequestBodyBytes", refusal.Unsupported, "a body is buffered only up to a limit: give the most bytes of a request, or of a response")
	}
	// The edge decides about memory and disk.
	r.ignore("memRequestBodyBytes", "memResponseBodyBytes")
	r.refuse("retryExpression", "use the Middleware retry")
	r.rest()
	return &route.Policy{Buffering: buffer}
}

// compress leaves the media types to the edge if none are listed: Traefik then encodes
// all, also those that do not get smaller.
func compress(r *record) *route.Policy {
	compression := &route.Compression{
		ContentTypes:        r.mediaTypes("includedContentTypes"),
		ExcludeContentTypes: r.mediaTypes("excludedContentTypes"),
	}
	if len(compression.ContentTypes) > 0 && len(compression.ExcludeContentTypes) > 0 {
		r.fault("excludedContentTypes", refusal.Invalid, "it excludes includedContentTypes: keep one of them")
	}
	// A written 0 means every size, which is not the default.
	least, present := r.wholeIfSet("minResponseBodyBytes")
	switch {
	case least < 0:
		r.fault("minResponseBodyBytes", refusal.Invalid, "%d is negative: give a number from 0", least)
	case present:
		compression.MinBytes = max(1, least) // 0 would be the default
	}
	for _, encoding := range r.texts("encodings") {
		compression.Encodings = append(compression.Encodings, route.Encoding(encoding))
	}
	r.refuse("defaultEncoding", "a client without Accept-Encoding gets uncompressed responses; remove it")
	r.rest()
	return &route.Policy{Compression: compression}
}

// mediaTypes reads a list of types such as text/html.
func (r *record) mediaTypes(name string) []string {
	types := r.texts(name)
	for _, text := range types {
		kind, _, _ := strings.Cut(text, ";")
		main, sub, found := strings.Cut(strings.TrimSpace(kind), "/")
		if !found || main == "" || sub == "" || main == "*" && sub != "*" {
			r.fault(name, refusal.Invalid, "%q is not a media type: write one such as text/html", brief(text))
		}
	}
	return types
}

// retry returns no policy for one attempt, which is no retry.
func retry(r *record) *route.Policy {
	again := &route.Retry{Backoff: route.Duration(r.span("initialInterval")), UnsafeMethods: r.flag("retryNonIdempotentMethod")}
	attempts := r.whole("attempts")
	switch {
	case attempts < 1:
		r.fault("attempts", refusal.Invalid, "give the number of attempts, the first one included")
	case attempts > 10:
		r.fault("attempts", refusal.TooLarge, "%d are more than 10: every retry adds to the load of a failing backend", attempts)
	}
	again.Attempts = int(attempts)
	retryReasons(r, again)
	r.refuse("timeout", "use initialInterval and fewer attempts")
	if most := r.whole("maxRequestBodyBytes"); most > 0 {
		r.fault("maxRequestBodyBytes", refusal.Unsupported, "use the Middleware buffering")
	}
	r.rest()
	// Checked after rest, so that faults of a Middleware without effect are
	// reported, too.
	if attempts == 1 {
		return nil
	}
	return &route.Policy{Retry: again}
}

// retryReasons reads what a request is repeated for: network errors unless that is disabled,
// and the statuses that are listed.
func retryReasons(r *record, again *route.Retry) {
	covered := map[int]bool{}
	for _, span := range statusRanges(r, "status") {
		if span.From < 400 {
			r.fault("status", refusal.Unsupported, "%d is not the status of an error: list statuses from 400 to 599", span.From)
			return
		}
		for status := span.From; status <= span.To; status++ {
			covered[status] = true
		}
	}
	statuses, network := slices.Sorted(maps.Keys(covered)), !r.flag("disableRetryOnNetworkError")
	if len(statuses) == 0 {
		if !network {
			r.fault("disableRetryOnNetworkError", refusal.Invalid, "nothing is left to repeat a request for: list 502-504 in status")
		}
		return
	}
	if network {
		again.On = append(again.On, route.RetryConnect)
	}
	if slices.Equal(statuses, []int{502, 503, 504}) {
		again.On = append(again.On, route.RetryUnavailable)
	} else {
		again.Statuses = statuses
	}
}
