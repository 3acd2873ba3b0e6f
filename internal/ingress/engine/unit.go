package engine

import (
	"reflect"
	"slices"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// unit is a part of the table that is resolved on its own.
type unit interface {
	// markDirty adds the unit to those that are resolved in this pass.
	markDirty(*updateState)
}

// routeUnit is the unit of an Ingress or of an HTTPRoute, ours or not: one that is
// not has to be resolved again when its class changes.
type routeUnit struct {
	ref        snapshot.Ref
	reads      []*readObject
	ours       bool
	born       time.Time // creation time of the object
	outcome    translate.Outcome
	hostClaims map[string]ingressHostClaims // the claims of the outcome by host
	// live are the published rules.
	live    ruleSet
	liveTCP tcpSet
	// closed are the hosts whose rules return 503, with the reason.
	closed map[string]*refusal.Refusal
	// granted are its certificate requests that count.
	granted []grantedRequest
	users   []*backendUnit
	// condition is the one that ChangedConditions returned last. HTTPRoutes have
	// none, but route instead.
	condition Condition
	route     *gateway.Route
	conflicts conflicts
	// refused is set while a refusal keeps a route from being accepted.
	refused bool
}

// markDirty implements unit.
func (u *routeUnit) markDirty(r *updateState) { r.routes[u] = struct{}{} }

// backendUnit is the unit of a backend: a port of a Service that Ingresses name.
type backendUnit struct {
	id      route.BackendID
	reads   []*readObject
	result  backend.Result
	summary resolve.BackendSummary
	// built is set after the first resolution.
	built bool
	users unitSet
	// settings replace those of the Service; nil for a backend without a use that has
	// them. The identity stands for them, so that they never change.
	settings *annotation.Service
}

// markDirty implements unit.
func (u *backendUnit) markDirty(r *updateState) { r.backends[u] = struct{}{} }

// build resolves a backend. Its Ingresses are marked dirty only if the summary
// that they depend on changed; new endpoints alone do not.
func (e *Engine) build(u *backendUnit) {
	delete(e.state.backends, u)
	view := e.snapshot.View()
	options := backend.Options{
		ExternalNames: e.options.ExternalNames, NativeByDefault: e.options.NativeByDefault,
		DisablePassHost: e.options.DisablePassHost, NoClusterScope: e.options.NoClusterScope,
		CrossNamespace: e.options.CrossNamespace, Zone: e.options.Zone, Settings: u.settings, NGINX: e.nginxDefaults(),
	}
	if traefik := e.options.Traefik; traefik != nil {
		options.OldGroup = true
		options.CrossNamespace = options.CrossNamespace || u.settings != nil && traefik.CrossNamespace
	}
	result := backend.Build(view, u.id, options)
	u.reads = e.read(u, u.reads, view)
	// The delta compares with u.result, so that is replaced after it.
	e.appendBackendDelta(u, result.Backend)
	if !u.built || !reflect.DeepEqual(u.result.Backend.Transport, result.Backend.Transport) || !reflect.DeepEqual(u.result.Closed, result.Closed) {
		e.markPolicies(u.id.Namespace)
	}
	e.tls.replaceBackend(backendTLSOf(&u.result), backendTLSOf(&result))
	e.refusals.set(u, result.Refusals)
	u.result = result
	summary := resolve.BackendSummary{Closed: result.Closed, Empty: len(result.Backend.Endpoints) == 0, Timeouts: result.Timeouts}
	if u.built && !reflect.DeepEqual(summary, u.summary) {
		for user := range u.users.all() {
			e.state.routes[user] = struct{}{}
		}
	}
	u.summary, u.built = summary, true
}

// appendBackendDelta appends the change of a backend.
func (e *Engine) appendBackendDelta(u *backendUnit, next *route.Backend) {
	delta := &e.state.change.Backends
	switch {
	case !u.built:
		delta.Added = append(delta.Added, next)
	case !reflect.DeepEqual(u.result.Backend, next):
		delta.Changed = append(delta.Changed, next)
	}
}

// backendResolver resolves the backends of one Ingress on demand and records them.
type backendResolver struct {
	engine *Engine
	user   *routeUnit
	seen   []*backendUnit
}

// Summary implements resolve.BackendResolver. A backend that is dirty is built
// first, so that the Ingress is resolved with its current summary and not a
// second time.
func (l *backendResolver) Summary(id route.BackendID) resolve.BackendSummary {
	return l.SummaryWith(id, nil)
}

// HostOwner implements resolve.HostOwners.
func (l *backendResolver) HostOwner(host string) string {
	if claims := l.engine.hosts[host]; claims != nil {
		return claims.owner
	}
	return ""
}

// SummaryWith implements resolve.RouteBackends.
func (l *backendResolver) SummaryWith(id route.BackendID, settings *annotation.Service) resolve.BackendSummary {
	e := l.engine
	u := e.backends[id]
	if u == nil {
		u = &backendUnit{id: id, settings: settings}
		e.backends[id] = u
	}
	if _, dirty := e.state.backends[u]; dirty || !u.built {
		e.build(u)
	}
	u.users.add(l.user)
	l.seen = append(l.seen, u)
	return u.summary
}

// resolveRoute resolves a unit and replaces its claims and refusals. A
// deleted object resolves to nothing, which removes what it had, and its unit
// is dropped.
func (e *Engine) resolveRoute(u *routeUnit) {
	delete(e.state.routes, u)
	view := e.snapshot.View()
	backends := &backendResolver{engine: e, user: u}
	outcome, born, ours := e.outcomeOf(u, view, backends)
	u.reads = e.read(u, u.reads, view)
	for _, before := range u.users {
		if !slices.Contains(backends.seen, before) {
			before.users.remove(u)
			e.state.idle[before] = struct{}{}
			e.markPolicies(before.id.Namespace)
		}
	}
	if u.route != nil {
		for _, used := range backends.seen {
			e.markPolicies(used.id.Namespace)
		}
	}
	u.users = slices.Clip(backends.seen)
	if u.ours != ours && u.ref.Kind == snapshot.Ingress {
		e.state.ownershipChanged[u.ref] = struct{}{}
	}
	if u.ours != ours && snapshot.IsTraefikRoute(u.ref.Kind) {
		e.countTraefik(ours)
	}
	u.ours = ours
	e.replaceClaims(u, born, &outcome)
	e.replaceStore(u.outcome.Store, outcome.Store)
	e.refusals.set(u, outcome.Refusals)
	if u.outcome.NGINX != nil && outcome.NGINX == nil {
		e.refusals.set(locationSource{u}, nil)
	}
	u.outcome = outcome
	e.state.dirtyRules[u] = struct{}{}
	e.refusals.staleConditions[u.ref] = struct{}{}
	// The unit stays in dirtyRules, which publishes the removal of its rules.
	if !e.snapshot.Exists(u.ref) {
		e.forgetAll(u, u.reads)
		u.reads = nil
		delete(e.routes, u.ref)
	}
}

// routeResolvers resolve the routes of Gateway API.
var routeResolvers = map[snapshot.Kind]func(*snapshot.View, string, string, resolve.BackendResolver) *gateway.Route{
	snapshot.HTTPRoute: gateway.HTTPRoute, snapshot.GRPCRoute: gateway.GRPCRoute,
	snapshot.TLSRoute: gateway.TLSRoute, snapshot.TCPRoute: gateway.TCPRoute, snapshot.UDPRoute: gateway.UDPRoute,
}

// traefikResolvers resolve the objects of Traefik that are units.
var traefikResolvers = map[snapshot.Kind]func(*snapshot.View, snapshot.Ref, resolve.Options, resolve.RouteBackends) *resolve.ResolvedIngress{
	snapshot.IngressRoute: resolve.IngressRoute, snapshot.IngressRouteTCP: resolve.IngressRouteTCP, snapshot.IngressRouteUDP: resolve.IngressRouteUDP,
	snapshot.TraefikTLSStore: resolve.TLSStore,
}

// outcomeOf translates the object of a unit. This is all that differs between an
// Ingress and a route.
func (e *Engine) outcomeOf(u *routeUnit, view *snapshot.View, backends *backendResolver) (translate.Outcome, time.Time, bool) {
	if snapshot.IsGatewayRoute(u.ref.Kind) {
		resolved := routeResolvers[u.ref.Kind](view, u.ref.Namespace, u.ref.Name, backends)
		var outcome translate.Outcome
		if resolved.Outcome != nil {
			outcome = *resolved.Outcome
			resolved.Outcome = nil // the unit has it
		}
		e.replaceAttached(u, resolved)
		return outcome, resolved.Created, resolved.Ours
	}
	var resolved *resolve.ResolvedIngress
	if snapshot.IsTraefikUnit(u.ref.Kind) {
		current, old := snapshot.CurrentTraefikKind(u.ref.Kind)
		if !old {
			current = u.ref.Kind
		}
		resolved = traefikResolvers[current](view, u.ref, e.options, backends)
	} else {
		resolved = resolve.Ingress(view, u.ref.Namespace, u.ref.Name, e.options, backends)
	}
	var outcome translate.Outcome
	if resolved.Ours {
		outcome = translate.Ingress(resolved)
	}
	return outcome, resolved.Created, resolved.Ours
}

// dropIdle removes backends that no Ingress uses any more.
func (e *Engine) dropIdle() {
	for u := range e.state.idle {
		if u.users.count() > 0 {
			continue
		}
		e.forgetAll(u, u.reads)
		e.tls.replaceBackend(backendTLSOf(&u.result), nil)
		e.refusals.set(u, nil)
		delete(e.backends, u.id)
		// It may have been added or changed earlier in this pass.
		delta := &e.state.change.Backends
		this := func(v *route.Backend) bool { return v.ID == u.id }
		before := len(delta.Added)
		delta.Added = slices.DeleteFunc(delta.Added, this)
		delta.Changed = slices.DeleteFunc(delta.Changed, this)
		if len(delta.Added) == before {
			delta.Removed = append(delta.Removed, u.id)
		}
	}
}

// appendRuleDeltas appends the changes of the rules of the units that were
// resolved, or whose hosts were closed or opened or have another owner.
func (e *Engine) appendRuleDeltas() {
	for u := range e.state.dirtyRules {
		if snapshot.IsStreamRoute(u.ref.Kind) || snapshot.IsTraefikStream(u.ref.Kind) {
			u.liveTCP.replace(e.placeTCP(u), &e.state.change.TCPRoutes)
			e.replaceDatagrams(u)
			continue
		}
		rules := e.placeRules(u)
		for i, rule := range rules {
			if fault := u.closed[rule.Host]; fault != nil {
				rules[i] = rule.Closed(fault.Message)
			}
		}
		e.markPlaces(u.live, rules)
		u.live.replace(rules, &e.state.change.Rules)
	}
}

// ruleSet are the published rules of a unit. It is a slice and no map because most
// units have one rule, and there are many units.
type ruleSet []*route.Rule

// replace replaces the rules and appends the difference to a delta. It reports
// whether there is any.
func (s *ruleSet) replace(rules []*route.Rule, delta *route.Delta[route.ID, route.Rule]) (changed bool) {
	gone := make(map[route.ID]*route.Rule, len(*s))
	for _, rule := range *s {
		gone[rule.ID] = rule
	}
	next := make(ruleSet, len(rules))
	for i, rule := range rules {
		before := gone[rule.ID]
		delete(gone, rule.ID)
		switch {
		case before == nil:
			delta.Added = append(delta.Added, rule)
			changed = true
		case before != rule && !reflect.DeepEqual(before, rule):
			delta.Changed = append(delta.Changed, rule)
			changed = true
		default:
			rule = before // keeps the identity, so that equal rules are shared
		}
		next[i] = rule
	}
	for id := range gone {
		delta.Removed = append(delta.Removed, id)
		changed = true
	}
	*s = next
	return changed
}
