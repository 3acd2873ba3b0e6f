package gateway

import (
	"fmt"
	"reflect"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

// filter adds the filters of a rule to the rule of the routing table: policies, a
// rewrite, or a redirect as its response.
func (r *httpRoute) filter(field string, filters []gatewayv1.HTTPRouteFilter, rule *route.Rule) {
	add := func(policy route.Policy) { rule.Policies = append(rule.Policies, policy) }
	for i := range filters {
		filter := &filters[i]
		at := fmt.Sprintf("%s.filters[%d]", field, i)
		switch {
		case filter.RequestHeaderModifier != nil:
			add(route.Policy{RequestHeaders: requestHeaders(filter.RequestHeaderModifier)})
		case filter.ResponseHeaderModifier != nil:
			add(route.Policy{ResponseHeaders: responseHeaders(filter.ResponseHeaderModifier)})
		case filter.RequestRedirect != nil:
			rule.Response = &route.Response{
				Status: or(filter.RequestRedirect.StatusCode, 302), Reason: route.ReasonConfigured,
				Redirect: r.redirect(at+".requestRedirect", filter.RequestRedirect, rule),
			}
		case filter.URLRewrite != nil:
			rule.Rewrite = r.rewrite(at+".urlRewrite", filter.URLRewrite, rule.Match.Path)
		case filter.RequestMirror != nil:
			if mirror := r.mirror(at+".requestMirror", filter.RequestMirror); mirror != nil {
				add(route.Policy{Mirror: mirror})
			}
		case filter.CORS != nil:
			add(route.Policy{CORS: cors(filter.CORS)})
		default:
			r.refuse(at, "the filter "+string(filter.Type)+" is not supported: remove it")
		}
	}
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

// responseHeaders returns the changes of headers in responses.
func responseHeaders(written *gatewayv1.HTTPHeaderFilter) *route.ResponseHeaders {
	changes := route.ResponseHeaders(*requestHeaders(written))
	return &changes
}

// redirect returns a redirect. Its port is the given one, else the one that a given
// scheme implies, else that of the listener.
func (r *httpRoute) redirect(field string, written *gatewayv1.HTTPRequestRedirectFilter, rule *route.Rule) *route.Redirect {
	redirect := &route.Redirect{
		Scheme: route.Scheme(or(written.Scheme, "")), Host: resolve.SpellHost(string(or(written.Hostname, ""))),
	}
	switch {
	case written.Port != nil:
		redirect.Port = uint16(*written.Port)
	case written.Scheme == nil:
		redirect.Port = rule.Listener.Port
	}
	redirect.Path, redirect.ReplacePrefix = r.changedPath(field+".path", written.Path, rule.Match.Path)
	return redirect
}

// rewrite returns the rewrite of host and path; nil for none.
func (r *httpRoute) rewrite(field string, written *gatewayv1.HTTPURLRewriteFilter, match route.PathMatch) *route.Rewrite {
	rewrite := route.Rewrite{Host: resolve.SpellHost(string(or(written.Hostname, "")))}
	rewrite.Path, rewrite.ReplacePrefix = r.changedPath(field+".path", written.Path, match)
	if rewrite == (route.Rewrite{}) {
		return nil
	}
	return &rewrite
}

// backendRewrite makes the rewrite that the backends of a rule have in common that of the
// rule, which has one for all of them.
func (r *httpRoute) backendRewrite(field string, backends []gatewayv1.HTTPBackendRef, rule *route.Rule) {
	without := rule.Rewrite
	for i := range backends {
		own, at := without, fmt.Sprintf("%s.backendRefs[%d].filters", field, i)
		for j := range backends[i].Filters {
			if filter := &backends[i].Filters[j]; filter.URLRewrite != nil {
				own = r.rewrite(fmt.Sprintf("%s[%d].urlRewrite", at, j), filter.URLRewrite, rule.Match.Path)
			}
		}
		switch {
		case i == 0 && without == nil:
			rule.Rewrite = own
		case !reflect.DeepEqual(own, rule.Rewrite):
			r.refuse(at, "all backends of a rule have one rewrite: use a rule for each, or move it to the rule")
		}
	}
}

// changedPath returns the path that replaces that of requests, and the prefix that it
// takes the place of. Both are empty for none.
func (r *httpRoute) changedPath(field string, change *gatewayv1.HTTPPathModifier, match route.PathMatch) (path, prefix string) {
	switch {
	case change == nil:
	case change.Type == gatewayv1.FullPathHTTPPathModifier:
		return resolve.SpellPath(or(change.ReplaceFullPath, "/")), ""
	case change.Type == gatewayv1.PrefixMatchHTTPPathModifier && match.Type == route.PathPrefix:
		return resolve.SpellPath(or(change.ReplacePrefixMatch, "/")), match.Value
	default:
		r.refuse(field, "a prefix is replaced where the match has a PathPrefix only")
	}
	return "", ""
}
