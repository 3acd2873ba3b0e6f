package proxy

import (
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// tally counts the requests of a rule: fixed words, added to without a lock. The
// counts are made with the first request, so that rules without traffic cost
// nothing but a pointer.
type tally struct {
	id     route.ID
	counts atomic.Pointer[counts]
}

type counts struct {
	statuses [6]atomic.Uint64
	spread   [trafficreport.Buckets]atomic.Uint32
}

// note counts one request.
func (t *tally) note(status int, took time.Duration) {
	c := t.counts.Load()
	if c == nil {
		c = t.begin()
	}
	class := status / 100
	if class < 0 || class >= len(c.statuses) {
		class = 0
	}
	c.statuses[class].Add(1)
	c.spread[trafficreport.BucketOf(took)].Add(1)
}

// begin makes the counts. Of two first requests one does.
func (t *tally) begin() *counts {
	made := new(counts)
	if t.counts.CompareAndSwap(nil, made) {
		return made
	}
	return t.counts.Load()
}

// read gives the counts; false when there were no requests.
func (t *tally) read() (trafficreport.Count, bool) {
	c := t.counts.Load()
	if c == nil {
		return trafficreport.Count{}, false
	}
	var out trafficreport.Count
	for i := range c.statuses {
		out.Statuses[i] = c.statuses[i].Load()
	}
	last := len(c.spread)
	for last > 0 && c.spread[last-1].Load() == 0 {
		last--
	}
	out.Spread = make([]uint32, last)
	for i := range out.Spread {
		out.Spread[i] = c.spread[i].Load()
	}
	return out, true
}

// tallies keeps the counts of rules by their identity, so that a change of the
// table does not begin them anew. Only the rules that are bound keep them alive.
type tallies struct {
	// unrouted has the requests that no rule took.
	unrouted tally

	mu     sync.Mutex
	known  map[route.ID]weak.Pointer[tally]
	tidyAt int // the size of known at which to look for dead ones
}

// of gives the tally of a rule.
func (s *tallies) of(id route.ID) *tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.known[id].Value(); t != nil {
		return t
	}
	if s.known == nil {
		s.known = map[route.ID]weak.Pointer[tally]{}
	}
	if len(s.known) >= s.tidyAt {
		for other, pointer := range s.known {
			if pointer.Value() == nil {
				delete(s.known, other)
			}
		}
		s.tidyAt = 2*len(s.known) + 64
	}
	t := &tally{id: id}
	s.known[id] = weak.Make(t)
	return t
}

// Counts are those of the rules that had requests, in no order, and of the
// requests that no rule took.
func (p *Proxy) Counts() (routed []trafficreport.RouteCount, unrouted trafficreport.Count) {
	for _, t := range p.tallies.alive() {
		if count, any := t.read(); any {
			routed = append(routed, trafficreport.RouteCount{ID: trafficreport.RouteID(t.id), Count: count})
		}
	}
	unrouted, _ = p.tallies.unrouted.read()
	return routed, unrouted
}

func (s *tallies) alive() []*tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*tally, 0, len(s.known))
	for _, pointer := range s.known {
		if t := pointer.Value(); t != nil {
			all = append(all, t)
		}
	}
	return all
}
