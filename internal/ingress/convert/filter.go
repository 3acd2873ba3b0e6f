package convert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/route"
)

// harmless are the policies without which everything is served to the same clients:
// only speed, retries and error pages differ. An Ingress with another one that cannot
// be expressed is kept.
var harmless = map[string]string{
	"compression":    "responses are not compressed",
	"circuitBreaker": "requests are sent to backends that fail",
	"errorPages":     "clients get the errors of the backend",
	"retry":          "requests are not retried; the standard channel of Gateway API has retries from v1.7 on",
}

// filterSet are the filters of all rules of an Ingress.
type filterSet struct {
	request, response gatewayv1.HTTPHeaderFilter
	// others are those that do not depend on the match.
	others []gatewayv1.HTTPRouteFilter
	// paths are the policies that change the path, in order.
	paths []route.Policy
}

// readPolicies reads the policies of the Ingress, in the order in which they run.
func (d *draft) readPolicies(policies []route.Policy) *filterSet {
	set := &filterSet{}
	d.addPolicies(set, policies)
	return set
}

func (d *draft) addPolicies(set *filterSet, policies []route.Policy) {
	for i := range policies {
		policy := &policies[i]
		name, _ := policy.Named()
		loss, problem := harmless[name], ""
		switch {
		case policy.Chain != nil:
			d.addPolicies(set, policy.Chain.Policies)
		case policy.RedirectScheme != nil:
			problem = d.setRedirect(policy.RedirectScheme)
		case policy.AddPrefix != nil, policy.StripPrefix != nil, policy.ReplacePath != nil:
			set.paths = append(set.paths, *policy)
		case policy.RequestHeaders != nil:
			h := policy.RequestHeaders
			problem = addHeaders(&set.request, h.Set, h.Add, h.Remove)
		case policy.ResponseHeaders != nil:
			h := policy.ResponseHeaders
			problem = addHeaders(&set.response, h.Set, h.Add, h.Remove)
		case policy.CORS != nil:
			problem = set.addCORS(policy.CORS)
		case policy.Mirror != nil:
			problem = set.addMirror(d.in.Resolved.Ingress.Namespace, policy.Mirror)
		case loss == "":
			problem = "Gateway API has no such filter, and without it more would be served"
		}
		switch {
		case problem != "":
			d.keep("metadata.annotations", "%s: %s", name, problem)
		case loss != "":
			d.note("metadata.annotations", "%s: Gateway API has no such filter: %s", name, loss)
		}
	}
}

// setRedirect makes plain requests be redirected.
func (d *draft) setRedirect(policy *route.RedirectScheme) string {
	if policy.Scheme != route.SchemeHTTPS || d.redirect != nil {
		return "one redirect from http to https can be written"
	}
	scheme, status := string(policy.Scheme), policy.Status
	if status == 0 {
		status = 307
	}
	d.redirect = &gatewayv1.HTTPRequestRedirectFilter{Scheme: &scheme, StatusCode: &status}
	if policy.Port != 0 && policy.Port != 443 {
		port := gatewayv1.PortNumber(policy.Port)
		d.redirect.Port = &port
	}
	return ""
}

// addHeaders adds changes of headers to a filter. A rule has one filter for all, which
// changes a header once.
func addHeaders(to *gatewayv1.HTTPHeaderFilter, set, add []route.HeaderValue, remove []string) string {
	known := func(name string) bool {
		same := func(h gatewayv1.HTTPHeader) bool { return strings.EqualFold(string(h.Name), name) }
		return slices.ContainsFunc(to.Set, same) || slices.ContainsFunc(to.Add, same) ||
			slices.ContainsFunc(to.Remove, func(other string) bool { return strings.EqualFold(other, name) })
	}
	for _, name := range remove {
		if known(name) {
			return "the header " + name + " is changed more than once"
		}
		to.Remove = append(to.Remove, name)
	}
	for _, list := range []struct {
		values []route.HeaderValue
		to     *[]gatewayv1.HTTPHeader
	}{{set, &to.Set}, {add, &to.Add}} {
		for _, header := range list.values {
			switch {
			case known(header.Name):
				return "the header " + header.Name + " is changed more than once"
			case strings.EqualFold(header.Name, "Host"):
				return "Gateway API does not change the header Host like others"
			case header.Value == "":
				return "Gateway API has no empty headers: " + header.Name
			}
			*list.to = append(*list.to, gatewayv1.HTTPHeader{Name: gatewayv1.HTTPHeaderName(header.Name), Value: header.Value})
		}
	}
	const most = 16
	if len(to.Set) > most || len(to.Add) > most || len(to.Remove) > most {
		return fmt.Sprintf("a filter changes at most %d headers in each way", most)
	}
	return ""
}

