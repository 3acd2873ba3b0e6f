package upstream

import (
	"math/rand/v2"
	"slices"

	"slipway.dev/slipway/internal/route"
)

// gate says which endpoints a request may go to.
type gate struct {
	avoid   *Endpoint
	limit   int64 // of requests in flight; 0 is none
	ejected bool  // those that are ejected or fail their checks too
	// slow is the time of slow start, while some endpoint is in it; 0 otherwise.
	slow, now int64
}

func (g *gate) admits(e *Endpoint) bool { return g.willing(e) && !g.full(e) }

func (g *gate) willing(e *Endpoint) bool {
	if e == g.avoid {
		return false
	}
	if g.ejected {
		return true
	}
	until := e.health.until.Load()
	return e.failing.Load() == nil && (until == 0 || e.handle.set.now() >= until)
}

func (g *gate) full(e *Endpoint) bool { return g.limit > 0 && e.inFlight.Load() >= g.limit }

// fullShare is the warmth of an endpoint that gets all of its share, and
// leastShare that of one that has just come: none at all would never warm it.
const (
	fullShare  = 1000
	leastShare = fullShare / 10
)

// warmth is how much of its share an endpoint gets.
func (g *gate) warmth(e *Endpoint) uint64 {
	if g.slow == 0 || e.born == 0 {
		return fullShare
	}
	age := max(g.now-e.born, 0)
	if age >= g.slow {
		return fullShare
	}
	return max(uint64(float64(age)/float64(g.slow)*fullShare), leastShare)
}

// choose gives a member of the field that the gate admits, or nil. Another
// request may have changed that by the time the member is taken.
func (h *Handle) choose(r *roster, f *field, g *gate, choice Choice) *member {
	switch {
	case len(f.members) == 1:
		if m := f.members[0]; g.admits(m.endpoint) {
			return m
		}
		return nil
	case r.method == route.BalanceRoundRobin && f.upTo == nil && g.slow == 0:
		return h.nextInTurn(f, g)
	case r.method == route.BalanceRoundRobin:
		return h.nextSmooth(f, g)
	case r.method == route.BalanceHash && choice.HasHash:
		return f.highest(g, choice.Hash)
	}
	a := f.some(g, nil)
	if a == nil {
		return nil
	}
	b := f.some(g, a)
	if b == nil {
		return a
	}
	if r.method == route.BalanceLeastTime {
		return quicker(a, b, h.set.now())
	}
	return lessBusy(a, b)
}

// nextInTurn is the round robin of endpoints with equal weights. Those that are
// not admitted lose their turn, so that their neighbour does not get it twice.
func (h *Handle) nextInTurn(f *field, g *gate) *member {
	n := uint64(len(f.members))
	for range n {
		if m := f.members[(h.turn.Add(1)-1)%n]; g.admits(m.endpoint) {
			return m
		}
	}
	return f.scan(g, nil)
}

// nextSmooth is the round robin by weight that does not send several requests
// in a row to the heaviest: each endpoint gains its weight, the one with the
// most is chosen and pays the sum. It is exact over every period.
func (h *Handle) nextSmooth(f *field, g *gate) *member {
	h.turning.Lock()
	defer h.turning.Unlock()
	var best *member
	sum := int64(0)
	for _, m := range f.members {
		if !g.admits(m.endpoint) {
			continue
		}
		gain := int64(m.weight * g.warmth(m.endpoint))
		m.endpoint.current += gain
		sum += gain
		if best == nil || m.endpoint.current > best.endpoint.current {
			best = m
		}
	}
	if best != nil {
		best.endpoint.current -= sum
	}
	return best
}

// lessBusy prefers the first where both are the same: it was drawn by weight.
func lessBusy(a, b *member) *member {
	if uint64(b.endpoint.inFlight.Load())*a.weight < uint64(a.endpoint.inFlight.Load())*b.weight {
		return b
	}
	return a
}

// quicker compares how long a request would take, with those that are ahead of
// it. Where one is not known, the less busy it is.
func quicker(a, b *member, now int64) *member {
	of, other := a.endpoint.expected(now), b.endpoint.expected(now)
	if of == 0 || other == 0 {
		return lessBusy(a, b)
	}
	if float64(other)*float64(b.endpoint.inFlight.Load()+1) < float64(of)*float64(a.endpoint.inFlight.Load()+1) {
		return b
	}
	return a
}

// tries is how often a member is drawn before all are looked at.
const tries = 4

// some draws a member by weight, other than the given one.
func (f *field) some(g *gate, other *member) *member {
	for range tries {
		m := f.random()
		if m == other || !g.admits(m.endpoint) {
			continue
		}
		if warmth := g.warmth(m.endpoint); warmth == fullShare || rand.Uint64N(fullShare) < warmth {
			return m
		}
	}
	return f.scan(g, other)
}

func (f *field) random() *member {
	if f.upTo == nil {
		return f.members[rand.IntN(len(f.members))]
	}
	i, _ := slices.BinarySearch(f.upTo, rand.Uint64N(f.total)+1)
	return f.members[i]
}

// scan gives any member that is admitted, starting anywhere.
func (f *field) scan(g *gate, other *member) *member {
	n := len(f.members)
	start := rand.IntN(n)
	for i := range n {
		if m := f.members[(start+i)%n]; m != other && g.admits(m.endpoint) {
			return m
		}
	}
	return nil
}
