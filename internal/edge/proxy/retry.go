package proxy

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

const (
	// maxAttempts is how many endpoints are tried where the rule has no retry
	// policy, for a request of which nothing has been sent, or that may be sent
	// twice.
	maxAttempts = 3
	// maxPause bounds the wait before an attempt: a client that would have to
	// wait longer gets the failure instead.
	maxPause = 5 * time.Second
)

// mayRetry decides whether an attempt that failed is followed by another, and
// takes that from the rule's budget.
func (x *exchange) mayRetry(why failure) bool {
	retry := x.filters.Retry
	if retry == nil {
		switch {
		case x.record.Attempts >= maxAttempts:
			return false
		case why == unconnected:
			return true
		}
		return why == broken && x.attempt.replayable() && idempotent(x.conn.head.MethodID)
	}
	wanted := false
	switch why {
	case unconnected:
		wanted = retry.Connect
	case broken:
		wanted = retry.Reset
	case overdue:
		wanted = retry.Timeout
	case refused:
		wanted = true // the status was one of the policy's
	}
	if !wanted || x.record.Attempts >= retry.Attempts || !x.attempt.replayable() {
		return false
	}
	if why != unconnected && !retry.Unsafe && !idempotent(x.conn.head.MethodID) {
		return false
	}
	if !x.conn.proxy.budgets.forRule(x.rule).spend(time.Now()) {
		x.conn.proxy.budgets.refused.Add(1)
		return false
	}
	return true
}

// mayRetryResponse decides whether a response with a status of the policy is dropped,
// and the request sent again. A Retry-After of one
// endpoint delays the next attempt at any other too: it may stand for all of
// them.
func (a *attempt) mayRetryResponse() (wait time.Duration, retry bool) {
	x, response := a.x, &a.x.conn.buffers.response
	if x.filters.Retry == nil || !x.filters.Retry.AfterStatus(response.Status) {
		return 0, false
	}
	if value, ok := response.Find("Retry-After"); ok {
		if wait, ok = retryAfter(normalize.View(value)); !ok || wait > maxPause {
			return 0, false
		}
	}
	return wait, x.mayRetry(refused)
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(value string) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	return max(0, time.Until(at)), err == nil
}

// backOff waits before the next attempt, for least at the shortest. It reports
// whether there is time left for one. Closing the Proxy ends the wait.
func (x *exchange) backOff(least time.Duration) bool {
	wait := least
	if retry := x.filters.Retry; retry != nil && retry.Backoff > 0 {
		// The wait doubles with each attempt; jitter spreads clients that failed
		// at the same moment.
		policy := backoff.Policy{First: retry.Backoff, Longest: maxPause, JitterUp: 0.5}
		wait = max(wait, policy.Delay(x.record.Attempts))
	}
	if total := x.rule.timeouts.total; total > 0 && time.Since(x.record.Began)+wait >= total {
		return false
	}
	if wait == 0 {
		return true
	}
	x.leave()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.conn.proxy.background.stop.Done():
		return false
	}
}

// A budget keeps retries from multiplying the load of a backend that fails: one
// retry for each five requests, and one a second so that quiet rules have some
// too. At most a hundred are saved up, so that a short failure is retried as the
// rule has it, however few requests the rule gets.
const (
	budgetRetry  = 100 // what a retry costs
	budgetEarned = 20  // what a request earns
	budgetMost   = 100 * budgetRetry
)

// budget is what a rule has left for retries. mu guards the rest.
type budget struct {
	mu    sync.Mutex
	saved int64
	since time.Time
}

// grow adds what was earned, and what the seconds since the last call bring. A
// budget starts full.
func (g *budget) grow(now time.Time, earned int64) {
	if g.since.IsZero() {
		g.saved, g.since = budgetMost, now
	}
	if seconds := now.Sub(g.since) / time.Second; seconds > 0 {
		earned += int64(min(seconds, budgetMost)) * budgetRetry
		g.since = g.since.Add(seconds * time.Second)
	}
	g.saved = min(g.saved+earned, budgetMost)
}

// earn credits the budget with one request.
func (g *budget) earn(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grow(now, budgetEarned)
}

// spend takes one retry from the budget, and reports whether there was one left.
func (g *budget) spend(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grow(now, 0)
	if g.saved < budgetRetry {
		return false
	}
	g.saved -= budgetRetry
	return true
}

// budgets holds the budgets of rules by their identity, so that a change of the
// table does not refill them. The map is weak: a budget lives as long as a rule
// that is bound to it.
type budgets struct {
	refused atomic.Uint64
	byRule  cache.Weak[route.ID, budget]
}

// forRule returns the budget of a rule, and creates it at its first retry: a budget starts
// full, and most rules never need one.
func (s *budgets) forRule(rule *binding) *budget {
	if known := rule.budget.Load(); known != nil {
		return known
	}
	made := s.byRule.GetOrCreate(rule.rule.ID, func() *budget { return new(budget) })
	rule.budget.Store(made)
	return made
}

// hasRetry reports whether a list of policies has a retry in it.
func hasRetry(policies []route.Policy) bool {
	for i := range policies {
		if policies[i].Retry != nil || policies[i].Chain != nil && hasRetry(policies[i].Chain.Policies) {
			return true
		}
	}
	return false
}
