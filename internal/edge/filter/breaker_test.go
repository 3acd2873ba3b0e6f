package filter_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/route"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

func breakerPolicy(name string, percent int, least int64) route.Policy {
	return route.Policy{ID: id(name), CircuitBreaker: &route.CircuitBreaker{
		FailurePercent: percent, MinRequests: least,
		Window: route.Duration(10 * time.Second), Open: route.Duration(5 * time.Second),
	}}
}

// send runs a whole exchange and returns the status of the filter's response.
func send(t *testing.T, chain *filter.Chain, after time.Duration, status int) int {
	t.Helper()
	r := begin(t, chain, get("/"), at(after))
	r.finish(status)
	return r.status()
}

// expect compares the status that a request gets.
func expect(t *testing.T, want, got int, when string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", when, got, want)
	}
}

// opened gives a chain whose breaker opened at the start, for five seconds.
func opened(t *testing.T, more ...route.Policy) *filter.Chain {
	t.Helper()
	counters := filter.NewCounters(start)
	chain := compile(t, counters, breakerPolicy("b", 50, 1))
	if got := send(t, chain, 0, 502); got != 0 {
		t.Fatalf("the first gets %d", got)
	}
	chain = compile(t, counters, append([]route.Policy{breakerPolicy("b", 50, 1)}, more...)...)
	if got := send(t, chain, time.Second, 200); got != 503 {
		t.Fatalf("it is not open: %d", got)
	}
	return chain
}

func TestBreakerNeedsEnough(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), breakerPolicy("b", 50, 4))
	for i, status := range []int{500, 500, 404, 200} {
		if got := send(t, chain, 0, status); got != 0 {
			t.Fatalf("number %d gets %d", i, got)
		}
	}
	if got := send(t, chain, 0, 200); got != 503 {
		t.Errorf("two of four failed, and the next gets %d", got)
	}
}

func TestBreakerCountsFailuresOnly(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), breakerPolicy("b", 1, 1))
	for _, status := range []int{200, 301, 400, 404, 429, 499} {
		if got := send(t, chain, 0, status); got != 0 {
			t.Errorf("after %d: %d", status, got)
		}
	}
}

func TestBreakerWindowSlides(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), breakerPolicy("b", 50, 3))
	for _, step := range []struct {
		after  time.Duration
		status int
	}{
		{0, 500}, {9 * time.Second, 500}, // two in ten seconds
		{10 * time.Second, 200}, // the first is forgotten
		{11 * time.Second, 200}, // one of three
		{18 * time.Second, 200},
		{19 * time.Second, 500}, // the second is forgotten too
	} {
		if got := send(t, chain, step.after, step.status); got != 0 {
			t.Fatalf("at %v: %d", step.after, got)
		}
	}
	if got := send(t, chain, 20*time.Second, 500); got != 0 {
		t.Fatalf("one of four is not enough: %d", got)
	}
	expect(t, 503, send(t, chain, 20*time.Second, 200), "two of four are enough")
}

// TestBreakerForgetsInPauses has parts of the window that nothing came in.
func TestBreakerForgetsInPauses(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), breakerPolicy("b", 100, 2))
	send(t, chain, 0, 500)
	send(t, chain, 12*time.Second, 500)
	expect(t, 0, send(t, chain, 13*time.Second, 500), "one in ten seconds is not enough")
	expect(t, 503, send(t, chain, 13*time.Second, 500), "two in ten seconds are enough")
}

func TestBreakerTriesOne(t *testing.T) {
	chain := opened(t)
	trial := begin(t, chain, get("/"), at(5*time.Second))
	if trial.status() != 0 {
		t.Fatalf("the trial gets %d", trial.status())
	}
	if got := send(t, chain, 5*time.Second, 200); got != 503 {
		t.Errorf("another beside the trial gets %d", got)
	}
	trial.finish(200)
	expect(t, 0, send(t, chain, 5*time.Second, 200), "after a good trial")
}

func TestBreakerTrialWithoutResult(t *testing.T) {
	chain := opened(t)
	gone := begin(t, chain, get("/"), at(5*time.Second))
	gone.chain.Done(&gone.x, gone.ran) // the client is gone: no answer
	expect(t, 0, send(t, chain, 5*time.Second, 503), "the next is not tried")
	expect(t, 503, send(t, chain, 6*time.Second, 200), "after a bad trial")
}

func TestBreakerTrialThatNeverEnds(t *testing.T) {
	chain := opened(t)
	stuck := begin(t, chain, get("/"), at(5*time.Second))
	expect(t, 503, send(t, chain, 9*time.Second, 200), "while the trial is young")
	expect(t, 0, send(t, chain, 10*time.Second, 200), "another is not tried")
	stuck.finish(500) // too late to count
	expect(t, 0, send(t, chain, 11*time.Second, 200), "an old trial opens the breaker")
}

// TestBreakerIgnoresFilters gives the probe the response of another filter, which
// counts neither for nor against the backend.
func TestBreakerIgnoresFilters(t *testing.T) {
	for _, status := range []int{403, 503} {
		chain := opened(t, route.Policy{IPFilter: &route.IPFilter{
			Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.66/32")}, Status: status,
		}})
		r := begin(t, chain, get("/"), at(5*time.Second), from("192.0.2.66"))
		if r.answer == nil || r.answer.Reason != "AddressRefused" {
			t.Fatalf("status %d", r.status())
		}
		r.finish(0)
		trial := begin(t, chain, get("/"), at(5*time.Second))
		if trial.status() != 0 {
			t.Errorf("after %d of a filter the trial gets %d", status, trial.status())
		}
		if got := send(t, chain, 5*time.Second, 200); got != 503 {
			t.Errorf("%d of a filter closes the breaker: %d", status, got)
		}
		trial.finish(200)
	}
}

func TestBreakerIgnoresLateFailures(t *testing.T) {
	counters := filter.NewCounters(start)
	chain := compile(t, counters, breakerPolicy("b", 50, 1))
	slow := begin(t, chain, get("/"))
	send(t, chain, 0, 500)
	if got := send(t, chain, 5*time.Second, 200); got != 0 {
		t.Fatalf("the trial gets %d", got)
	}
	slow.finish(504)
	expect(t, 0, send(t, chain, 6*time.Second, 200), "a failure from before it opened counts again")
}

// TestBreakerKeepsItsTime opens by a request that began long before: what counts
// is the newest time that was seen.
func TestBreakerKeepsItsTime(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), breakerPolicy("b", 50, 2))
	slow := begin(t, chain, get("/"))
	send(t, chain, 30*time.Second, 500)
	slow.finish(504)
	expect(t, 503, send(t, chain, 34*time.Second, 200), "it was open in the past only")
}

// TestBreakerTogether sends many requests at once to a breaker whose time is
// over: one of them is the trial.
func TestBreakerTogether(t *testing.T) {
	chain := opened(t)
	const requests = 50
	runs := make(chan *run, requests)
	for range requests {
		go func() { runs <- begin(t, chain, get("/"), at(5*time.Second)) }()
	}
	var all []*run
	tried := 0
	for range requests {
		r := <-runs
		all = append(all, r)
		if r.answer == nil {
			tried++
		}
	}
	if tried != 1 {
		t.Errorf("%d were tried", tried)
	}
	for _, r := range all {
		r.finish(200)
	}
	expect(t, 0, send(t, chain, 5*time.Second, 200), "after a good trial")
}
