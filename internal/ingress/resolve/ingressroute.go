package resolve

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/ingress/traefik/rule"
	"slipway.dev/slipway/internal/route"
)

// crossOption is the option that lets routes of Traefik refer to other namespaces.
const crossOption = "providers.kubernetesCRD.allowCrossNamespace"

// RouteBackends resolves the backends of routes, which have settings for each use of a
// Service.
type RouteBackends interface {
	BackendResolver
	// SummaryWith is Summary for a backend with settings, which its variant stands for.
	// They replace those of the Service.
	SummaryWith(id route.BackendID, settings *annotation.Service) BackendSummary
}

// IngressRoute resolves an IngressRoute as Ingress resolves an Ingress. One of the older
// group is not ours if the current group has one of its name.
func IngressRoute(view *snapshot.View, at snapshot.Ref, options Options, backends RouteBackends) *ResolvedIngress {
	r, object := newRouteResolver(view, at, options, backends)
	if r.resolved.Ours {
		r.read(object, traefik.IngressRoute(object))
	}
	return r.resolved
}

// newRouteResolver returns the state for an object, and the object. One that is not ours
// has no other state.
func newRouteResolver(view *snapshot.View, at snapshot.Ref, options Options, backends RouteBackends) (*routeResolver, *snapshot.Resource) {
	resolved := &ResolvedIngress{Ingress: at}
	r := &routeResolver{routes: backends, resolver: resolver{
		object: &networkingv1.Ingress{}, options: options, backends: backends, resolved: resolved,
		summaries: map[route.BackendID]BackendSummary{}, hosts: map[string]bool{}, noted: map[refusal.Refusal]bool{},
	}}
	object, _ := view.Resource(at.Kind, at.Namespace, at.Name)
	if object == nil || options.Traefik == nil || !oursByTraefik(object, options.Traefik) || superseded(view, at) {
		return r, object
	}
	resolved.Ours, resolved.AllowEmpty = true, options.AllowEmptyServices
	resolved.Created = latest
	if _, err := object.Created.MarshalText(); err == nil && !object.Deleting {
		resolved.Created = object.Created.UTC()
	}
	r.source = reference.Source{
		View: view, Namespace: at.Namespace, CrossNamespace: options.Traefik.CrossNamespace, CrossOption: crossOption, OldGroup: true,
	}
	return r, object
}

// oursByTraefik reports whether a route has the class of this provider.
func oursByTraefik(object *snapshot.Resource, options *TraefikOptions) bool {
	class := object.Annotations[classAnnotation]
	return class == options.IngressClass || options.IngressClass == "" && class == "traefik"
}

// superseded reports whether a route of the older group has a successor.
func superseded(view *snapshot.View, at snapshot.Ref) bool {
	current, old := snapshot.CurrentTraefikKind(at.Kind)
	if !old {
		return false
	}
	successor, _ := view.Resource(current, at.Namespace, at.Name)
	return successor != nil
}

// routeResolver is the working state for one IngressRoute.
type routeResolver struct {
	resolver
	routes RouteBackends
}

// read resolves the routes, and TLS for the hosts that they have.
func (r *routeResolver) read(object *snapshot.Resource, decoded traefik.RouteObject) {
	for i := range decoded.Faults {
		r.closeAll(r.refuse(r.resolved.Ingress, &decoded.Faults[i]))
	}
	r.readRouteGrants(object)
	r.resolved.EntryPoints = decoded.EntryPoints
	for i := range decoded.Routes {
		r.readRoute(i, &decoded.Routes[i], syntaxOf(object, r.options.Traefik.Syntax))
	}
	if decoded.TLS != nil {
		r.resolved.EncryptedOnly = true
		r.checkEncryption("spec.tls")
		r.readRouteTLS(decoded.TLS)
	}
	r.finish()
}

