package gateway

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

// match returns the conditions of a match. Without a path every path matches.
func (r *httpRoute) match(field string, written *gatewayv1.HTTPRouteMatch) route.Match {
	match := route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}}
	if path := written.Path; path != nil {
		value := or(path.Value, "/")
		switch or(path.Type, gatewayv1.PathMatchPathPrefix) {
		case gatewayv1.PathMatchPathPrefix:
			match.Path.Value = resolve.SpellPath(value)
		case gatewayv1.PathMatchExact:
			match.Path = route.PathMatch{Type: route.PathExact, Value: resolve.SpellPath(value)}
		case gatewayv1.PathMatchRegularExpression:
			match.Path = route.PathMatch{Type: route.PathRegexp, Value: whole(value)}
		default:
			r.refuse(field+".path.type", "it is none of Exact, PathPrefix, RegularExpression")
		}
	}
	if written.Method != nil {
		match.Methods = []string{string(*written.Method)}
	}
	for _, header := range written.Headers {
		match.Headers = appendValue(match.Headers, string(header.Name), header.Value, string(or(header.Type, gatewayv1.HeaderMatchExact)), strings.EqualFold)
	}
	for _, parameter := range written.QueryParams {
		match.Query = appendValue(match.Query, string(parameter.Name), parameter.Value, string(or(parameter.Type, gatewayv1.QueryParamMatchExact)),
			func(a, b string) bool { return a == b })
	}
	return match
}

// appendValue appends a condition on a header or parameter. Of several for one name
// the first counts, as Gateway API has it.
func appendValue(values []route.ValueMatch, name, value, kind string, same func(a, b string) bool) []route.ValueMatch {
	if slices.ContainsFunc(values, func(before route.ValueMatch) bool { return same(before.Name, name) }) {
		return values
	}
	match := route.ValueMatch{Name: name, Value: value}
	if kind == string(gatewayv1.HeaderMatchRegularExpression) {
		match.Type, match.Value = route.ValueRegexp, whole(value)
	}
	return append(values, match)
}

// whole makes an expression match all of a value, as in other implementations.
func whole(expression string) string { return "^(?:" + expression + ")$" }
