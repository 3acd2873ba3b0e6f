// Package engine turns changes of a cluster into changes of the routing table.
//
// It keeps a unit for each Ingress and HTTPRoute, for each Gateway, and for each
// backend that a route names. A
// unit records which objects it read, also those that were missing, so a change
// of the cluster marks exactly the units dirty that depend on it, and an update
// without effect costs nothing (decision 0010). Above the units it decides what
// no Ingress can decide alone: which namespace a host belongs to, and so whose
// rules, certificates and TLS options count for it (decision 0031).
//
// An update pass has these steps: mark units dirty, resolve them, recompute
// the claims of changed hosts, recompute the certificate requests, append the
// differences to one route.Change. What was published last is kept with each
// unit, and only differences to it are appended.
//
// It promises that the same cluster gives the same table on every replica, in
// any order of its events.
//
// It is not safe for concurrent use: the goroutine that owns the Snapshot owns
// the Engine.
package engine

import (
	"iter"
	"maps"
	"slices"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Engine keeps the routing table of a Snapshot up to date.
type Engine struct {
	snapshot *snapshot.Snapshot
	options  resolve.Options

	routes   map[snapshot.Ref]*routeUnit
	backends map[route.BackendID]*backendUnit
	readers  readerIndex

	hosts    map[string]*hostClaims
	tls      tlsRegistry
	refusals refusalIndex
	// requests are the certificates to be issued, by Secret.
	requests   map[snapshot.Ref]*sharedRequest
	challenges challengeUnit
	gateways   gatewayState
	// traefikRoutes counts the routes of Traefik that are ours.
	traefikRoutes int
	// datagrams are the IngressRouteUDPs with published routes.
	datagrams map[*routeUnit]struct{}
	// requestsChanged and tokensChanged are results of the update in progress.
	requestsChanged bool
	tokensChanged   bool
	state           updateState
}

// updateState is the working set of one update pass. It is discarded at the end:
// the first pass is about the whole cluster, and its maps are that large.
type updateState struct {
	// routes and backends are the dirty units.
	routes   map[*routeUnit]struct{}
	backends map[*backendUnit]struct{}
	// idle are backends that may have lost their last user.
	idle map[*backendUnit]struct{}
	// wantChanges are the Secrets and custom objects that began or ceased to be
	// read.
	wantChanges map[snapshot.Ref]struct{}
	// hosts are the hosts whose claims changed.
	hosts map[string]struct{}
	// dirtyRules are units whose rules have to be compared with the published ones.
	dirtyRules map[*routeUnit]struct{}
	// moved are the hosts with rules that came, went, or moved in the order.
	moved map[string]struct{}
	// ownershipChanged are Ingresses that began or ceased to be ours.
	ownershipChanged map[snapshot.Ref]struct{}
	// requesters are units whose certificate requests, or the hosts of these,
	// changed.
	requesters map[*routeUnit]struct{}
	// requestedHosts are the hosts that listeners began or ceased to request
	// certificates for.
	requestedHosts map[string]struct{}
	// challenges is set when the Secret of challenges changed, or the listeners that
	// serve them.
	challenges bool
	// datagrams is set when an IngressRouteUDP changed.
	datagrams bool
	// gateways are the dirty Gateways.
	gateways map[*gatewayUnit]struct{}
	// reattached are the routes that came, went or changed, by Gateway. A route can be
	// there twice.
	reattached map[snapshot.Ref][]*routeUnit
	change     route.Change
}

// New returns an Engine for a Snapshot. The first update publishes everything.
func New(facts *snapshot.Snapshot, options resolve.Options) *Engine {
	return &Engine{
		snapshot: facts, options: options,
		routes:   map[snapshot.Ref]*routeUnit{},
		backends: map[route.BackendID]*backendUnit{},
		readers:  newReaderIndex(),
		hosts:    map[string]*hostClaims{},
		tls:      newTLSRegistry(),
		refusals: newRefusalIndex(),
		requests: map[snapshot.Ref]*sharedRequest{}, datagrams: map[*routeUnit]struct{}{},
		gateways: newGatewayState(options.Gateways, facts.Exists),
	}
}

// Result is the outcome of one update pass.
type Result struct {
	// Change is the difference to the last table.
	Change route.Change
	// Wanted are the Secrets and objects of custom kinds that units newly read,
	// and Unwanted those that none reads any more. The watcher reads such objects
	// on demand.
	Wanted, Unwanted []snapshot.Ref
	// OwnershipChanged are the Ingresses that began or ceased to be ours.
	OwnershipChanged []snapshot.Ref
	// RequestsChanged is set if the result of Requests has changed, and
	// TokensChanged if that of Tokens has.
	RequestsChanged bool
	TokensChanged   bool
}

// Update runs an update pass for changed objects.
func (e *Engine) Update(changed []snapshot.Ref) Result {
	e.state = updateState{
		routes: map[*routeUnit]struct{}{}, backends: map[*backendUnit]struct{}{}, idle: map[*backendUnit]struct{}{},
		hosts: map[string]struct{}{}, moved: map[string]struct{}{}, dirtyRules: map[*routeUnit]struct{}{}, ownershipChanged: map[snapshot.Ref]struct{}{},
		requesters: map[*routeUnit]struct{}{}, wantChanges: map[snapshot.Ref]struct{}{}, gateways: map[*gatewayUnit]struct{}{},
		reattached: map[snapshot.Ref][]*routeUnit{}, requestedHosts: map[string]struct{}{},
	}
	e.requestsChanged, e.tokensChanged = false, false
	for _, ref := range changed {
		switch {
		case (ref.Kind == snapshot.Ingress || snapshot.IsGatewayRoute(ref.Kind) || snapshot.IsTraefikUnit(ref.Kind)) && e.routes[ref] == nil:
			unit := &routeUnit{ref: ref}
			e.routes[ref] = unit
			e.state.routes[unit] = struct{}{}
		case ref.Kind == snapshot.Gateway && e.gateways.units[ref] == nil:
			unit := &gatewayUnit{ref: ref}
			e.gateways.units[ref] = unit
			e.state.gateways[unit] = struct{}{}
		case ref.Kind == snapshot.GatewayClass:
			e.gateways.stale[ref] = struct{}{}
		case ref.Kind == snapshot.BackendTLSPolicy:
			e.markPolicies(ref.Namespace)
		}
		e.readers.markDirty(ref, &e.state)
	}
	// The order matters: hosts are recomputed from the claims of resolved units,
	// conflicts of routes and requests from the owners of hosts, rules from the hosts that are closed,
	// reachability from the rules, and idle backends are dropped when no later
	// step can use them.
	e.resolve()
	e.resolveGateways()
	e.recomputeHosts()
	e.recomputeConflicts()
	e.recomputeRequests()
	e.appendRuleDeltas()
	e.recomputeReachable()
	e.recomputeDatagrams()
	e.updateChallenges()
	e.dropIdle()
	e.tls.appendDeltas(&e.state.change)
	result := Result{
		Change:           e.state.change,
		OwnershipChanged: slices.SortedFunc(maps.Keys(e.state.ownershipChanged), snapshot.Ref.Compare),
		RequestsChanged:  e.requestsChanged, TokensChanged: e.tokensChanged,
	}
	// Readers decide which way a want changed: the pass may have toggled it.
	for ref := range e.state.wantChanges {
		if e.readers.find(ref) != nil {
			result.Wanted = append(result.Wanted, ref)
		} else {
			result.Unwanted = append(result.Unwanted, ref)
		}
	}
	e.state = updateState{} // frees the maps, see updateState
	return result
}

// All runs an update pass for everything in the Snapshot.
func (e *Engine) All() Result {
	var refs []snapshot.Ref
	for _, kind := range slices.Concat(snapshot.GatewayKinds(), snapshot.TraefikUnits(), []snapshot.Kind{snapshot.Ingress}) {
		for namespace, name := range e.snapshot.Names(kind) {
			refs = append(refs, snapshot.Ref{Kind: kind, Namespace: namespace, Name: name})
		}
	}
	slices.SortFunc(refs, snapshot.Ref.Compare)
	return e.Update(refs)
}

// resolve resolves the dirty units. Backends come first: a change of a backend's
// summary marks its Ingresses dirty.
func (e *Engine) resolve() {
	for unit := range e.state.backends {
		e.build(unit)
	}
	// A range over a map may miss units that are marked while it runs.
	for len(e.state.routes) > 0 {
		for unit := range e.state.routes {
			e.resolveRoute(unit)
		}
	}
}

// Ours reports whether an Ingress, or a route of Traefik, is served by us.
func (e *Engine) Ours(ref snapshot.Ref) bool {
	unit := e.routes[ref]
	return unit != nil && unit.ours
}

// Reads yields all objects that routes and backends were made of, also those that do not
// exist.
func (e *Engine) Reads() iter.Seq[snapshot.Ref] { return e.readers.all() }

// Serves reports whether a Gateway, ListenerSet or route is served by us: a Gateway of our
// class, and others with such a Gateway.
func (e *Engine) Serves(ref snapshot.Ref) bool {
	if ref.Kind == snapshot.ListenerSet {
		return e.setStatus(ref) != nil
	}
	if unit := e.gateways.units[ref]; unit != nil {
		return unit.result.Ours
	}
	unit := e.routes[ref]
	return unit != nil && unit.route != nil && unit.route.Ours
}

// GatewayStatus returns the status of an object of Gateway API, without the
// listeners that the edge could not open.
func (e *Engine) GatewayStatus(ref snapshot.Ref) GatewayStatus { return e.gatewayStatus(ref) }

// HasHost reports whether an Ingress or a route has rules for exactly this host.
func (e *Engine) HasHost(ref snapshot.Ref, host string) bool {
	unit := e.routes[ref]
	return unit != nil && slices.ContainsFunc(unit.outcome.Rules, func(rule *route.Rule) bool { return rule.Host == host })
}

// toggleWant records that an object began or ceased to be wanted. Two changes in
// one pass cancel each other.
func (e *Engine) toggleWant(ref snapshot.Ref) {
	if !wanted(ref) {
		return
	}
	if _, turned := e.state.wantChanges[ref]; turned {
		delete(e.state.wantChanges, ref)
		return
	}
	e.state.wantChanges[ref] = struct{}{}
}

// wanted reports whether an object is read on demand only.
func wanted(ref snapshot.Ref) bool {
	return ref.Kind == snapshot.Secret || ref.Kind.Custom() || ref.Kind == snapshot.Pod && ref.Name == ""
}

// Backend returns the resolved backend, for explain.
func (e *Engine) Backend(id route.BackendID) (backend.Result, bool) {
	unit := e.backends[id]
	if unit == nil {
		return backend.Result{}, false
	}
	return unit.result, true
}
