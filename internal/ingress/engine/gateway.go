package engine

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// kindOfRule returns the kind of an object in the identities of its rules.
func kindOfRule(ref snapshot.Ref) string { return ref.Object().Kind }

// gatewayState has the Gateways, and what their status depends on.
type gatewayState struct {
	units map[snapshot.Ref]*gatewayUnit
	pool  gateway.Pool
	// attached has the listeners of each Gateway that a route is attached to.
	attached map[snapshot.Ref]map[*routeUnit][]string
	// unopened are the listeners that the edge could not open, with the reason.
	unopened map[route.ListenerID]string
	// stale are the objects whose status has to be derived again.
	stale map[snapshot.Ref]struct{}
}

func newGatewayState(options resolve.GatewayOptions) gatewayState {
	return gatewayState{
		units: map[snapshot.Ref]*gatewayUnit{}, pool: gateway.Pool{Prefixes: options.Addresses},
		attached: map[snapshot.Ref]map[*routeUnit][]string{}, unopened: map[route.ListenerID]string{}, stale: map[snapshot.Ref]struct{}{},
	}
}

// gatewayUnit is the unit of a Gateway, ours or not.
type gatewayUnit struct {
	ref    snapshot.Ref
	reads  []snapshot.Ref
	result *gateway.Gateway
	// live and listeners are the published rules and listeners.
	live      ruleSet
	listeners map[route.ListenerID]*route.Listener
	tls       *backendTLS
}

// markDirty implements unit.
func (u *gatewayUnit) markDirty(r *updateState) { r.gateways[u] = struct{}{} }

// resolveGateways resolves the dirty Gateways. Those with an address come first, and
// then the oldest, so that no Gateway takes the address of another one.
func (e *Engine) resolveGateways() {
	units := slices.SortedFunc(maps.Keys(e.state.gateways), func(a, b *gatewayUnit) int {
		x, y := e.gatewayOf(a), e.gatewayOf(b)
		return cmp.Or(
			cmp.Compare(min(1, len(y.Status.Addresses)), min(1, len(x.Status.Addresses))),
			x.CreationTimestamp.Compare(y.CreationTimestamp.Time), a.ref.Compare(b.ref),
		)
	})
	// Addresses of Gateways that are gone are free for the others of this pass.
	for _, u := range units {
		if !e.snapshot.Exists(u.ref) {
			e.resolveGateway(u)
		}
	}
	for _, u := range units {
		if e.snapshot.Exists(u.ref) {
			e.resolveGateway(u)
		}
	}
}

// gatewayOf returns the object of a unit, an empty one if it does not exist.
func (e *Engine) gatewayOf(u *gatewayUnit) *gatewayv1.Gateway {
	if object, ok := e.snapshot.GatewayObject(u.ref).(*gatewayv1.Gateway); ok {
		return object
	}
	return &gatewayv1.Gateway{}
}

// resolveGateway resolves a Gateway and appends the differences. One that was deleted
// resolves to nothing, which removes what it had.
func (e *Engine) resolveGateway(u *gatewayUnit) {
	view := e.snapshot.View()
	u.result = gateway.Resolve(view, u.ref.Namespace, u.ref.Name, e.gateways.pool.Assign)
	u.reads = e.read(u, u.reads, view)
	if !u.result.Ours {
		e.gateways.pool.Release(u.ref)
	}
	u.live.replace(u.result.Rules, &e.state.change.Rules)
	before := u.listeners
	u.listeners = make(map[route.ListenerID]*route.Listener, len(u.result.Listeners))
	for _, listener := range u.result.Listeners {
		u.listeners[listener.ID] = appendDelta(&e.state.change.Listeners, listener.ID, before[listener.ID], listener)
		delete(before, listener.ID)
	}
	for id := range before {
		e.state.change.Listeners.Removed = append(e.state.change.Listeners.Removed, id)
		delete(e.gateways.unopened, id)
	}
	var certificates *backendTLS
	if len(u.result.Certificates) > 0 {
		certificates = &backendTLS{certificates: u.result.Certificates}
	}
	e.tls.replaceBackend(u.tls, certificates)
	u.tls = certificates
	e.gateways.stale[u.ref] = struct{}{}
	if !e.snapshot.Exists(u.ref) {
		e.forgetAll(u, u.reads)
		delete(e.gateways.units, u.ref)
	}
}

