package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// Route is a resolved route.
type Route struct {
	// Ours is set if it names a Gateway of ours. Only then it has rules and a status.
	Ours    bool
	Created time.Time
	// Outcome is its part of the routing table.
	Outcome translate.Outcome
	// Parents is the status for each reference to a Gateway of ours.
	Parents []gatewayv1.RouteParentStatus
	// Attached has the listeners that it is attached to, by Gateway.
	Attached map[snapshot.Ref][]string
}

// place is where the rules of a route apply: a listener of the routing table, and a
// host name.
type place struct {
	listener route.ListenerID
	host     string
}

// httpRoute is the working state for one route. A GRPCRoute is read as an HTTPRoute.
type httpRoute struct {
	view   *snapshot.View
	object *gatewayv1.HTTPRoute
	// kind is that of the object that it was written as.
	kind     gatewayv1.Kind
	backends resolve.BackendResolver
	route    *Route
	places   []place
	// unsupported is why the route is not accepted, empty if it is.
	unsupported string
	// unresolved is the condition of the first backendRef that does not resolve.
	unresolved *metav1.Condition
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
		view: view, object: object, kind: kind, backends: backends,
		route: &Route{Created: object.CreationTimestamp.Time, Attached: map[snapshot.Ref][]string{}},
	}
	for i := range object.Spec.ParentRefs {
		r.attach(&object.Spec.ParentRefs[i])
	}
	if r.route.Ours {
		r.addRules()
		r.finishStatus()
	}
	return r.route
}

// attach attaches the route to the listeners of a parent, if that is a Gateway of
// ours. Others are left to their controllers.
func (r *httpRoute) attach(ref *gatewayv1.ParentReference) {
	if or(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName || or(ref.Kind, kindGateway) != kindGateway {
		return
	}
	namespace := string(or(ref.Namespace, gatewayv1.Namespace(r.object.Namespace)))
	gateway := r.view.Gateway(namespace, string(ref.Name))
	if gateway == nil || !oursByClass(r.view, gateway.Spec.GatewayClassName) {
		return
	}
	r.route.Ours = true
	accepted := condition(gatewayv1.RouteConditionAccepted, gatewayv1.RouteReasonAccepted, "")
	if reason, message := r.attachTo(gateway, ref); reason != "" {
		accepted = failed(gatewayv1.RouteConditionAccepted, reason, message)
	}
	r.route.Parents = append(r.route.Parents, gatewayv1.RouteParentStatus{
		ParentRef: *ref, ControllerName: ControllerName, Conditions: []metav1.Condition{accepted},
	})
}

// attachTo attaches the route to the listeners of a Gateway that a reference selects,
// and that allow it. The reason is why there is none.
func (r *httpRoute) attachTo(gateway *gatewayv1.Gateway, ref *gatewayv1.ParentReference) (gatewayv1.RouteConditionReason, string) {
	at := snapshot.Ref{Kind: snapshot.Gateway, Namespace: gateway.Namespace, Name: gateway.Name}
	listeners := listenersOf(gateway)
	selected, allowed, attached := false, false, false
	for i := range listeners {
		l := &listeners[i]
		if ref.SectionName != nil && string(*ref.SectionName) != l.name || ref.Port != nil && uint16(*ref.Port) != l.port {
			continue
		}
		selected = true
		if !l.allows(r.view, gateway.Namespace, r.kind, r.object.Namespace) {
			continue
		}
		allowed = true
		hosts := r.hostsAt(l)
		if len(hosts) == 0 {
			continue
		}
		attached = true
		if !slices.Contains(r.route.Attached[at], l.name) {
			r.route.Attached[at] = append(r.route.Attached[at], l.name)
		}
		for _, host := range hosts {
			where := place{listenerID(gateway, l), host}
			if l.usable() && !l.isolated(listeners, host) && !slices.Contains(r.places, where) {
				r.places = append(r.places, where)
			}
		}
	}
	switch {
	case !selected:
		return gatewayv1.RouteReasonNoMatchingParent, "the Gateway has no listener with this sectionName and port"
	case !allowed:
		return gatewayv1.RouteReasonNotAllowedByListeners, "allowedRoutes of the listeners does not include this kind and namespace"
	case !attached:
		return gatewayv1.RouteReasonNoMatchingListenerHostname, "no host name of the route is one of the listeners"
	default:
		return "", ""
	}
}

// hostsAt returns the host names that the route has at a listener: those that both
// have. A route without host names has that of the listener.
func (r *httpRoute) hostsAt(l *listener) []string {
	if len(r.object.Spec.Hostnames) == 0 {
		return []string{l.hostname}
	}
	var hosts []string
	for _, written := range r.object.Spec.Hostnames {
		host, shared := intersect(l.hostname, resolve.SpellHost(string(written)))
		if shared && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
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
	outcome := &r.route.Outcome
	outcome.Rules = rules
	outcome.Grants = hostGrants(r.view, r.kind, r.object.Namespace, r.object.Name)
	for _, where := range r.places {
		if where.host != "" && !slices.Contains(outcome.Hosts, where.host) {
			outcome.Hosts = append(outcome.Hosts, where.host)
		}
	}
	slices.Sort(outcome.Hosts)
}

// rulesOf makes the rules of one rule of the route: one for each of its matches, in
// each place.
func (r *httpRoute) rulesOf(index int, written *gatewayv1.HTTPRouteRule) []*route.Rule {
	field := fmt.Sprintf("spec.rules[%d]", index)
	if written.SessionPersistence != nil {
		r.refuse(field, "sessionPersistence is not supported yet: remove it")
	}
	timeouts := r.timeouts(field+".timeouts", written.Timeouts)
	backends := r.backendRefs(field, written.BackendRefs)
	matches := written.Matches
	if len(matches) == 0 {
		matches = []gatewayv1.HTTPRouteMatch{{}}
	}
	var rules []*route.Rule
	for j := range matches {
		match := r.match(fmt.Sprintf("%s.matches[%d]", field, j), &matches[j])
		for k, where := range r.places {
			rule := &route.Rule{
				ID:       route.ID{Kind: string(r.kind), Namespace: r.object.Namespace, Name: r.object.Name, Rule: index, Path: j},
				Listener: where.listener, Host: where.host, Match: match, Created: r.route.Created, Timeouts: timeouts,
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
			case len(backends) == 0:
				rule.Response = &route.Response{Status: 500, Reason: route.ReasonNoService, Message: "the rule has no backend"}
				rule.Rewrite = nil
			default:
				rule.Backends = backends
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

// refuse records the first part of the route that is not supported.
func (r *httpRoute) refuse(field, message string) {
	if r.unsupported == "" {
		r.unsupported = field + ": " + message
	}
}

// finishStatus completes the status of each parent.
func (r *httpRoute) finishStatus() {
	resolved := condition(gatewayv1.RouteConditionResolvedRefs, gatewayv1.RouteReasonResolvedRefs, "")
	if r.unresolved != nil {
		resolved = *r.unresolved
	}
	for i := range r.route.Parents {
		parent := &r.route.Parents[i]
		if accepted := &parent.Conditions[0]; r.unsupported != "" && accepted.Status == metav1.ConditionTrue {
			*accepted = failed(gatewayv1.RouteConditionAccepted, gatewayv1.RouteReasonUnsupportedValue, r.unsupported)
		}
		parent.Conditions = observed(r.object.Generation, append(parent.Conditions, resolved)...)
	}
}
