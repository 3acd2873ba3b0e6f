package gateway

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// streamSpec is the part that a TLSRoute, a TCPRoute and a UDPRoute have in common.
type streamSpec struct {
	meta      *metav1.ObjectMeta
	parents   []gatewayv1.ParentReference
	hostnames []gatewayv1.Hostname
	// rules are the backends of each rule.
	rules [][]gatewayv1.BackendRef
}

// TLSRoute resolves a TLSRoute: connections by their server name.
func TLSRoute(view *snapshot.View, namespace, name string, backends resolve.BackendResolver) *Route {
	object := view.TLSRoute(namespace, name)
	if object == nil {
		return &Route{}
	}
	spec := streamSpec{meta: &object.ObjectMeta, parents: object.Spec.ParentRefs, hostnames: object.Spec.Hostnames}
	for _, rule := range object.Spec.Rules {
		spec.rules = append(spec.rules, rule.BackendRefs)
	}
	return resolveStream(view, kindTLSRoute, &spec, backends)
}

// TCPRoute resolves a TCPRoute: all connections of a listener.
func TCPRoute(view *snapshot.View, namespace, name string, backends resolve.BackendResolver) *Route {
	object := view.TCPRoute(namespace, name)
	if object == nil {
		return &Route{}
	}
	spec := streamSpec{meta: &object.ObjectMeta, parents: object.Spec.ParentRefs}
	for _, rule := range object.Spec.Rules {
		spec.rules = append(spec.rules, rule.BackendRefs)
	}
	return resolveStream(view, kindTCPRoute, &spec, backends)
}

// UDPRoute resolves a UDPRoute: all datagrams of a listener.
func UDPRoute(view *snapshot.View, namespace, name string, backends resolve.BackendResolver) *Route {
	object := view.UDPRoute(namespace, name)
	if object == nil {
		return &Route{}
	}
	spec := streamSpec{meta: &object.ObjectMeta, parents: object.Spec.ParentRefs}
	for _, rule := range object.Spec.Rules {
		spec.rules = append(spec.rules, rule.BackendRefs)
	}
	return resolveStream(view, kindUDPRoute, &spec, backends)
}

// resolveStream resolves a route of connections. Nothing distinguishes several rules of
// one, so it has exactly one; among routes of a listener with the same server name the
// oldest gets the connections.
func resolveStream(view *snapshot.View, kind gatewayv1.Kind, spec *streamSpec, backends resolve.BackendResolver) *Route {
	r := newAttachment(view, kind, spec.meta, spec.hostnames, backends)
	r.attachAll(spec.parents)
	if !r.route.Ours {
		return r.route
	}
	if len(spec.rules) != 1 {
		r.refuse("spec.rules", "a "+string(kind)+" has one rule: create a route for each of the others")
	} else {
		r.addStreams(spec.rules[0])
	}
	r.finishStatus()
	return r.route
}

// streamBackends returns the backends of a rule with their weights. Connections of the
// share that does not resolve are closed; without any backend these are all.
func (r *attachment) streamBackends(written []gatewayv1.BackendRef) []route.BackendRef {
	http := make([]gatewayv1.HTTPBackendRef, len(written))
	for i := range written {
		http[i].BackendRef = written[i]
	}
	refs := r.backendRefs("spec.rules[0]", http)
	if len(refs) == 0 {
		return []route.BackendRef{{Status: statusUnresolved, Weight: 1}}
	}
	return refs
}

// addStreams makes a TCP route of the table for each place.
func (r *attachment) addStreams(written []gatewayv1.BackendRef) {
	backends := r.streamBackends(written)
	if len(r.places) > resolve.MaxRules {
		r.refuse("spec", fmt.Sprintf("the route has more than %d places: use fewer host names or listeners", resolve.MaxRules))
		return
	}
	for i, where := range r.places {
		refs := backends
		if r.resolveAt(where) {
			refs = r.streamBackends(written)
		}
		stream := &route.TCPRoute{
			ID:       route.TCPRouteID{Kind: string(r.kind), Namespace: r.meta.Namespace, Name: r.meta.Name},
			Listener: where.listener, ServerName: where.host, HostRank: where.rank, TLS: where.mode, Created: r.route.Created, Backends: refs,
		}
		if i > 0 {
			stream.ID.Variant = strconv.Itoa(i)
		}
		if problems := stream.Validate(); len(problems) > 0 {
			r.refuse("spec.rules[0]", problems[0].Text())
			r.route.Outcome.TCPRoutes = nil
			return
		}
		r.route.Outcome.TCPRoutes = append(r.route.Outcome.TCPRoutes, stream)
	}
	r.claimHosts()
}
