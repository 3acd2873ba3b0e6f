package gateway

import (
	"fmt"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/route"
)

// statusUnresolved is the status of the requests of a backend that does not resolve.
// Connections without HTTP are closed.
const statusUnresolved = 500

// backendRefs returns the backends of a rule with their weights; none if all weights
// are 0. The shares of those that do not resolve are one entry with a status. A backend of
// weight 0 gets no request, but that of a session that began there.
func (r *attachment) backendRefs(field string, written []gatewayv1.HTTPBackendRef) []route.BackendRef {
	var refs []route.BackendRef
	missing := route.BackendRef{Status: statusUnresolved}
	for i := range written {
		at := fmt.Sprintf("%s.backendRefs[%d]", field, i)
		weight := uint32(max(or(written[i].Weight, 1), 0))
		id, resolved := r.backend(at, &written[i].BackendObjectReference)
		if weight == 0 && !r.session {
			continue
		}
		ref := route.BackendRef{Backend: id, Weight: weight}
		r.backendFilters(at, written[i].Filters, &ref)
		known := slices.IndexFunc(refs, func(before route.BackendRef) bool { return before.Backend == id && sameHeaders(&before, &ref) })
		switch {
		case !resolved:
			missing.Weight += weight
		case known >= 0:
			refs[known].Weight += weight
		default:
			refs = append(refs, ref)
		}
	}
	if !slices.ContainsFunc(refs, func(ref route.BackendRef) bool { return ref.Weight > 0 }) {
		refs = nil
	}
	if missing.Weight > 0 {
		refs = append(refs, missing)
	}
	return refs
}

// backendFilters adds the filters of a backendRef.
func (r *attachment) backendFilters(field string, filters []gatewayv1.HTTPRouteFilter, ref *route.BackendRef) {
	for i := range filters {
		switch filter := &filters[i]; {
		case filter.RequestHeaderModifier != nil && ref.RequestHeaders == nil:
			ref.RequestHeaders = requestHeaders(filter.RequestHeaderModifier)
		case filter.ResponseHeaderModifier != nil && ref.ResponseHeaders == nil:
			ref.ResponseHeaders = responseHeaders(filter.ResponseHeaderModifier)
		case filter.URLRewrite != nil: // see backendRewrite
		default:
			r.refuse(fmt.Sprintf("%s.filters[%d]", field, i), "a backend can have one RequestHeaderModifier and one ResponseHeaderModifier: move others to the rule")
		}
	}
}

// sameHeaders reports whether two shares of a backend are one. Those that change
// headers stay as they are written.
func sameHeaders(a, b *route.BackendRef) bool {
	return a.RequestHeaders == nil && b.RequestHeaders == nil && a.ResponseHeaders == nil && b.ResponseHeaders == nil
}

// backend returns the identity of a backend, and whether it can be used.
func (r *attachment) backend(field string, ref *gatewayv1.BackendObjectReference) (route.BackendID, bool) {
	unresolved := func(reason gatewayv1.RouteConditionReason, format string, args ...any) (route.BackendID, bool) {
		if r.unresolved == nil {
			c := failed(gatewayv1.RouteConditionResolvedRefs, reason, field+": "+fmt.Sprintf(format, args...))
			r.unresolved = &c
		}
		return route.BackendID{}, false
	}
	if or(ref.Group, "") != "" || or(ref.Kind, kindService) != kindService {
		return unresolved(gatewayv1.RouteReasonInvalidKind, "a backend is a Service, and not a %s", or(ref.Kind, ""))
	}
	namespace := string(or(ref.Namespace, gatewayv1.Namespace(r.meta.Namespace)))
	way := reference{
		fromKind: r.kind, fromNamespace: r.meta.Namespace, toKind: kindService, toNamespace: namespace, toName: ref.Name,
	}
	if !way.permitted(r.view) {
		return unresolved(gatewayv1.RouteReasonRefNotPermitted, "the Service %s/%s is in another namespace: create a ReferenceGrant there", namespace, ref.Name)
	}
	if ref.Port == nil {
		return unresolved(gatewayv1.RouteReasonBackendNotFound, "the port of the Service is missing")
	}
	if r.view.Service(namespace, string(ref.Name)) == nil {
		return unresolved(gatewayv1.RouteReasonBackendNotFound, "there is no Service %s/%s", namespace, ref.Name)
	}
	id := route.BackendID{Namespace: namespace, Name: string(ref.Name), Port: uint16(*ref.Port), Variant: backend.RouteVariant}
	switch r.kind {
	case kindGRPCRoute:
		id.Variant = backend.GRPCVariant
	case kindTLSRoute, kindTCPRoute:
		id.Variant = backend.TCPVariant
		if r.at.mode == route.TLSTerminate {
			id.Variant = backend.TLSVariant
		}
	case kindUDPRoute:
		id.Variant = backend.UDPVariant
	}
	if r.session {
		id.Variant = backend.WithSession(id.Variant)
	}
	if r.at.certificate != (route.CertificateID{}) {
		id.Variant = backend.WithCertificate(id.Variant, r.at.certificate)
	}
	if summary := r.backends.Summary(id); summary.Closed != nil {
		return unresolved(gatewayv1.RouteReasonBackendNotFound, "%s", summary.Closed.Message)
	}
	return id, true
}

// resolveAt makes the backends that follow those of a place, and reports whether they can
// differ from those of no place.
func (r *attachment) resolveAt(where place) bool {
	r.at = where
	return where.certificate != (route.CertificateID{}) || where.mode == route.TLSTerminate
}
