package resolve

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/route"
)

// IngressRouteUDP resolves an IngressRouteUDP. Its route is a Stream of the entry points for
// datagrams. Of several objects for one entry point the oldest gets the datagrams.
func IngressRouteUDP(view *snapshot.View, at snapshot.Ref, options Options, backends RouteBackends) *ResolvedIngress {
	r, object := newRouteResolver(view, at, options, backends)
	if !r.resolved.Ours {
		return r.resolved
	}
	decoded := traefik.IngressRouteUDP(object)
	for i := range decoded.Faults {
		r.closeAll(r.refuse(r.resolved.Ingress, &decoded.Faults[i]))
	}
	if r.readDatagramPoints(decoded.EntryPoints) && len(decoded.Routes) > 0 {
		written := &decoded.Routes[0]
		stream := Stream{Mode: route.TLSPlain}
		stream.Policies, stream.Shares, stream.Closed = r.readStreamTarget(written, r.datagramTarget)
		r.resolved.Streams = append(r.resolved.Streams, stream)
	}
	r.finish()
	return r.resolved
}

// readDatagramPoints sets the entry points: those that are named, or all that take datagrams.
// It reports whether there is one. An entry point for connections is refused, because its
// port takes no datagrams.
func (r *routeResolver) readDatagramPoints(written []string) bool {
	known := r.options.Traefik.UDPEntryPoints
	if len(written) == 0 {
		r.resolved.EntryPoints = known
		if len(known) == 0 {
			r.refuseHere("spec.entryPoints", refusal.NotFound, "no entry point takes datagrams: add one with an address such as :53/udp")
		}
		return len(known) > 0
	}
	for _, name := range written {
		if slices.Contains(known, name) {
			r.resolved.EntryPoints = append(r.resolved.EntryPoints, name)
			continue
		}
		r.refuseHere("spec.entryPoints", refusal.NotFound, "the entry point %s takes no datagrams: set entryPoints.%s.address to an address such as :53/udp", quoted(name), name)
	}
	return len(r.resolved.EntryPoints) > 0
}

// datagramTarget resolves a Service for datagrams, by its ports of UDP.
func (r *routeResolver) datagramTarget(use *traefik.ServiceUse) Target {
	id, target := r.serviceIDOf(corev1.ProtocolUDP, use, r.source)
	if id == (route.BackendID{}) {
		return target
	}
	id.Variant = backend.UDPVariant
	return r.targetWith(use, id, r.summaryOf(id))
}
