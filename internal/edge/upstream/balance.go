package upstream

import (
	"math/rand/v2"
	"slices"

	"slipway.dev/slipway/internal/route"
)

// pickFilter decides which endpoints a request may go to. Pick relaxes it step
// by step when no endpoint is left.
type pickFilter struct {
	avoid        *Endpoint
	limit        int64 // of requests in flight on one endpoint; 0 is none
	unhealthyToo bool  // admit also ejected endpoints and those that fail their checks
	// slowStart is the length of slow start while an endpoint is in it; 0
	// otherwise.
	slowStart, now int64
}

func (g *pickFilter) admits(e *Endpoint) bool { return g.available(e) && !g.full(e) }

func (g *pickFilter) available(e *Endpoint) bool {
	if e == g.avoid {
		return false
	}
	if g.unhealthyToo {
		return true
	}
	until := e.health.ejectedUntil.Load()
	return e.checkFailure.Load() == nil && (until == 0 || e.handle.set.now() >= until)
}

func (g *pickFilter) full(e *Endpoint) bool { return g.limit > 0 && e.inFlight.Load() >= g.limit }

// fullShare is the share of an endpoint that is not in slow start, and
// leastShare that of one that was just added: with none at all it would never
// warm up.
const (
	fullShare  = 1000
	leastShare = fullShare / 10
)

// share returns how much of its weight an endpoint gets during slow start. It
// grows linearly with the time since the endpoint was added.
func (g *pickFilter) share(e *Endpoint) uint64 {
	if g.slowStart == 0 || e.addedAt == 0 {
		return fullShare
	}
	age := max(g.now-e.addedAt, 0)
	if age >= g.slowStart {
		return fullShare
	}
	return max(uint64(float64(age)/float64(g.slowStart)*fullShare), leastShare)
}

// choose returns a candidate that the filter admits, or nil. Another request
// may fill it up before it is acquired, so the caller checks again.
//
// Without a method of its own it is the power of two choices: of two random
// candidates the less busy one, which avoids both hot spots and a global lock.
func (h *Handle) choose(r *endpointSet, f *candidates, g *pickFilter, choice PickOptions) *endpointEntry {
	switch {
	case len(f.entries) == 1:
		if m := f.entries[0]; g.admits(m.endpoint) {
			return m
		}
		return nil
	case r.method == route.BalanceRoundRobin && f.cumulative == nil && g.slowStart == 0:
		return h.roundRobin(f, g)
	case r.method == route.BalanceRoundRobin:
		return h.smoothRoundRobin(f, g)
	case r.method == route.BalanceHash && choice.HasHash:
		return f.highest(g, choice.Hash)
	}
	a := f.weightedRandom(g, nil)
	if a == nil {
		return nil
	}
	b := f.weightedRandom(g, a)
	if b == nil {
		return a
	}
	if r.method == route.BalanceLeastTime {
		return faster(a, b, h.set.now())
	}
	return lessBusy(a, b)
}

// roundRobin is for endpoints with equal weights. Those that are not admitted
// lose their turn, so that their neighbour does not get two.
func (h *Handle) roundRobin(f *candidates, g *pickFilter) *endpointEntry {
	n := uint64(len(f.entries))
	for range n {
		if m := f.entries[(h.next.Add(1)-1)%n]; g.admits(m.endpoint) {
			return m
		}
	}
	return f.scan(g, nil)
}

// smoothRoundRobin is round robin by weight that does not send several requests
// in a row to the heaviest endpoint, as in nginx: each endpoint gains its
// weight, the one with the most is chosen and pays the sum. It is exact over
// every period. It needs a lock, because all weights change together.
func (h *Handle) smoothRoundRobin(f *candidates, g *pickFilter) *endpointEntry {
	h.smoothMu.Lock()
	defer h.smoothMu.Unlock()
	var best *endpointEntry
	sum := int64(0)
	for _, m := range f.entries {
		if !g.admits(m.endpoint) {
			continue
		}
		gain := int64(m.weight * g.share(m.endpoint))
		m.endpoint.smoothWeight += gain
		sum += gain
		if best == nil || m.endpoint.smoothWeight > best.endpoint.smoothWeight {
			best = m
		}
	}
	if best != nil {
		best.endpoint.smoothWeight -= sum
	}
	return best
}

// lessBusy compares requests in flight by weight. It prefers the first where
// both are the same: it was drawn by weight.
func lessBusy(a, b *endpointEntry) *endpointEntry {
	if uint64(b.endpoint.inFlight.Load())*a.weight < uint64(a.endpoint.inFlight.Load())*b.weight {
		return b
	}
	return a
}

// faster compares how long a request would take, with those in flight ahead of
// it. Where one of the latencies is not known, it compares how busy they are.
func faster(a, b *endpointEntry, now int64) *endpointEntry {
	of, other := a.endpoint.expectedLatency(now), b.endpoint.expectedLatency(now)
	if of == 0 || other == 0 {
		return lessBusy(a, b)
	}
	if float64(other)*float64(b.endpoint.inFlight.Load()+1) < float64(of)*float64(a.endpoint.inFlight.Load()+1) {
		return b
	}
	return a
}

// drawAttempts is how often a candidate is drawn before all of them are
// scanned.
const drawAttempts = 4

// weightedRandom draws an admitted candidate by weight, other than the given
// one. In slow start a draw succeeds only with the probability of the
// endpoint's share.
func (f *candidates) weightedRandom(g *pickFilter, other *endpointEntry) *endpointEntry {
	for range drawAttempts {
		m := f.draw()
		if m == other || !g.admits(m.endpoint) {
			continue
		}
		if warmth := g.share(m.endpoint); warmth == fullShare || rand.Uint64N(fullShare) < warmth {
			return m
		}
	}
	return f.scan(g, other)
}

func (f *candidates) draw() *endpointEntry {
	if f.cumulative == nil {
		return f.entries[rand.IntN(len(f.entries))]
	}
	i, _ := slices.BinarySearch(f.cumulative, rand.Uint64N(f.total)+1)
	return f.entries[i]
}

// scan returns any admitted candidate, starting at a random one.
func (f *candidates) scan(g *pickFilter, other *endpointEntry) *endpointEntry {
	n := len(f.entries)
	start := rand.IntN(n)
	for i := range n {
		if m := f.entries[(start+i)%n]; m != other && g.admits(m.endpoint) {
			return m
		}
	}
	return nil
}
