package gateway

import (
	"fmt"
	"strconv"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// httpRoute is the working state for one route. A GRPCRoute is read as an HTTPRoute.
type httpRoute struct {
	attachment
	object *gatewayv1.HTTPRoute
}

// HTTPRoute resolves an HTTPRoute.
func HTTPRoute(view *snapshot.View, namespace, name string, backends resolve.BackendResolver) *Route {
	if object := view.HTTPRoute(namespace, name); object != nil {
		return resolveRoute(view, kindHTTPRoute, object, backends)
	}
	return &Route{}
}

// resolveRoute resolves a route that was written as an object of a kind.
func resolveRoute(view *snapshot.View, kind gatewayv1.Kind, object *gatewayv1.HTTPRoute, backends resolve.BackendResolver) *Route {
	r := &httpRoute{
		attachment: newAttachment(view, kind, &object.ObjectMeta, object.Spec.Hostnames, backends), object: object,
	}
	r.attachAll(object.Spec.ParentRefs)
	if r.route.Ours {
		r.addRules()
		r.finishStatus()
	}
	return r.route
}

// addRules makes the rules of the route. A route with a part that is not supported
// has none: serving it without that part could be unsafe.
func (r *httpRoute) addRules() {
	var rules []*route.Rule
	for i := range r.object.Spec.Rules {
		rules = append(rules, r.rulesOf(i, &r.object.Spec.Rules[i])...)
	}
	if len(rules) > resolve.MaxRules {
		r.refuse("spec.rules", fmt.Sprintf("the route makes more than %d rules: use fewer host names, listeners or matches", resolve.MaxRules))
	}
	if r.unsupported != "" {
		return
	}
	r.route.Outcome.Rules = rules
	r.claimHosts()
}

// rulesOf makes the rules of one rule of the route: one for each of its matches, in
// each place.
func (r *httpRoute) rulesOf(index int, written *gatewayv1.HTTPRouteRule) []*route.Rule {
	field := fmt.Sprintf("spec.rules[%d]", index)
	r.session = written.SessionPersistence != nil
	timeouts := r.timeouts(field+".timeouts", written.Timeouts)
	r.at = place{}
	backends := r.backendRefs(field, written.BackendRefs)
	matches := written.Matches
	if len(matches) == 0 {
		matches = []gatewayv1.HTTPRouteMatch{{}}
	}
	var rules []*route.Rule
	for j := range matches {
		match := r.match(fmt.Sprintf("%s.matches[%d]", field, j), &matches[j])
		for k, where := range r.places {
			refs := backends
			if r.resolveAt(where) {
				refs = r.backendRefs(field, written.BackendRefs)
			}
			rule := &route.Rule{
				ID:       route.ID{Kind: string(r.kind), Namespace: r.object.Namespace, Name: r.object.Name, Rule: index, Path: j},
				Listener: where.listener, Host: where.host, HostRank: where.rank, Match: match, Created: r.route.Created, Timeouts: timeouts,
			}
			if k > 0 {
				rule.ID.Variant = strconv.Itoa(k)
			}
			r.filter(field, written.Filters, rule)
			if retry := r.retry(field+".retry", written.Retry); retry != nil {
				rule.Policies = append(rule.Policies, route.Policy{Retry: retry})
			}
			switch {
			case rule.Response != nil:
			case len(refs) == 0:
				rule.Response = &route.Response{Status: 500, Reason: route.ReasonNoService, Message: "the rule has no backend"}
				rule.Rewrite = nil
			default:
				rule.Backends = refs
				r.backendRewrite(field, written.BackendRefs, rule)
				rule.Sticky = r.sessionCookie(field+".sessionPersistence", written.SessionPersistence, match.Path, where.tls)
			}
			if problems := rule.Validate(); len(problems) > 0 {
				r.refuse(field, problems[0].Text())
				return nil
			}
			rules = append(rules, rule)
		}
	}
	return rules
}
