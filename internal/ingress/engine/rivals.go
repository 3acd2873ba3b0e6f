package engine

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// rivalIndex has the hosts of the HTTPRoutes and GRPCRoutes of one Gateway, so that a
// change finds the routes of the other kind that can conflict. Most Gateways have routes of
// one kind and no index.
type rivalIndex struct {
	http, grpc map[hostKey]*unitSet
	// known has the hosts that each route is stored with.
	known map[*routeUnit]rival
}

// rival is what conflicts of a route depend on.
type rival struct {
	hosts []hostAt
	born  time.Time
}

// rivalOf returns the hosts of a route at a Gateway, none if it is not attached to it.
func (e *Engine) rivalOf(u *routeUnit, at snapshot.Ref) rival {
	if _, attached := e.gateways.attached[at][u]; !attached {
		return rival{}
	}
	return rival{slices.Collect(e.hostsAt(u, at)), u.born}
}

// newRivalIndex returns an index of all routes of a Gateway.
func (e *Engine) newRivalIndex(at snapshot.Ref) *rivalIndex {
	index := &rivalIndex{http: map[hostKey]*unitSet{}, grpc: map[hostKey]*unitSet{}, known: map[*routeUnit]rival{}}
	for u := range e.gateways.attached[at] {
		index.replace(u, e.rivalOf(u, at))
	}
	return index
}

// ofKind returns the routes of a kind by the keys of their hosts.
func (x *rivalIndex) ofKind(kind snapshot.Kind) map[hostKey]*unitSet {
	if kind == snapshot.GRPCRoute {
		return x.grpc
	}
	return x.http
}

// replace stores a route with other hosts. One without hosts conflicts with none and is
// dropped.
func (x *rivalIndex) replace(u *routeUnit, next rival) {
	units := x.ofKind(u.ref.Kind)
	for _, host := range x.known[u].hosts {
		for key := range host.keys() {
			// Two hosts of a route can have a key in common.
			if set := units[key]; set != nil {
				if set.remove(u); set.count() == 0 {
					delete(units, key)
				}
			}
		}
	}
	delete(x.known, u)
	if len(next.hosts) == 0 {
		return
	}
	x.known[u] = next
	for _, host := range next.hosts {
		for key := range host.keys() {
			if units[key] == nil {
				units[key] = &unitSet{}
			}
			units[key].add(u)
		}
	}
}

// rivals yields the routes of the other kind with a host name in common, some of them more
// than once.
func (x *rivalIndex) rivals(kind snapshot.Kind, host hostAt) iter.Seq[*routeUnit] {
	units := x.ofKind(otherKind(kind))
	return func(yield func(*routeUnit) bool) {
		for key := range host.matches() {
			set := units[key]
			if set == nil {
				continue
			}
			for u := range set.all() {
				if !yield(u) {
					return
				}
			}
		}
	}
}

// compareRivals orders routes by age. No two are equal, so that all replicas agree.
func compareRivals(a, b *routeUnit) int { return cmp.Or(compareAge(a, b), a.ref.Compare(b.ref)) }

// maxConflictVisits is how many rivals a conflictPass looks at. It follows from how many
// routes share hosts, which a tenant decides, and the queue is for few: beyond it is
// cheaper to decide between all routes of the Gateway.
const maxConflictVisits = 1024

// conflictPass decides the conflicts of a Gateway again that a change concerns. Routes are
// decided by age: whether a route is accepted depends on older ones alone. So each is
// decided once, after all that it depends on.
type conflictPass struct {
	engine *Engine
	at     snapshot.Ref
	index  *rivalIndex
	// queue has the routes to decide, the oldest first.
	queue []*routeUnit
	// moved are the routes with other hosts or another age.
	moved map[*routeUnit]struct{}
	// visits is how many rivals may still be looked at.
	visits int
}

// update decides the conflicts that changed routes concern. It reports false if these are
// too many, and has decided some of them then.
func (p *conflictPass) update(changed []*routeUnit) bool {
	for _, u := range changed {
		before, next := p.index.known[u], p.engine.rivalOf(u, p.at)
		if slices.Equal(before.hosts, next.hosts) && (len(next.hosts) == 0 || before.born.Equal(next.born)) {
			continue // most changes are about backends
		}
		// Routes that it kept out may be accepted now.
		if p.accepted(u) {
			p.enqueueRivals(u, before.hosts, func(*routeUnit) bool { return true })
		}
		// The index has to follow also when there are too many visits.
		p.index.replace(u, next)
		p.moved[u] = struct{}{}
		p.enqueue(u)
	}
	for len(p.queue) > 0 && p.visits >= 0 {
		u := p.queue[0]
		p.queue = p.queue[1:]
		p.decide(u)
	}
	return p.visits >= 0
}

// decide decides whether a route is accepted, and queues the younger ones that this
// concerns. It does nothing if that takes too many visits.
func (p *conflictPass) decide(u *routeUnit) {
	before, hosts := p.accepted(u), p.index.known[u].hosts
	winner := p.winnerOver(u, hosts)
	if p.visits < 0 {
		return
	}
	ref := snapshot.Ref{}
	if winner != nil {
		ref = winner.ref
	}
	p.engine.setConflict(u, p.at, ref)
	// Younger routes depend on whether this one is accepted, and then on its hosts.
	_, moved := p.moved[u]
	if after := winner == nil; before != after || moved && after {
		p.enqueueRivals(u, hosts, func(rival *routeUnit) bool { return compareRivals(u, rival) < 0 })
	}
}

// winnerOver returns the accepted route that keeps a route with these hosts out, nil if it
// is accepted: the oldest one at the first listener.
func (p *conflictPass) winnerOver(u *routeUnit, hosts []hostAt) *routeUnit {
	var winner *routeUnit
	var listener route.ListenerID
	for _, host := range hosts {
		for rival := range p.index.rivals(u.ref.Kind, host) {
			if p.visits--; p.visits < 0 {
				return nil
			}
			if !p.accepted(rival) || compareRivals(rival, u) > 0 {
				continue
			}
			if winner == nil || cmp.Or(host.listener.Compare(listener), compareRivals(rival, winner)) < 0 {
				winner, listener = rival, host.listener
			}
		}
	}
	return winner
}

// enqueueRivals queues the rivals of a route with these hosts that a predicate accepts.
func (p *conflictPass) enqueueRivals(u *routeUnit, hosts []hostAt, of func(*routeUnit) bool) {
	for _, host := range hosts {
		for rival := range p.index.rivals(u.ref.Kind, host) {
			if p.visits--; p.visits < 0 {
				return
			}
			if of(rival) {
				p.enqueue(rival)
			}
		}
	}
}

// enqueue queues a route, once.
func (p *conflictPass) enqueue(u *routeUnit) {
	if at, queued := slices.BinarySearchFunc(p.queue, u, compareRivals); !queued {
		p.queue = slices.Insert(p.queue, at, u)
	}
}

// accepted reports whether no older route keeps a route out of the Gateway.
func (p *conflictPass) accepted(u *routeUnit) bool {
	_, conflicts := u.conflicts[p.at]
	return !conflicts
}
