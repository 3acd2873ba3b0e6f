package resolve

import (
	"maps"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/ingress/traefik/rule"
	"slipway.dev/slipway/internal/route"
)

// Stream is a route of connections with one server name.
type Stream struct {
	// Rule and Index are the position in the object, from 0.
	Rule, Index int
	// ServerName is as in route.TCPRoute.
	ServerName string
	Mode       route.TLSMode
	Priority   int32
	Policies   []route.Policy
	Shares     []Share
	// Closed is why connections are closed; nil if they are served.
	Closed *refusal.Refusal
}

// IngressRouteTCP resolves an IngressRouteTCP. Its routes are Streams.
func IngressRouteTCP(view *snapshot.View, at snapshot.Ref, options Options, backends RouteBackends) *ResolvedIngress {
	r, object := newRouteResolver(view, at, options, backends)
	if !r.resolved.Ours {
		return r.resolved
	}
	decoded := traefik.IngressRouteTCP(object)
	for i := range decoded.Faults {
		r.closeAll(r.refuse(r.resolved.Ingress, &decoded.Faults[i]))
	}
	r.readRouteGrants(object)
	mode := route.TLSPlain
	if decoded.TLS != nil {
		mode = route.TLSTerminate
		if decoded.TLS.Passthrough {
			mode = route.TLSPassthrough
		}
	}
	r.readStreamPoints(decoded.EntryPoints)
	for i := range decoded.Routes {
		r.readStream(i, &decoded.Routes[i], mode, syntaxOf(object, options.Traefik.Syntax))
	}
	if mode == route.TLSTerminate {
		r.readRouteTLS(decoded.TLS)
	}
	r.finish()
	return r.resolved
}

// readStreamPoints sets the entry points: those that are named, or all.
func (r *routeResolver) readStreamPoints(written []string) {
	r.resolved.EntryPoints = written
	if len(written) == 0 {
		r.resolved.EntryPoints = slices.Sorted(maps.Keys(r.options.EntryPoints))
	}
}

// readStream resolves one route of connections. A rule that cannot be compiled has no
// place in the table; other faults close the connections.
func (r *routeResolver) readStream(index int, written *traefik.Route, mode route.TLSMode, syntax rule.Syntax) {
	if written.Syntax != "" {
		syntax = rule.Syntax(written.Syntax)
	}
	field := written.Field + ".match"
	names, err := rule.CompileTCP(written.Rule, rule.Options{Syntax: syntax, SpellHost: SpellHost, SpellPath: SpellPath})
	if err != nil {
		r.refuseHere(field, refusal.Invalid, "%s", err)
		return
	}
	stream := Stream{Rule: index, Mode: mode}
	// Where hosts belong to namespaces no number of one comes before the names of another.
	if r.options.HostSharing == HostSharingOpen {
		stream.Priority = written.Priority
		if stream.Priority == 0 {
			stream.Priority = int32(len(written.Rule))
		}
	}
	stream.Policies, stream.Shares, stream.Closed = r.readStreamTarget(written, func(use *traefik.ServiceUse) Target {
		return r.streamTarget(use, mode)
	})
	for i, name := range names {
		host, accepted := r.acceptHost(field, name, true)
		if !accepted || !r.acceptStream(field, host, mode) || len(r.resolved.Streams) == MaxRules {
			return
		}
		if host != "" && !r.hasRuleHost(host) {
			r.ruleHosts = append(r.ruleHosts, ruleHost{host, index})
		}
		stream.Index, stream.ServerName = i, host
		r.resolved.Streams = append(r.resolved.Streams, stream)
	}
}

// acceptStream refuses what would take connections from other routes: one without TLS has
// no server name, and one without a server name gets all connections of its entry points.
// The operator lists the entry points where that is meant.
func (r *routeResolver) acceptStream(field, name string, mode route.TLSMode) bool {
	switch {
	case name != "" && mode == route.TLSPlain:
		r.refuseHere(field, refusal.Invalid, "connections without TLS have no server name: write HostSNI(`*`), or set tls")
		return false
	case name != "":
		return true
	}
	for _, point := range r.resolved.EntryPoints {
		if !slices.Contains(r.options.Traefik.TCPEntryPoints, point) {
			r.refuseHere(field, refusal.NotAllowed,
				"HostSNI(`*`) takes all connections of the entry point %s: add it to providers.kubernetesCRD.tcpEntryPoints, or name other entry points", quoted(point))
			return false
		}
	}
	return true
}

// readStreamTarget resolves Middlewares and services of a route of connections or datagrams.
func (r *routeResolver) readStreamTarget(written *traefik.Route, resolve func(*traefik.ServiceUse) Target) (policies []route.Policy, shares []Share, closed *refusal.Refusal) {
	for i := range written.Faults {
		if fault := r.refuse(r.resolved.Ingress, &written.Faults[i]); closed == nil {
			closed = fault
		}
	}
	for _, name := range written.Middlewares {
		found, fault := r.streamPolicies(objectName{snapshot.TraefikMiddlewareTCP, name.Text, name.Field})
		if fault != nil && closed == nil {
			closed = fault
		}
		policies = append(policies, found...)
	}
	if len(written.Services) == 0 || len(written.Services) > maxServices {
		return nil, nil, r.refuseHere(written.Field+".services", refusal.Invalid, "there are %d services: name 1 to %d", len(written.Services), maxServices)
	}
	for i := range written.Services {
		shares = append(shares, Share{Target: resolve(&written.Services[i]), Weight: written.Services[i].Weight})
	}
	return policies, merge(shares), closed
}

// streamPolicies resolves a MiddlewareTCP.
func (r *routeResolver) streamPolicies(name objectName) ([]route.Policy, *refusal.Refusal) {
	object, fault := r.findTraefik(name)
	if fault != nil {
		return nil, r.refuse(r.resolved.Ingress, fault.At(name.field))
	}
	policies, faults := traefik.MiddlewareTCP(object)
	if len(faults) > 0 {
		return nil, r.refuseObject(object, name.field, faults)
	}
	return policies, nil
}

// streamTarget resolves a Service for connections. Their bytes are passed on as they are, or
// encrypted if the use of the Service has TLS.
func (r *routeResolver) streamTarget(use *traefik.ServiceUse, mode route.TLSMode) Target {
	if use.Settings != nil {
		return r.serviceTarget(use, r.source)
	}
	id, target := r.serviceID(use, r.source)
	if id == (route.BackendID{}) {
		return target
	}
	id.Variant = backend.TCPVariant
	if mode == route.TLSTerminate {
		id.Variant = backend.TLSVariant
	}
	return r.targetWith(use, id, r.summaryOf(id))
}
