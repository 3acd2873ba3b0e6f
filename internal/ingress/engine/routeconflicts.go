package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// An HTTPRoute and a GRPCRoute that have a host name of a listener in common conflict:
// their rules must not be merged, and the older route is accepted. This is decided for
// all routes of a Gateway at once, because a route that is not accepted conflicts with
// no younger one.

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
// Gateway with routes of one kind, as most are, costs nothing.
func (e *Engine) recomputeConflicts() {
	for ref := range e.state.reattached {
		mixed := e.gateways.grpcRoutes[ref] > 0
		if !mixed && e.gateways.conflicted[ref] == 0 {
			continue
		}
		units := slices.SortedFunc(maps.Keys(e.gateways.attached[ref]), func(a, b *routeUnit) int {
			return cmp.Or(compareAge(a, b), a.ref.Compare(b.ref))
		})
		taken := map[route.ListenerID][]takenHost{}
		for _, u := range units {
			var winner snapshot.Ref
			if mixed && !snapshot.IsStreamRoute(u.ref.Kind) {
				winner = takeHosts(taken, u, ref)
			}
			e.setConflict(u, ref, winner)
		}
	}
}

// takenHost is a host name of a listener that an accepted route has.
type takenHost struct {
	host string
	by   snapshot.Ref
}

// takeHosts adds the hosts of a route to those that are taken, or returns the route of
// the other kind that it conflicts with.
func takeHosts(taken map[route.ListenerID][]takenHost, u *routeUnit, of snapshot.Ref) snapshot.Ref {
	places := map[route.ListenerID]map[string]struct{}{}
	for _, rule := range u.outcome.Rules {
		if gatewayOfListener(rule.Listener) != of {
			continue
		}
		if places[rule.Listener] == nil {
			places[rule.Listener] = map[string]struct{}{}
		}
		places[rule.Listener][rule.Host] = struct{}{}
	}
	for _, id := range slices.SortedFunc(maps.Keys(places), route.ListenerID.Compare) {
		for _, other := range taken[id] {
			for host := range places[id] {
				if _, shared := gateway.Intersect(host, other.host); shared && other.by.Kind != u.ref.Kind {
					return other.by
				}
			}
		}
	}
	for id, hosts := range places {
		for host := range hosts {
			taken[id] = append(taken[id], takenHost{host, u.ref})
		}
	}
	return snapshot.Ref{}
}

// setConflict sets the route that a route conflicts with at a Gateway; zero for none.
func (e *Engine) setConflict(u *routeUnit, at, winner snapshot.Ref) {
	if u.conflicts[at] == winner {
		return
	}
	if _, before := u.conflicts[at]; before {
		e.gateways.conflicted[at]--
		delete(u.conflicts, at)
	}
	if winner != (snapshot.Ref{}) {
		if u.conflicts == nil {
			u.conflicts = conflicts{}
		}
		u.conflicts[at] = winner
		e.gateways.conflicted[at]++
	}
	e.state.dirtyRules[u] = struct{}{}
	e.gateways.stale[u.ref], e.gateways.stale[at] = struct{}{}, struct{}{}
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
