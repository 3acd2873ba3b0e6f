package gateway

import (
	"fmt"
	"regexp"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// GRPCRoute resolves a GRPCRoute. A gRPC call is a request of HTTP/2 whose path has the
// service and the method, so the route is read as an HTTPRoute.
func GRPCRoute(view *snapshot.View, namespace, name string, backends resolve.BackendResolver) *Route {
	if object := view.GRPCRoute(namespace, name); object != nil {
		return resolveRoute(view, kindGRPCRoute, httpRouteOf(object), backends)
	}
	return &Route{}
}

// httpRouteOf returns the HTTPRoute that serves the calls of a GRPCRoute.
func httpRouteOf(object *gatewayv1.GRPCRoute) *gatewayv1.HTTPRoute {
	same := &gatewayv1.HTTPRoute{ObjectMeta: object.ObjectMeta}
	same.Spec.CommonRouteSpec, same.Spec.Hostnames = object.Spec.CommonRouteSpec, object.Spec.Hostnames
	for _, written := range object.Spec.Rules {
		rule := gatewayv1.HTTPRouteRule{
			Name: written.Name, Filters: httpFilters(written.Filters), SessionPersistence: written.SessionPersistence,
		}
		for i := range written.Matches {
			rule.Matches = append(rule.Matches, httpMatch(&written.Matches[i]))
		}
		for _, ref := range written.BackendRefs {
			rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: ref.BackendRef, Filters: httpFilters(ref.Filters)})
		}
		same.Spec.Rules = append(same.Spec.Rules, rule)
	}
	return same
}

// httpMatch returns the conditions on path and headers.
func httpMatch(written *gatewayv1.GRPCRouteMatch) gatewayv1.HTTPRouteMatch {
	match := gatewayv1.HTTPRouteMatch{Path: methodPath(written.Method)}
	for _, header := range written.Headers {
		kind := gatewayv1.HeaderMatchType(or(header.Type, gatewayv1.GRPCHeaderMatchExact))
		match.Headers = append(match.Headers, gatewayv1.HTTPHeaderMatch{Type: &kind, Name: gatewayv1.HTTPHeaderName(header.Name), Value: header.Value})
	}
	return match
}

// methodPath returns the paths of a service and method, of which one can be missing;
// nil for all.
func methodPath(written *gatewayv1.GRPCMethodMatch) *gatewayv1.HTTPPathMatch {
	if written == nil {
		return nil
	}
	service, method := or(written.Service, ""), or(written.Method, "")
	path := func(kind gatewayv1.PathMatchType, value string) *gatewayv1.HTTPPathMatch {
		return &gatewayv1.HTTPPathMatch{Type: &kind, Value: &value}
	}
	expression := func(service, method string) *gatewayv1.HTTPPathMatch {
		return path(gatewayv1.PathMatchRegularExpression, fmt.Sprintf("/(?:%s)/(?:%s)", service, method))
	}
	const anyName = "[^/]+"
	switch kind := or(written.Type, gatewayv1.GRPCMethodMatchExact); {
	case service == "" && method == "":
		return nil
	case kind == gatewayv1.GRPCMethodMatchRegularExpression:
		if service == "" {
			service = anyName
		}
		if method == "" {
			method = anyName
		}
		return expression(service, method)
	case service == "":
		return expression(anyName, regexp.QuoteMeta(method))
	case method == "":
		return path(gatewayv1.PathMatchPathPrefix, "/"+service)
	default:
		return path(gatewayv1.PathMatchExact, "/"+service+"/"+method)
	}
}

// httpFilters returns the filters as an HTTPRoute has them. A mirror gets a call once that
// has ended, so that it never delays one, and a stream without an end has no copy.
func httpFilters(written []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var filters []gatewayv1.HTTPRouteFilter
	for _, filter := range written {
		filters = append(filters, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(filter.Type), RequestHeaderModifier: filter.RequestHeaderModifier,
			ResponseHeaderModifier: filter.ResponseHeaderModifier, RequestMirror: filter.RequestMirror, ExtensionRef: filter.ExtensionRef,
		})
	}
	return filters
}
