package engine

import (
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Nothing in a datagram chooses a route, so that an entry point for datagrams has one. The
// edge takes the first by its order; the objects with the others must not look served.

// datagramSource is the source of the refusals of an IngressRouteUDP about entry points
// that an older one has.
type datagramSource struct{ unit *routeUnit }

// isDatagramRoute reports whether a kind is an IngressRouteUDP, of either group.
func isDatagramRoute(kind snapshot.Kind) bool {
	current, old := snapshot.CurrentTraefikKind(kind)
	return kind == snapshot.IngressRouteUDP || old && current == snapshot.IngressRouteUDP
}

// replaceDatagrams records the published routes of an IngressRouteUDP.
func (e *Engine) replaceDatagrams(u *routeUnit) {
	if !isDatagramRoute(u.ref.Kind) {
		return
	}
	e.state.datagrams = true
	if len(u.liveTCP) > 0 {
		e.datagrams[u] = struct{}{}
		return
	}
	delete(e.datagrams, u)
	e.refusals.set(datagramSource{u}, nil)
}

// recomputeDatagrams refuses the IngressRouteUDPs whose entry points older ones have, if
// one of them changed. There are few.
func (e *Engine) recomputeDatagrams() {
	if !e.state.datagrams {
		return
	}
	var all []*route.TCPRoute
	owners := map[*route.TCPRoute]*routeUnit{}
	for u := range e.datagrams {
		for _, one := range u.liveTCP {
			all = append(all, one)
			owners[one] = u
		}
	}
	slices.SortFunc(all, (*route.TCPRoute).Compare)
	first := map[string]*route.TCPRoute{}
	refused := map[*routeUnit][]refusal.Refusal{}
	for _, one := range all {
		for _, name := range one.EntryPoints {
			winner := first[name]
			if winner == nil {
				first[name] = one
				continue
			}
			u := owners[one]
			refused[u] = append(refused[u], refusal.New("spec.entryPoints", refusal.Conflict,
				"the entry point %s passes datagrams to %s %s/%s, which is older: use another entry point, or remove one of the two",
				name, winner.ID.Kind, winner.ID.Namespace, winner.ID.Name).Of(u.ref.Object()))
		}
	}
	for u := range e.datagrams {
		e.refusals.set(datagramSource{u}, refused[u])
	}
}
