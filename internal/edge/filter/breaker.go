package filter

import (
	"sync"
	"time"

	"slipway.dev/slipway/internal/route"
)

// breakerSlots is how many slots a window has: it slides by dropping the oldest
// tenth at once.
const breakerSlots = 10

// maxOpen bounds how long a breaker stays open, so that sums of times cannot
// overflow.
const maxOpen = 365 * 24 * time.Hour

// breakerPhase is the state of a circuit breaker.
//
//	closed     lets requests through and counts how they end
//	open       lets none through, until a time
//	half-open  has let one probe through and waits for its result
//
// closed becomes open when too many fail, open becomes half-open with the first
// request after its time, half-open becomes closed or open with the result of the
// probe.
type breakerPhase uint8

const (
	breakerClosed breakerPhase = iota
	breakerOpen
	breakerHalfOpen
)

// breaker is the state of one circuit breaker. Times are nanoseconds since the
// start of the counters.
type breaker struct {
	mu    sync.Mutex
	phase breakerPhase
	// epoch changes with the phase. A request holds the one that it began in, and
	// its result counts only while that lasts: a late failure from before the
	// breaker closed must not open it again.
	epoch int64
	// until is when an open breaker lets a probe through, and when a half-open one
	// gives up waiting and lets another through.
	until int64
	// latest is the newest time that was seen. The end of a request has none of
	// its own.
	latest int64
	width  int64 // of a slot
	slots  [breakerSlots]breakerSlot
}

// breakerSlot counts the requests of one part of the window.
type breakerSlot struct {
	number        int64 // of the slot's time since the start
	total, failed int64
}

// breakerRule is when a breaker opens, and for how long. It belongs to the filter
// and not to the breaker, so that a change of the policy keeps the counts.
type breakerRule struct {
	percent, least int64
	width, open    int64
}

// enter lets a request through and returns its epoch, or returns how long to wait.
func (b *breaker) enter(now int64, rule *breakerRule) (epoch, wait int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = max(b.latest, now)
	if b.phase != breakerClosed {
		if wait := b.until - b.latest; wait > 0 {
			return 0, wait
		}
		b.setPhase(breakerHalfOpen, b.latest+rule.open)
	}
	// Marks are 0 for requests that were not let through.
	return b.epoch + 1, 0
}

// leave counts the result of a request that began in epoch.
func (b *breaker) leave(epoch, now int64, failed bool, rule *breakerRule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = max(b.latest, now)
	if epoch != b.epoch+1 {
		return
	}
	switch {
	case b.phase == breakerHalfOpen && !failed:
		b.setPhase(breakerClosed, 0)
	case b.phase == breakerHalfOpen, b.count(failed, rule):
		b.setPhase(breakerOpen, b.latest+rule.open)
	}
}

// abandon ends a request without a result, such as one that its client cancelled.
// After a probe without a result the next request is the probe.
func (b *breaker) abandon(epoch int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if epoch == b.epoch+1 && b.phase == breakerHalfOpen {
		b.setPhase(breakerOpen, b.latest)
	}
}

// setPhase starts a new phase, with an empty window.
func (b *breaker) setPhase(phase breakerPhase, until int64) {
	b.phase, b.until = phase, until
	b.epoch++
	b.slots = [breakerSlots]breakerSlot{}
}

// count adds a result to the window and reports whether too many failed.
func (b *breaker) count(failed bool, rule *breakerRule) bool {
	if b.width != rule.width {
		b.width = rule.width
		b.slots = [breakerSlots]breakerSlot{}
	}
	number := b.latest / b.width
	slot := &b.slots[number%breakerSlots]
	if slot.number != number {
		*slot = breakerSlot{number: number}
	}
	slot.total++
	if failed {
		slot.failed++
	}
	var total, failures int64
	for i := range b.slots {
		if b.slots[i].number > number-breakerSlots {
			total += b.slots[i].total
			failures += b.slots[i].failed
		}
	}
	return failures > 0 && total >= rule.least && failures*100 >= rule.percent*total
}

// circuitBreaker keeps the epoch of a request that it let through in its mark,
// until the request has a result.
type circuitBreaker struct {
	counters *Counters
	breaker  *breaker
	rule     breakerRule
	mark     int
	refusal  retryAfterResponse
}

func newCircuitBreaker(a *route.CircuitBreaker, id route.PolicyID, c *compiler) (*circuitBreaker, error) {
	refusal, err := newRetryAfterResponse(503, "CircuitOpen")
	return &circuitBreaker{
		counters: c.counters, breaker: c.counters.breakers.take(&c.counters.mu, id),
		rule: breakerRule{
			percent: int64(a.FailurePercent), least: a.MinRequests,
			width: max(1, int64(a.Window)/breakerSlots), open: min(int64(a.Open), int64(maxOpen)),
		},
		mark: c.mark(), refusal: refusal,
	}, err
}

// Request implements [Filter].
func (f *circuitBreaker) Request(x *Exchange) *LocalResponse {
	epoch, wait := f.breaker.enter(f.counters.since(x.Now), &f.rule)
	if wait > 0 {
		return x.respondRetryAfter(&f.refusal, time.Duration(wait))
	}
	x.Marks[f.mark] = epoch
	return nil
}

// Response implements [ResponseFilter]. The local response of another filter is no
// result of the backend.
func (f *circuitBreaker) Response(x *Exchange, status int) {
	epoch := x.Marks[f.mark]
	if epoch == 0 || x.rewritten.locally {
		return
	}
	x.Marks[f.mark] = 0
	f.breaker.leave(epoch, f.counters.since(x.Now), status >= 500, &f.rule)
}

// Done implements [Finisher]. A mark that is still set means that there was no
// response.
func (f *circuitBreaker) Done(x *Exchange) {
	if epoch := x.Marks[f.mark]; epoch != 0 {
		x.Marks[f.mark] = 0
		f.breaker.abandon(epoch)
	}
}