// readRouteGrants reads the annotation that grants hosts to other namespaces.
func (r *routeResolver) readRouteGrants(object *snapshot.Resource) {
	const grants = "slipway.dev/host-grants"
	written, set := object.Annotations[grants]
	if !set {
		return
	}
	parsed, faults := annotation.ParseIngress(map[string]string{grants: written})
	for i := range faults {
		r.refuse(r.resolved.Ingress, &faults[i])
	}
	r.readGrants(parsed.HostGrants)
}

// syntaxOf returns the syntax of the rules of an object that name none. Those of the older
// group were written for version 2.
func syntaxOf(object *snapshot.Resource, given rule.Syntax) rule.Syntax {
	if _, old := snapshot.CurrentTraefikKind(object.Kind); old {
		return rule.V2
	}
	return given
}

// readRoute resolves one route. A rule that cannot be compiled has no place in the table,
// so the route is left out; other faults close it.
func (r *routeResolver) readRoute(index int, written *traefik.Route, syntax rule.Syntax) {
	if written.Syntax != "" {
		syntax = rule.Syntax(written.Syntax)
	}
	alternatives, err := rule.Compile(written.Rule, rule.Options{Syntax: syntax, SpellHost: SpellHost, SpellPath: SpellPath})
	if err != nil {
		r.refuseHere(written.Field+".match", refusal.Invalid, "%s", err)
		return
	}
	if len(r.resolved.Paths)+len(alternatives) > MaxRules {
		r.refuseHere(written.Field, refusal.TooLarge, "the routes make more than %d rules, and this one is not served: use several objects", MaxRules)
		return
	}
	match := &RouteMatch{Priority: written.Priority, Unrecorded: written.Unrecorded}
	if match.Priority == 0 {
		match.Priority = int32(len(written.Rule)) // as in Traefik
	}
	target := r.readTarget(written, match)
	before := len(r.resolved.Paths)
	for i := range alternatives {
		if !r.addAlternative(Path{Rule: index, Index: i, Target: target}, match, &alternatives[i], written.Field+".match") {
			r.resolved.Paths = r.resolved.Paths[:before] // a part of a rule is another rule
			return
		}
	}
}

// addAlternative adds the path of one alternative of a rule, unless the table cannot hold
// it.
func (r *routeResolver) addAlternative(path Path, common *RouteMatch, alternative *rule.Alternative, field string) bool {
	host, accepted := r.acceptHost(field, alternative.Host, true)
	if !accepted {
		return false
	}
	if problem := firstProblem(&route.Rule{Match: alternative.Match}); problem != "" {
		r.refuseHere(field, refusal.Invalid, "%s", problem)
		return false
	}
	if r.steps += steps(&alternative.Match); r.steps > MaxExpressionSteps {
		r.refuseHere(field, refusal.TooLarge, "the regular expressions of this object need more than %d steps, and those after them are not served: use several objects", MaxExpressionSteps)
		return false
	}
	if !r.hasRuleHost(host) {
		r.ruleHosts = append(r.ruleHosts, ruleHost{host, path.Rule})
	}
	own := *common
	own.Match = alternative.Match
	path.Host, path.Match, path.Route = host, alternative.Match.Path, &own
	r.resolved.Paths = append(r.resolved.Paths, path)
	return true
}

func (r *routeResolver) hasRuleHost(host string) bool {
	for i := range r.ruleHosts {
		if r.ruleHosts[i].host == host {
			return true
		}
	}
	return false
}

// steps sums the size of the regular expressions of a match.
func steps(match *route.Match) int {
	sum := 0
	value := func(v *route.ValueMatch) {
		if v != nil && v.Type == route.ValueRegexp {
			sum += route.ExpressionSteps(v.Value)
		}
	}
	path := func(p *route.PathMatch) {
		if p != nil && p.Type == route.PathRegexp {
			sum += route.ExpressionSteps(p.Value)
		}
	}
	path(&match.Path)
	for i := range match.Headers {
		value(&match.Headers[i])
	}
	for i := range match.Query {
		value(&match.Query[i])
	}
	for i := range match.Further {
		further := &match.Further[i]
		path(further.Path)
		value(further.Header)
		value(further.Query)
		if further.HostRegexp != "" {
			sum += route.ExpressionSteps(further.HostRegexp)
		}
	}
	return sum
}

