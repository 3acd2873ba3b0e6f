package engine

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// An HTTPRoute and a GRPCRoute that have a host name of a listener in common conflict:
// their rules must not be merged, and the older route is accepted. This is decided for
// all routes of a Gateway at once, because a route that is not accepted conflicts with
// no younger one.
//
// A route without a host name, or with a wildcard, does not serve the host of another
// namespace, and so has none in common with its routes. Otherwise a tenant could keep all
// new routes of others out of a Gateway, by one route of the other kind.

// reasonConflicted is the reason of a route that is not accepted beside an older one of
// the other kind. Gateway API requires the condition and names no reason.
const reasonConflicted gatewayv1.RouteConditionReason = "Conflicted"

// conflicts are the older routes of the other kind that a route conflicts with, by
// Gateway.
type conflicts map[snapshot.Ref]snapshot.Ref

// at reports whether the rules of the route for a listener are not served.
func (c conflicts) at(listener route.ListenerID) bool {
	if len(c) == 0 {
		return false
	}
	_, conflicts := c[gatewayOfListener(listener)]
	return conflicts
}

// gatewayOfListener returns the Gateway of a listener of the table.
func gatewayOfListener(id route.ListenerID) snapshot.Ref {
	return snapshot.Ref{Kind: snapshot.Gateway, Namespace: id.Namespace, Name: id.Name}
}

// recomputeConflicts decides between the routes of the Gateways whose routes changed. A
// Gateway with routes of one kind, as most are, costs nothing. At others a change looks at
// the routes with a host in common, and only a change that concerns many at all of them.
func (e *Engine) recomputeConflicts() {
	for ref, changed := range e.state.reattached {
		units, grpc := e.gateways.attached[ref], e.gateways.grpcRoutes[ref]
		if grpc == 0 || grpc == len(units) {
			delete(e.gateways.rivals, ref)
			e.clearConflicts(ref)
			continue
		}
		index := e.gateways.rivals[ref]
		if index == nil {
			e.gateways.rivals[ref] = e.newRivalIndex(ref)
			e.decideConflicts(ref)
			continue
		}
		pass := conflictPass{engine: e, at: ref, index: index, moved: map[*routeUnit]struct{}{}, visits: e.gateways.conflictVisits}
		if !pass.update(changed) {
			e.decideConflicts(ref)
		}
	}
}

// clearConflicts ends all conflicts at a Gateway.
func (e *Engine) clearConflicts(at snapshot.Ref) {
	if e.gateways.conflicted[at] == 0 {
		return
	}
	for u := range e.gateways.attached[at] {
		e.setConflict(u, at, snapshot.Ref{})
	}
}

// decideConflicts decides between all routes of a Gateway.
func (e *Engine) decideConflicts(at snapshot.Ref) {
	rivals, winners := e.rivalsAt(at), map[*routeUnit]snapshot.Ref{}
	taken := map[snapshot.Kind]hostIndex{snapshot.HTTPRoute: {}, snapshot.GRPCRoute: {}}
	for place, u := range rivals {
		if winner := e.takeHosts(taken, at, place, rivals); winner != nil {
			winners[u] = winner.ref
		}
	}
	for u := range e.gateways.attached[at] {
		e.setConflict(u, at, winners[u])
	}
}

// rivalsAt returns the routes of a Gateway that can conflict, the oldest first: those of
// the kind that it has fewer of, and the ones of the other kind with a host in common.
// Of thousands of routes these are mostly few.
func (e *Engine) rivalsAt(at snapshot.Ref) []*routeUnit {
	units, few := e.gateways.attached[at], snapshot.GRPCRoute
	if 2*e.gateways.grpcRoutes[at] > len(units) {
		few = snapshot.HTTPRoute
	}
	index, rivals := hostIndex{}, []*routeUnit(nil)
	for u := range units {
		if u.ref.Kind != few {
			continue
		}
		rivals = append(rivals, u)
		for host := range e.hostsAt(u, at) {
			index.add(host, 0)
		}
	}
	for u := range units {
		if u.ref.Kind == few {
			continue
		}
		for host := range e.hostsAt(u, at) {
			if _, shared := index.first(host); shared {
				rivals = append(rivals, u)
				break
			}
		}
	}
	slices.SortFunc(rivals, compareRivals)
	return rivals
}

// takeHosts adds the hosts of the route at a place among the rivals to those that are
// taken, or returns the route of the other kind that it conflicts with.
func (e *Engine) takeHosts(taken map[snapshot.Kind]hostIndex, of snapshot.Ref, place int, rivals []*routeUnit) *routeUnit {
	u := rivals[place]
	type conflict struct {
		listener route.ListenerID
		winner   int
	}
	var found []conflict
	for host := range e.hostsAt(u, of) {
		if winner, shared := taken[otherKind(u.ref.Kind)].first(host); shared {
			found = append(found, conflict{host.listener, winner})
		}
	}
	if len(found) > 0 {
		first := slices.MinFunc(found, func(a, b conflict) int {
			return cmp.Or(a.listener.Compare(b.listener), cmp.Compare(a.winner, b.winner))
		})
		return rivals[first.winner]
	}
	for host := range e.hostsAt(u, of) {
		taken[u.ref.Kind].add(host, place)
	}
	return nil
}

