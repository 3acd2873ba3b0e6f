package filter

import (
	"sync"
	"time"

	"slipway.dev/slipway/internal/route"
)

// breakerSlots is into how many parts the window is cut: the oldest tenth is
// forgotten at once.
const breakerSlots = 10

// maxOpen bounds how long a breaker stays open, so that sums of times cannot
// overflow.
const maxOpen = 365 * 24 * time.Hour

// breakerPhase is what a breaker does.
//
//	closed  lets requests through and counts how they end
//	open    lets none through, until a time
//	trial   has let one through and waits how it ends
//
// closed turns to open when too many fail, open to trial with the first request
// after its time, trial to closed or open as that one ends.
type breakerPhase uint8

const (
	breakerClosed breakerPhase = iota
	breakerOpen
	breakerTrial
)

// breaker is the state of one circuit breaker. Times are nanoseconds since the
// start of the counters.
type breaker struct {
	mu    sync.Mutex
	phase breakerPhase
	// epoch changes with the phase. A request keeps the one it began in, and
	// how it ends counts only while that lasts.
	epoch int64
	// until is when an open breaker tries a request, and when one in trial gives
	// up waiting and tries another.
	until int64
	// latest is the newest time that was seen. The end of a request brings none
	// of its own.
	latest int64
	width  int64 // of a slot
	slots  [breakerSlots]breakerSlot
}

type breakerSlot struct {
	number       int64 // of the slot's time since the start
	total, wrong int64
}

// breakerRule is when a breaker opens, and for how long.
type breakerRule struct {
	percent, least int64
	width, open    int64
}

// enter asks to let a request through. It gives the epoch, or how long to wait.
func (b *breaker) enter(now int64, rule *breakerRule) (epoch, wait int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = max(b.latest, now)
	if b.phase != breakerClosed {
		if wait := b.until - b.latest; wait > 0 {
			return 0, wait
		}
		b.turn(breakerTrial, b.latest+rule.open)
	}
	// Marks are 0 for requests that were not let through.
	return b.epoch + 1, 0
}

// leave tells how a request ended that began in epoch.
func (b *breaker) leave(epoch, now int64, failed bool, rule *breakerRule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = max(b.latest, now)
	if epoch != b.epoch+1 {
		return
	}
	switch {
	case b.phase == breakerTrial && !failed:
		b.turn(breakerClosed, 0)
	case b.phase == breakerTrial, b.count(failed, rule):
		b.turn(breakerOpen, b.latest+rule.open)
	}
}

// abandon is for a request whose end says nothing. After a trial without a
// result the next request is tried.
func (b *breaker) abandon(epoch int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if epoch == b.epoch+1 && b.phase == breakerTrial {
		b.turn(breakerOpen, b.latest)
	}
}

func (b *breaker) turn(phase breakerPhase, until int64) {
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
		slot.wrong++
	}
	var total, wrong int64
	for i := range b.slots {
		if b.slots[i].number > number-breakerSlots {
			total += b.slots[i].total
			wrong += b.slots[i].wrong
		}
	}
	return wrong > 0 && total >= rule.least && wrong*100 >= rule.percent*total
}

// circuitBreaker keeps the epoch of a request that it let through in its mark,
// until it knows how the request ended.
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

// Response implements [ResponseFilter]. The answer of another filter says
// nothing about the backend.
func (f *circuitBreaker) Response(x *Exchange, status int) {
	epoch := x.Marks[f.mark]
	if epoch == 0 || x.respondedLocally {
		return
	}
	x.Marks[f.mark] = 0
	f.breaker.leave(epoch, f.counters.since(x.Now), status >= 500, &f.rule)
}

// Done implements [Finisher].
func (f *circuitBreaker) Done(x *Exchange) {
	if epoch := x.Marks[f.mark]; epoch != 0 {
		x.Marks[f.mark] = 0
		f.breaker.abandon(epoch)
	}
}
