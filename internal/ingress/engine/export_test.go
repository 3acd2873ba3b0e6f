package engine

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Wants returns the Secrets and objects of custom kinds that units have read.
func (e *Engine) Wants() iter.Seq[snapshot.Ref] {
	return func(yield func(snapshot.Ref) bool) {
		for ref := range e.readers.all() {
			if wanted(ref) && !yield(ref) {
				return
			}
		}
	}
}

// LimitConflictVisits sets how many rivals a change looks at before all are decided.
func (e *Engine) LimitConflictVisits(most int) { e.gateways.conflictVisits = most }

// Conflicts returns the routes of a Gateway that are kept out, with the ones that do.
func (e *Engine) Conflicts(at snapshot.Ref) map[snapshot.Ref]snapshot.Ref {
	all := map[snapshot.Ref]snapshot.Ref{}
	for u := range e.gateways.attached[at] {
		if winner, conflicts := u.conflicts[at]; conflicts {
			all[u.ref] = winner
		}
	}
	return all
}

// PlainConflicts returns what Conflicts should, by comparing each route with each older one.
func (e *Engine) PlainConflicts(at snapshot.Ref) map[snapshot.Ref]snapshot.Ref {
	all := map[snapshot.Ref]snapshot.Ref{}
	units := slices.SortedFunc(maps.Keys(e.gateways.attached[at]), compareRivals)
	for i, u := range units {
		var winner *routeUnit
		var listener route.ListenerID
		for _, older := range units[:i] {
			if _, out := all[older.ref]; out || older.ref.Kind != otherKind(u.ref.Kind) {
				continue
			}
			for host := range e.hostsAt(u, at) {
				for other := range e.hostsAt(older, at) {
					_, common := gateway.Intersect(host.host, other.host)
					common = common && (host.namespace == other.namespace || host.host == other.host)
					if common && host.listener == other.listener && (winner == nil || cmp.Or(host.listener.Compare(listener), compareRivals(older, winner)) < 0) {
						winner, listener = older, host.listener
					}
				}
			}
		}
		if winner != nil {
			all[u.ref] = winner.ref
		}
	}
	return all
}
