package gateway

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

// policies returns the policies of the filters of a rule in a place, and the redirect
// that one of them makes of all requests; nil for none.
func (r *httpRoute) policies(field string, filters []gatewayv1.HTTPRouteFilter, where place, path route.PathMatch) (policies []route.Policy, redirect *route.Response) {
	for i := range filters {
		filter := &filters[i]
		at := fmt.Sprintf("%s.filters[%d]", field, i)
		switch {
		case filter.RequestHeaderModifier != nil:
			policies = append(policies, route.Policy{RequestHeaders: requestHeaders(filter.RequestHeaderModifier)})
		case filter.ResponseHeaderModifier != nil:
			changes := route.ResponseHeaders(*requestHeaders(filter.ResponseHeaderModifier))
			policies = append(policies, route.Policy{ResponseHeaders: &changes})
		case filter.RequestRedirect != nil:
			redirect = &route.Response{
				Status: or(filter.RequestRedirect.StatusCode, 302), Reason: route.ReasonConfigured,
				Redirect: r.redirect(at, filter.RequestRedirect, where, path),
			}
		default:
			r.refuse(at, "the filter "+string(filter.Type)+" is not supported yet: remove it")
		}
	}
	return policies, redirect
}

// requestHeaders returns the changes of headers.
func requestHeaders(written *gatewayv1.HTTPHeaderFilter) *route.RequestHeaders {
	values := func(headers []gatewayv1.HTTPHeader) []route.HeaderValue {
		var list []route.HeaderValue
		for _, header := range headers {
			list = append(list, route.HeaderValue{Name: string(header.Name), Value: header.Value})
		}
		return list
	}
	return &route.RequestHeaders{Set: values(written.Set), Add: values(written.Add), Remove: written.Remove}
}

// redirect returns a redirect. Its port is the given one, else the one that a given
// scheme implies, else that of the listener.
func (r *httpRoute) redirect(field string, written *gatewayv1.HTTPRequestRedirectFilter, where place, path route.PathMatch) *route.Redirect {
	redirect := &route.Redirect{
		Scheme: route.Scheme(or(written.Scheme, "")), Host: resolve.SpellHost(string(or(written.Hostname, ""))),
	}
	switch {
	case written.Port != nil:
		redirect.Port = uint16(*written.Port)
	case written.Scheme == nil:
		redirect.Port = where.listener.Port
	}
	if change := written.Path; change != nil {
		switch {
		case change.Type == gatewayv1.FullPathHTTPPathModifier:
			redirect.Path = resolve.SpellPath(or(change.ReplaceFullPath, "/"))
		case change.Type == gatewayv1.PrefixMatchHTTPPathModifier && path.Type == route.PathPrefix:
			redirect.ReplacePrefix, redirect.Path = path.Value, resolve.SpellPath(or(change.ReplacePrefixMatch, "/"))
		default:
			r.refuse(field+".requestRedirect.path", "a prefix is replaced where the match has a PathPrefix only")
		}
	}
	return redirect
}