// hostsAt returns the hosts of the rules of a route for requests, with their listeners,
// at a Gateway. A rule for a host of another namespace is not served, so it takes no
// host from a route of the owner.
func (e *Engine) hostsAt(u *routeUnit, gateway snapshot.Ref) iter.Seq[hostAt] {
	return func(yield func(hostAt) bool) {
		if snapshot.IsStreamRoute(u.ref.Kind) {
			return
		}
		namespace := u.ref.Namespace
		if e.sharesHosts() {
			namespace = ""
		}
		var last *route.Rule
		for _, rule := range u.outcome.Rules {
			if last != nil && rule.Listener == last.Listener && rule.Host == last.Host {
				continue // rules of one host follow each other
			}
			if gatewayOfListener(rule.Listener) != gateway || !e.admitsRule(u, rule) {
				continue
			}
			if last = rule; !yield(hostAt{rule.Listener, rule.Host, namespace}) {
				return
			}
		}
	}
}

// admitsRule reports whether a rule is served, as far as the owner of its host decides.
func (e *Engine) admitsRule(u *routeUnit, rule *route.Rule) bool {
	claims := e.hosts[rule.Host]
	return e.sharesHosts() || rule.Host == "" || claims == nil || claims.admits(u, rule)
}

// sharesHosts reports whether namespaces serve hosts of each other.
func (e *Engine) sharesHosts() bool {
	return e.options.HostSharing == resolve.HostSharingOpen || e.options.HostSharing == resolve.HostSharingBehind
}

// otherKind returns the kind of routes that those of a kind conflict with.
func otherKind(kind snapshot.Kind) snapshot.Kind {
	if kind == snapshot.GRPCRoute {
		return snapshot.HTTPRoute
	}
	return snapshot.GRPCRoute
}

// setConflict sets the route that a route conflicts with at a Gateway; zero for none.
func (e *Engine) setConflict(u *routeUnit, at, winner snapshot.Ref) {
	if u.conflicts[at] == winner {
		return
	}
	names := e.gateways.attached[at][u]
	if u.refused {
		names = nil // it does not count with and without a conflict
	}
	if _, before := u.conflicts[at]; before {
		e.gateways.conflicted[at]--
		delete(u.conflicts, at)
		e.countAttached(at, names, 1)
	}
	if winner != (snapshot.Ref{}) {
		if u.conflicts == nil {
			u.conflicts = conflicts{}
		}
		u.conflicts[at] = winner
		e.gateways.conflicted[at]++
		e.countAttached(at, names, -1)
	}
	e.state.dirtyRules[u] = struct{}{}
	e.gateways.stale[u.ref] = struct{}{}
	e.markCounts(at, names)
}

// refuseParents changes the status of the parents at which the route conflicts.
func (e *Engine) refuseParents(u *routeUnit, parents []gatewayv1.RouteParentStatus) []gatewayv1.RouteParentStatus {
	c := u.conflicts
	if len(c) == 0 {
		return parents
	}
	parents = slices.Clone(parents)
	for i := range parents {
		winner, conflicts := c[gatewayOfParent(e.snapshot, u, &parents[i].ParentRef)]
		if !conflicts {
			continue
		}
		kind, _, _ := strings.Cut(string(winner.Kind), ".")
		refuseParent(&parents[i], reasonConflicted, fmt.Sprintf(
			"the older %s %s/%s has a host name of the listener in common with this route: use other host names, or another listener", kind, winner.Namespace, winner.Name))
	}
	return parents
}

// gatewayOfParent returns the Gateway that a parent of a route is, or belongs to.
func gatewayOfParent(facts *snapshot.Snapshot, u *routeUnit, parent *gatewayv1.ParentReference) snapshot.Ref {
	at := snapshot.Ref{Kind: snapshot.Gateway, Namespace: u.ref.Namespace, Name: string(parent.Name)}
	if parent.Namespace != nil {
		at.Namespace = string(*parent.Namespace)
	}
	if parent.Kind == nil || *parent.Kind == "Gateway" {
		return at
	}
	at.Kind = snapshot.ListenerSet
	set, _ := facts.GatewayObject(at).(*gatewayv1.ListenerSet)
	if set == nil {
		return snapshot.Ref{}
	}
	return snapshot.ParentOf(set)
}

// refuseParent makes an accepted parent one that is not. The conditions are copied.
func refuseParent(parent *gatewayv1.RouteParentStatus, reason gatewayv1.RouteConditionReason, message string) {
	parent.Conditions = slices.Clone(parent.Conditions)
	for i := range parent.Conditions {
		c := &parent.Conditions[i]
		if c.Type == string(gatewayv1.RouteConditionAccepted) && c.Status == metav1.ConditionTrue {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(reason), message
		}
	}
}
