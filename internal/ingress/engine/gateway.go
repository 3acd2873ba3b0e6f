package engine

import (
	"cmp"
	"iter"
	"maps"
	"reflect"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// kindOfRule returns the kind of an object in the identities of its rules.
func kindOfRule(ref snapshot.Ref) string { return snapshot.RuleKind(ref.Kind) }

// gatewayState has the Gateways, and what their status depends on.
type gatewayState struct {
	units map[snapshot.Ref]*gatewayUnit
	// pool assigns addresses, or targets ports of the edge's Pods.
	pool    *gateway.Pool
	targets gateway.Targets
	// starved are the Gateways that got none, and freed is set when others gave some up.
	starved map[*gatewayUnit]struct{}
	freed   bool
	// attached has the listeners of each Gateway that a route is attached to.
	attached map[snapshot.Ref]map[*routeUnit][]string
	// counts are the numbers of accepted routes of the listeners of each Gateway.
	counts map[snapshot.Ref]map[string]int32
	// grpcRoutes counts the GRPCRoutes of each Gateway among them.
	grpcRoutes map[snapshot.Ref]int
	// conflicted counts the routes of each Gateway that an older one of the other kind
	// keeps out.
	conflicted map[snapshot.Ref]int
	// rivals has the hosts of the routes of Gateways with HTTPRoutes and GRPCRoutes.
	rivals map[snapshot.Ref]*rivalIndex
	// conflictVisits is maxConflictVisits, and less in tests.
	conflictVisits int
	// requesters are the Gateways with listeners that request certificates, by host.
	requesters map[string]map[*gatewayUnit]struct{}
	// unopened are the listeners that the edge could not open, with the reason.
	unopened map[route.ListenerID]string
	// stale are the objects whose status has to be derived again.
	stale map[snapshot.Ref]struct{}
	// shared are the routes whose status and listeners others have, too.
	shared map[sharedRoute]*gateway.Route
}

// sharedRoute is what routes have in common that can share status and listeners.
type sharedRoute struct {
	gateway    snapshot.Ref
	generation int64
}

// maxShared bounds the routes in gatewayState.shared.
const maxShared = 256

// share lets a route have the status and the listeners of an equal one. Most routes of a
// Gateway have the same, and there are thousands of them.
func (g *gatewayState) share(next *gateway.Route) {
	if len(next.Attached) != 1 || len(next.Parents) != 1 || len(next.Parents[0].Conditions) == 0 {
		return
	}
	key := sharedRoute{next.Attached[0].Gateway, next.Parents[0].Conditions[0].ObservedGeneration}
	if same := g.shared[key]; same != nil && reflect.DeepEqual(same.Parents, next.Parents) && reflect.DeepEqual(same.Attached, next.Attached) {
		next.Parents, next.Attached = same.Parents, same.Attached
		return
	}
	if len(g.shared) >= maxShared {
		clear(g.shared)
	}
	g.shared[key] = &gateway.Route{Parents: next.Parents, Attached: next.Attached}
}

func newGatewayState(options resolve.GatewayOptions, exists func(snapshot.Ref) bool) gatewayState {
	return gatewayState{
		units: map[snapshot.Ref]*gatewayUnit{}, pool: gateway.NewPool(options, exists),
		targets: gateway.Targets{Options: options}, starved: map[*gatewayUnit]struct{}{},
		attached: map[snapshot.Ref]map[*routeUnit][]string{}, counts: map[snapshot.Ref]map[string]int32{}, grpcRoutes: map[snapshot.Ref]int{}, conflicted: map[snapshot.Ref]int{}, rivals: map[snapshot.Ref]*rivalIndex{}, conflictVisits: maxConflictVisits,
		requesters: map[string]map[*gatewayUnit]struct{}{}, unopened: map[route.ListenerID]string{}, stale: map[snapshot.Ref]struct{}{},
		shared: map[sharedRoute]*gateway.Route{},
	}
}

// gatewayUnit is the unit of a Gateway, ours or not.
type gatewayUnit struct {
	ref    snapshot.Ref
	reads  []*readObject
	result *gateway.Gateway
	// live, liveTCP and listeners are the published rules, TCP routes and listeners.
	live      ruleSet
	liveTCP   tcpSet
	listeners map[route.ListenerID]*route.Listener
	tls       *backendTLS
	// granted are the certificate requests of its listeners that count, and ungranted
	// is why others do not, by the name of the listener.
	granted   []grantedRequest
	ungranted map[string]string
	// held is the number of addresses or target ports that it has.
	held int
}

// markDirty implements unit.
func (u *gatewayUnit) markDirty(r *updateState) { r.gateways[u] = struct{}{} }

// resolveGateways resolves the dirty Gateways, and those that wait for an address when
// one became free.
func (e *Engine) resolveGateways() {
	resolved := map[*gatewayUnit]struct{}{}
	// One that loses a target to another, or waited for one, is marked while this runs.
	for len(e.state.gateways) > 0 {
		maps.Copy(resolved, e.state.gateways)
		e.resolveMarkedGateways()
		e.markStarved()
	}
	e.state.gateways = resolved // for the steps that follow
}

// resolveMarkedGateways resolves the Gateways that are dirty now. Those with an address
// come first, and then the oldest, so that no Gateway takes the address of another one.
func (e *Engine) resolveMarkedGateways() {
	units := slices.SortedFunc(maps.Keys(e.state.gateways), func(a, b *gatewayUnit) int {
		x, y := e.gatewayOf(a), e.gatewayOf(b)
		return cmp.Or(
			cmp.Compare(min(1, len(y.Status.Addresses)), min(1, len(x.Status.Addresses))),
			x.CreationTimestamp.Compare(y.CreationTimestamp.Time), a.ref.Compare(b.ref),
		)
	})
	clear(e.state.gateways)
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
	var requested []gateway.CertificateRequest
	if u.result != nil {
		requested = u.result.Requests
	}
	u.result = gateway.Resolve(view, u.ref.Namespace, u.ref.Name, e.options.Resolvers, e.assigner(view))
	u.reads = e.read(u, u.reads, view)
	e.replaceListenerRequests(u, requested, u.result.Requests)
	e.noteAssigned(u)
	u.live.replace(u.result.Rules, &e.state.change.Rules)
	u.liveTCP.replace(u.result.TCPRoutes, &e.state.change.TCPRoutes)
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
	if len(u.result.Certificates)+len(u.result.Authorities) > 0 {
		certificates = &backendTLS{u.result.Authorities, u.result.Certificates}
	}
	e.tls.replaceBackend(u.tls, certificates)
	u.tls = certificates
	e.markGateway(u.ref)
	if !e.snapshot.Exists(u.ref) {
		e.forgetAll(u, u.reads)
		delete(e.gateways.units, u.ref)
	}
}

// replaceAttached replaces the listeners that a route is attached to, and marks the
// status of the Gateways whose number of routes changed.
func (e *Engine) replaceAttached(u *routeUnit, next *gateway.Route) {
	var before gateway.Attachments
	if u.route != nil {
		before = u.route.Attached
	}
	e.gateways.share(next)
	u.route = next
	for _, of := range before {
		ref := of.Gateway
		e.markReattached(ref, u)
		if next.Attached.At(ref) == nil {
			e.setAttached(u, ref, nil)
			e.countGRPC(u, ref, -1)
			e.setConflict(u, ref, snapshot.Ref{})
		}
	}
	for _, of := range next.Attached {
		ref, names := of.Gateway, of.Listeners
		e.markReattached(ref, u)
		if before.At(ref) == nil {
			e.countGRPC(u, ref, 1)
		}
		if !slices.Equal(before.At(ref), names) {
			e.setAttached(u, ref, names)
		}
	}
}

// markReattached marks a route of a Gateway that came, went or changed. Routes of
// connections have no conflicts.
func (e *Engine) markReattached(at snapshot.Ref, u *routeUnit) {
	units := e.state.reattached[at]
	if !snapshot.IsStreamRoute(u.ref.Kind) {
		units = append(units, u)
	}
	e.state.reattached[at] = units
}

// setAttached sets the listeners of a Gateway that a route is attached to; nil for none.
func (e *Engine) setAttached(u *routeUnit, at snapshot.Ref, names []string) {
	units := e.gateways.attached[at]
	if units == nil {
		units = map[*routeUnit][]string{}
		e.gateways.attached[at] = units
	}
	if u.counts(at) {
		e.countAttached(at, units[u], -1)
		e.countAttached(at, names, 1)
	}
	e.markCounts(at, units[u])
	e.markCounts(at, names)
	if units[u] = names; names == nil {
		delete(units, u)
	}
	if len(units) == 0 {
		delete(e.gateways.attached, at)
		delete(e.gateways.counts, at)
	}
}

// countAttached counts a route that came to listeners of a Gateway, or left them. The
// status of a Gateway has the counts, and thousands of routes can have one Gateway.
func (e *Engine) countAttached(at snapshot.Ref, names []string, change int32) {
	for _, name := range names {
		if e.gateways.counts[at] == nil {
			e.gateways.counts[at] = map[string]int32{}
		}
		e.gateways.counts[at][name] += change
	}
}

// countGRPC counts a route that came to a Gateway or left it, if it is a GRPCRoute.
func (e *Engine) countGRPC(u *routeUnit, at snapshot.Ref, change int) {
	if u.ref.Kind == snapshot.GRPCRoute {
		e.gateways.grpcRoutes[at] += change
	}
}

// NoteListeners records the problems that the edge found with the listeners of a
// change.
func (e *Engine) NoteListeners(change *route.Change, problems []route.Problem) {
	mark := func(id route.ListenerID) {
		e.markGateway(snapshot.Ref{Kind: snapshot.Gateway, Namespace: id.Namespace, Name: id.Name})
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
	// Service is the one that the Gateway should have, beside its status; nil for none.
	Service *gateway.Service
	Set     *gatewayv1.ListenerSetStatus
	// Parents are those of a route that are ours.
	Parents []gatewayv1.RouteParentStatus
	// Ancestors are those of a BackendTLSPolicy that are ours.
	Ancestors []gatewayv1.PolicyAncestorStatus
}

// ChangedGatewayStatuses returns the objects of Gateway API whose status may have
// changed since the last call, with the new status. Call it after NoteListeners,
// NoteRules and ChangedConditions.
func (e *Engine) ChangedGatewayStatuses() iter.Seq2[snapshot.Ref, GatewayStatus] {
	stale := slices.SortedFunc(maps.Keys(e.gateways.stale), snapshot.Ref.Compare)
	// A new map: after the first update the old one is as large as the cluster.
	e.gateways.stale = map[snapshot.Ref]struct{}{}
	return func(yield func(snapshot.Ref, GatewayStatus) bool) {
		for _, ref := range stale {
			if e.snapshot.Exists(ref) && !yield(ref, e.gatewayStatus(ref)) {
				return
			}
		}
	}
}

// markGateway marks the status of a Gateway, and those of its ListenerSets: the Gateway
// decides them.
func (e *Engine) markGateway(ref snapshot.Ref) {
	e.gateways.stale[ref] = struct{}{}
	for _, set := range e.snapshot.View().ListenerSets(ref.Namespace, ref.Name) {
		e.gateways.stale[snapshot.Ref{Kind: snapshot.ListenerSet, Namespace: set.Namespace, Name: set.Name}] = struct{}{}
	}
}

// markCounts marks the statuses that have the number of routes of these listeners of a
// Gateway: its own, or those of ListenerSets. A Gateway can have hundreds of sets, and a
// new route is at one of them.
func (e *Engine) markCounts(at snapshot.Ref, names []string) {
	for _, name := range names {
		if set, ofSet := gateway.SetOfListener(name); ofSet {
			e.gateways.stale[set] = struct{}{}
		} else {
			e.gateways.stale[at] = struct{}{}
		}
	}
}

// setStatus derives the status of a ListenerSet; nil if its Gateway is not ours.
func (e *Engine) setStatus(ref snapshot.Ref) *gatewayv1.ListenerSetStatus {
	set, ok := e.snapshot.GatewayObject(ref).(*gatewayv1.ListenerSet)
	if !ok {
		return nil
	}
	u := e.gateways.units[snapshot.ParentOf(set)]
	if u == nil || !u.result.Ours {
		return nil
	}
	status := u.result.SetStatus(set, e.factsOf(u))
	return &status
}

// gatewayStatus derives the status of an object.
func (e *Engine) gatewayStatus(ref snapshot.Ref) GatewayStatus {
	switch u := e.gateways.units[ref]; {
	case ref.Kind == snapshot.GatewayClass:
		if status, ours := gateway.Class(e.snapshot.View(), ref.Name, e.options.Gateways.Services); ours {
			return GatewayStatus{Class: &status}
		}
	case ref.Kind == snapshot.BackendTLSPolicy:
		if policy, ok := e.snapshot.GatewayObject(ref).(*gatewayv1.BackendTLSPolicy); ok {
			return GatewayStatus{Ancestors: e.policyStatus(policy)}
		}
	case ref.Kind == snapshot.ListenerSet:
		return GatewayStatus{Set: e.setStatus(ref)}
	case u != nil && u.result.Ours:
		status := u.result.Status(e.factsOf(u))
		return GatewayStatus{Gateway: &status, Service: u.result.Service()}
	case e.routes[ref] != nil && e.routes[ref].route != nil:
		return GatewayStatus{Parents: e.parentsOf(e.routes[ref])}
	}
	return GatewayStatus{}
}

// factsOf returns what the status of a Gateway has and the Gateway does not decide.
func (e *Engine) factsOf(u *gatewayUnit) gateway.Facts {
	facts := gateway.Facts{Attached: e.gateways.counts[u.ref], Unopened: map[route.ListenerID]string{}, Ungranted: u.ungranted}
	for id := range u.listeners {
		if reason, closed := e.gateways.unopened[id]; closed {
			facts.Unopened[id] = reason
		}
	}
	return facts
}

// counts reports whether attachedRoutes of a Gateway includes the route: it counts those
// that are accepted.
func (u *routeUnit) counts(at snapshot.Ref) bool {
	_, conflicts := u.conflicts[at]
	return !conflicts && !u.refused
}

// updateRefused records whether a route is refused, and counts it at its Gateways if that
// changed.
func (e *Engine) updateRefused(u *routeUnit) {
	refused := len(e.refusals.byObject[u.ref.Object()]) > 0
	if u.refused == refused || u.route == nil {
		return
	}
	for _, of := range u.route.Attached {
		if u.counts(of.Gateway) {
			e.countAttached(of.Gateway, of.Listeners, -1)
		}
		e.markCounts(of.Gateway, of.Listeners)
	}
	u.refused = refused
	for _, of := range u.route.Attached {
		if u.counts(of.Gateway) {
			e.countAttached(of.Gateway, of.Listeners, 1)
		}
	}
}

// parentsOf returns the status of a route. A route with a host of another namespace,
// or with a rule that the edge could not compile, is not accepted.
func (e *Engine) parentsOf(u *routeUnit) []gatewayv1.RouteParentStatus {
	refused := e.refusals.of(u.ref.Object())
	if len(refused) == 0 {
		return e.refuseParents(u, u.route.Parents)
	}
	parents := slices.Clone(u.route.Parents)
	for i := range parents {
		refuseParent(&parents[i], gatewayv1.RouteConditionReason(refused[0].Reason), refused[0].Text())
	}
	return parents
}