// addCORS adds the filter for requests of other origins.
func (s *filterSet) addCORS(policy *route.CORS) string {
	if len(policy.AllowOriginRegexps) > 0 {
		return "Gateway API has no expressions for origins"
	}
	cors := &gatewayv1.HTTPCORSFilter{
		AllowOrigins: namesOf[gatewayv1.CORSOrigin](policy.AllowOrigins), AllowMethods: namesOf[gatewayv1.HTTPMethodWithWildcard](policy.AllowMethods),
		AllowHeaders: namesOf[gatewayv1.HTTPHeaderName](policy.AllowHeaders), ExposeHeaders: namesOf[gatewayv1.HTTPHeaderName](policy.ExposeHeaders),
		MaxAge: int32(time.Duration(policy.MaxAge) / time.Second),
	}
	if policy.AllowCredentials {
		cors.AllowCredentials = &policy.AllowCredentials
	}
	s.others = append(s.others, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterCORS, CORS: cors})
	return ""
}

// namesOf converts a list of names.
func namesOf[T ~string](names []string) []T {
	var list []T
	for _, name := range names {
		list = append(list, T(name))
	}
	return list
}

// addMirror adds a mirror.
func (s *filterSet) addMirror(namespace string, policy *route.Mirror) string {
	if policy.Backend.Namespace != namespace {
		return "the mirror is in another namespace"
	}
	port := gatewayv1.PortNumber(policy.Backend.Port)
	mirror := &gatewayv1.HTTPRequestMirrorFilter{}
	mirror.BackendRef.Name, mirror.BackendRef.Port = gatewayv1.ObjectName(policy.Backend.Name), &port
	percent := int32(policy.Percent)
	if policy.Of != 0 {
		of := int32(policy.Of)
		mirror.Fraction = &gatewayv1.Fraction{Numerator: percent, Denominator: &of}
	} else {
		mirror.Percent = &percent
	}
	s.others = append(s.others, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: mirror})
	return ""
}

// of returns the filters for a match, or why there are none.
func (s *filterSet) of(match route.PathMatch) ([]gatewayv1.HTTPRouteFilter, string) {
	rewritten := newRewritten(match)
	request := gatewayv1.HTTPHeaderFilter{Set: s.request.Set, Add: slices.Clone(s.request.Add), Remove: s.request.Remove}
	for i := range s.paths {
		removed, problem := rewritten.apply(&s.paths[i])
		if problem != "" {
			return nil, problem
		}
		if removed != "" {
			request.Add = append(request.Add, gatewayv1.HTTPHeader{Name: "X-Forwarded-Prefix", Value: removed})
		}
	}
	filters := slices.Clone(s.others)
	if !emptyHeaders(&request) {
		filters = append(filters, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: &request})
	}
	if !emptyHeaders(&s.response) {
		response := s.response
		filters = append(filters, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterResponseHeaderModifier, ResponseHeaderModifier: &response})
	}
	if change := rewritten.modifier(); change != nil {
		filters = append(filters, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterURLRewrite, URLRewrite: &gatewayv1.HTTPURLRewriteFilter{Path: change},
		})
	}
	return filters, ""
}

// emptyHeaders reports whether a filter changes nothing.
func emptyHeaders(of *gatewayv1.HTTPHeaderFilter) bool {
	return len(of.Set)+len(of.Add)+len(of.Remove) == 0
}
