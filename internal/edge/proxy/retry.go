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
	// maxAttempts is how many endpoints are tried where the rule does not say,
	// for a request of which nothing has been sent, or that may be sent twice.
	maxAttempts = 3
	// maxPause bounds the wait before an attempt: a client that has to wait
	// longer is better told so.
	maxPause = 5 * time.Second
)

// mayRetry decides whether an attempt that failed is followed by another, and
// takes that from the rule's budget.
func (c *client) mayRetry(b *binding, why failure) bool {
	retry := c.x.Retry
	if retry == nil {
		switch {
		case c.record.Attempts >= maxAttempts:
			return false
		case why == unconnected:
			return true
		}
		return why == broken && c.replayable() && idempotent(c.head.MethodID)
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
		wanted = retry.Unavailable
	}
	if !wanted || c.record.Attempts >= retry.Attempts || !c.replayable() {
		return false
	}
	if why != unconnected && !retry.Unsafe && !idempotent(c.head.MethodID) {
		return false
	}
	if !b.budget.spend(time.Now()) {
		c.proxy.budgets.refused.Add(1)
		return false
	}
	return true
}

// mayRetryAnswer decides whether an answer that says that the endpoint is not
// available is dropped, and the request sent again. An endpoint that says when
// to come back is not asked before that, and neither are the others: it may
// speak for all of them.
func (c *client) mayRetryAnswer(b *binding) (wait time.Duration, again bool) {
	if c.x.Retry == nil || !c.x.Retry.Unavailable {
		return 0, false
	}
	switch c.response.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	if said, ok := c.response.Find("Retry-After"); ok {
		if wait, ok = retryAfter(normalize.View(said)); !ok || wait > maxPause {
			return 0, false
		}
	}
	return wait, c.mayRetry(b, refused)
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(value string) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	return max(0, time.Until(at)), err == nil
}

// pause waits before the next attempt, for least at the shortest. It reports
// whether there is time left for one.
func (c *client) pause(b *binding, least time.Duration) bool {
	wait := least
	if retry := c.x.Retry; retry != nil && retry.Backoff > 0 {
		// It doubles with each attempt; clients that failed together part again.
		policy := backoff.Policy{First: retry.Backoff, Longest: maxPause, JitterDown: 0.5}
		wait = max(wait, policy.Delay(c.record.Attempts))
	}
	if b.times.total > 0 && time.Since(c.record.Began)+wait >= b.times.total {
		return false
	}
	if wait == 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.proxy.background.stop.Done():
		return false
	}
}

// A budget keeps retries from multiplying the load of a backend that fails: one
// for each five requests, and one a second so that quiet rules have some too.
const (
	budgetRetry  = 100 // what a retry costs
	budgetEarned = 20  // what a request earns
	budgetMost   = 10 * budgetRetry
)

// budget is what a rule has left for retries.
type budget struct {
	mu    sync.Mutex
	saved int64
	since time.Time
}

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

// earn is called for each request.
func (g *budget) earn(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grow(now, budgetEarned)
}

// spend is called for each retry, and reports whether it may be.
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

// budgets keeps the budgets of rules by their identity, so that a change of the
// table does not fill them up. Only the rules that are bound keep them alive.
type budgets struct {
	refused atomic.Uint64
	byRule  cache.Weak[route.ID, budget]
}

// forRule gives the budget of a rule.
func (s *budgets) forRule(id route.ID) *budget {
	return s.byRule.GetOrCreate(id, func() *budget { return new(budget) })
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