// readRouteTLS resolves certificates and TLS options for the hosts of the rules and for
// the domains.
func (r *routeResolver) readRouteTLS(written *traefik.RouteTLS) {
	supplied := map[string]bool{}
	var used []pair
	for _, domain := range written.Domains {
		first := len(r.settings.domains)
		r.addDomain(domain.Main, domain.Field)
		for _, name := range domain.SANs {
			r.addDomain(name, domain.Field)
		}
		r.settings.together = append(r.settings.together, r.settings.domains[first:len(r.settings.domains):len(r.settings.domains)])
	}
	if written.SecretName != "" {
		const field = "spec.tls.secretName"
		found := r.readPair(written.SecretName)
		used = append(used, found)
		if found.fault != nil {
			r.refuse(r.resolved.Ingress, found.fault.At(field))
		}
		hosts := r.namedHosts()
		for _, host := range hosts {
			supplied[host] = true
		}
		switch {
		case found.certificate == nil:
		case len(hosts) > 0:
			r.resolved.Certificates = append(r.resolved.Certificates, CertificateUse{Certificate: found.certificate, Hosts: hosts, Field: field})
		case len(written.Domains) == 0:
			r.refuseHere(field, refusal.Invalid, "the rules have no host that the certificate could be for: list the hosts in tls.domains")
		}
	}
	r.addDomains(used)
	r.settings.certResolver, r.settings.certResolverField = written.CertResolver, "spec.tls.certResolver"
	r.readRequests(supplied)
	if written.Options != nil {
		r.settings.handshake = &objectName{snapshot.TraefikTLSOption, written.Options.Text, written.Options.Field}
	}
	r.readHandshakes()
}

// routePolicies resolves the Middlewares of a route. Any fault closes the route, because
// policies restrict access.
func (r *routeResolver) routePolicies(written *traefik.Route) ([]route.Policy, *refusal.Refusal) {
	if len(written.Middlewares) > route.MaxPolicies {
		return nil, r.refuseHere(written.Field+".middlewares", refusal.TooLarge, "there are %d middlewares: name at most %d", len(written.Middlewares), route.MaxPolicies)
	}
	var policies []route.Policy
	for _, name := range written.Middlewares {
		found, fault := r.policiesOf(objectName{snapshot.TraefikMiddleware, name.Text, name.Field})
		if fault != nil {
			return nil, fault
		}
		policies = append(policies, found...)
	}
	return policies, nil
}

// checkRoute validates policies and shares of a route, and resolves the backends of its
// policies.
func (r *routeResolver) checkRoute(written *traefik.Route, match *RouteMatch) *refusal.Refusal {
	probe := route.Rule{ID: route.ID{Name: "probe"}, Policies: match.Policies, Sticky: match.Sticky}
	for i := range match.Shares {
		probe.Backends = append(probe.Backends, route.BackendRef{Backend: route.BackendID{Name: fmt.Sprint("share-", i)}, Weight: match.Shares[i].Weight, Fallback: match.Shares[i].Fallback})
	}
	if len(probe.Backends) == 0 {
		probe.Backends = []route.BackendRef{{Backend: route.BackendID{Name: "probe"}}}
	}
	if problems := probe.Validate(); len(problems) > 0 {
		fault := reference.RefusalOf(problems[0], written.Field)
		return r.refuseHere(written.Field, fault.Reason, "the routing table cannot hold it: %s", problems[0].Text())
	}
	for id := range probe.BackendIDs {
		if id.Namespace == "" {
			continue // a probe
		}
		if summary := r.summaryOf(id); summary.Closed != nil {
			return r.refuseHere(written.Field, summary.Closed.Reason, "the Service %s/%s of a policy cannot be used: %s", id.Namespace, id.Name, summary.Closed.Text())
		}
	}
	return nil
}