// replaceAttached replaces the listeners that a route is attached to, and marks the
// status of the Gateways whose number of routes changed.
func (e *Engine) replaceAttached(u *routeUnit, next *gateway.Route) {
	var before map[snapshot.Ref][]string
	if u.route != nil {
		before = u.route.Attached
	}
	u.route = next
	for ref := range before {
		if next.Attached[ref] == nil {
			delete(e.gateways.attached[ref], u)
			e.gateways.stale[ref] = struct{}{}
		}
	}
	for ref, names := range next.Attached {
		if slices.Equal(before[ref], names) {
			continue
		}
		if e.gateways.attached[ref] == nil {
			e.gateways.attached[ref] = map[*routeUnit][]string{}
		}
		e.gateways.attached[ref][u] = names
		e.gateways.stale[ref] = struct{}{}
	}
}

// NoteListeners records the problems that the edge found with the listeners of a
// change.
func (e *Engine) NoteListeners(change *route.Change, problems []route.Problem) {
	mark := func(id route.ListenerID) {
		e.gateways.stale[snapshot.Ref{Kind: snapshot.Gateway, Namespace: id.Namespace, Name: id.Name}] = struct{}{}
	}
	for _, listener := range slices.Concat(change.Listeners.Added, change.Listeners.Changed) {
		delete(e.gateways.unopened, listener.ID)
		mark(listener.ID)
	}
	for _, problem := range problems {
		if id, ok := problem.Subject.(route.ListenerID); ok {
			e.gateways.unopened[id] = problem.Message
			mark(id)
		}
	}
}

// MarkStale makes ChangedGatewayStatuses return an object of Gateway API again: it has
// a new version, and possibly another status.
func (e *Engine) MarkStale(ref snapshot.Ref) { e.gateways.stale[ref] = struct{}{} }

// GatewayStatus is the status of an object of Gateway API. Exactly one of the
// pointers is set, unless the object is not ours: then it has no status of ours.
type GatewayStatus struct {
	Class   *gatewayv1.GatewayClassStatus
	Gateway *gatewayv1.GatewayStatus
	// Parents are those of a route that are ours.
	Parents []gatewayv1.RouteParentStatus
}

// ChangedGatewayStatuses returns the objects of Gateway API whose status may have
// changed since the last call, with the new status. Call it after NoteListeners,
// NoteRules and ChangedConditions.
func (e *Engine) ChangedGatewayStatuses() iter.Seq2[snapshot.Ref, GatewayStatus] {
	stale := slices.SortedFunc(maps.Keys(e.gateways.stale), snapshot.Ref.Compare)
	clear(e.gateways.stale)
	return func(yield func(snapshot.Ref, GatewayStatus) bool) {
		for _, ref := range stale {
			if e.snapshot.Exists(ref) && !yield(ref, e.gatewayStatus(ref)) {
				return
			}
		}
	}
}

// gatewayStatus derives the status of an object.
func (e *Engine) gatewayStatus(ref snapshot.Ref) GatewayStatus {
	switch u := e.gateways.units[ref]; {
	case ref.Kind == snapshot.GatewayClass:
		if status, ours := gateway.Class(e.snapshot.View(), ref.Name); ours {
			return GatewayStatus{Class: &status}
		}
	case u != nil && u.result.Ours:
		status := u.result.Status(e.factsOf(u))
		return GatewayStatus{Gateway: &status}
	case e.routes[ref] != nil && e.routes[ref].route != nil:
		return GatewayStatus{Parents: e.parentsOf(e.routes[ref])}
	}
	return GatewayStatus{}
}

// factsOf returns what the status of a Gateway has and the Gateway does not decide.
func (e *Engine) factsOf(u *gatewayUnit) gateway.Facts {
	facts := gateway.Facts{Attached: map[string]int32{}, Unopened: map[uint16]string{}}
	for _, names := range e.gateways.attached[u.ref] {
		for _, name := range names {
			facts.Attached[name]++
		}
	}
	for id := range u.listeners {
		if reason, closed := e.gateways.unopened[id]; closed {
			facts.Unopened[id.Port] = reason
		}
	}
	return facts
}

// parentsOf returns the status of a route. A route with a host of another namespace,
// or with a rule that the edge could not compile, is not accepted.
func (e *Engine) parentsOf(u *routeUnit) []gatewayv1.RouteParentStatus {
	refused := e.refusals.of(u.ref.Object())
	if len(refused) == 0 {
		return u.route.Parents
	}
	parents := slices.Clone(u.route.Parents)
	for i := range parents {
		parents[i].Conditions = slices.Clone(parents[i].Conditions)
		for j := range parents[i].Conditions {
			c := &parents[i].Conditions[j]
			if c.Type == string(gatewayv1.RouteConditionAccepted) && c.Status == metav1.ConditionTrue {
				c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(refused[0].Reason), refused[0].Text()
			}
		}
	}
	return parents
}
