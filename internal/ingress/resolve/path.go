package resolve

import (
	"cmp"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// readRules resolves spec.rules. A refused rule or path does not affect the
// others.
func (r *resolver) readRules() {
	beyond := 0
	known := map[string]bool{}
	for i := range r.object.Spec.Rules {
		rule := &r.object.Spec.Rules[i]
		host, accepted := r.acceptHost(fmt.Sprintf("spec.rules[%d].host", i), rule.Host, true)
		if !accepted {
			continue
		}
		if !known[host] {
			known[host] = true
			r.ruleHosts = append(r.ruleHosts, ruleHost{host, i})
		}
		if rule.HTTP == nil {
			continue // all its traffic goes to the default backend, if there is one
		}
		for j := range rule.HTTP.Paths {
			if len(r.resolved.Paths) == MaxRules {
				beyond += len(rule.HTTP.Paths) - j
				break
			}
			r.readPath(Path{Rule: i, Index: j, Host: host}, &rule.HTTP.Paths[j])
		}
	}
	if beyond > 0 {
		r.refuseHere("spec.rules", refusal.TooLarge, "there are more than %d paths, and the last %d are not served: use several Ingresses", MaxRules, beyond)
	}
}

// acceptHost returns the canonical form of a host, and refuses an invalid one. An
// empty host means all hosts where empty is set.
func (r *resolver) acceptHost(field, written string, empty bool) (string, bool) {
	host := SpellHost(written)
	if host == "" && empty && written == "" {
		return "", true
	}
	if r.hosts[host] {
		return host, true
	}
	if host == "" {
		r.refuseHere(field, refusal.Invalid, "the host is empty: give its name")
		return "", false
	}
	if problem := hostProblem(host); problem != "" {
		r.refuseHere(field, refusal.Invalid, "%s", problem)
		return "", false
	}
	if len(r.hosts) == MaxHosts {
		r.refuseHere("spec", refusal.TooLarge, "there are more than %d hosts, and those after them are not served: use several Ingresses", MaxHosts)
		return "", false
	}
	r.hosts[host] = true
	return host, true
}

// readPath resolves one path.
func (r *resolver) readPath(path Path, written *networkingv1.HTTPIngressPath) {
	field := fmt.Sprintf("spec.rules[%d].http.paths[%d]", path.Rule, path.Index)
	if r.nginx != nil {
		r.locate(&path, written)
	}
	match, fault := r.matchOf(written)
	if fault != nil {
		r.refuse(r.resolved.Ingress, fault.At(field))
		return
	}
	if match.Type == route.PathRegexp {
		if r.steps += route.ExpressionSteps(match.Value); r.steps > MaxExpressionSteps {
			r.refuseHere(field+".path", refusal.TooLarge, "the regular expressions of this Ingress need more than %d steps, and those after them are not served: use several Ingresses", MaxExpressionSteps)
			return
		}
	}
	path.Match = match
	path.Target = r.targetOf(field+".backend", &written.Backend)
	if r.nginx != nil && r.addCanary(&path) {
		return
	}
	r.resolved.Paths = append(r.resolved.Paths, path)
}

// matchOf returns how a path is matched. The annotation for it applies only to
// paths of the type ImplementationSpecific.
func (r *resolver) matchOf(written *networkingv1.HTTPIngressPath) (route.PathMatch, *refusal.Refusal) {
	if r.nginx != nil && r.nginx.settings.Expressions(cmp.Or(written.Path, "/")) {
		return r.nginx.expression(written.Path)
	}
	prefix := route.PathCharacterPrefix
	if r.options.StrictPrefix || r.nginx != nil {
		prefix = route.PathPrefix
	}
	kind := networkingv1.PathTypeImplementationSpecific
	if written.PathType != nil {
		kind = *written.PathType
	}
	var match route.PathMatch
	switch kind {
	case networkingv1.PathTypeExact:
		match = route.PathMatch{Type: route.PathExact, Value: SpellPath(written.Path)}
	case networkingv1.PathTypePrefix:
		match = route.PathMatch{Type: prefix, Value: SpellPath(written.Path)}
	case networkingv1.PathTypeImplementationSpecific, "":
		switch {
		case r.nginx != nil:
			match = route.PathMatch{Type: route.PathPrefix, Value: SpellPath(cmp.Or(written.Path, "/"))}
		case written.Path == "":
			return route.PathMatch{}, nil
		case r.settings.matcher == route.PathRegexp:
			match = route.PathMatch{Type: route.PathRegexp, Value: anchored(written.Path)}
		case r.settings.matcher == route.PathExact:
			match = route.PathMatch{Type: route.PathExact, Value: SpellPath(written.Path)}
		default:
			match = route.PathMatch{Type: prefix, Value: SpellPath(written.Path)}
		}
	default:
		return route.PathMatch{}, refusal.New("pathType", refusal.Unsupported, "%s is none of Exact, Prefix, ImplementationSpecific", quoted(string(kind)))
	}
	if problem := pathProblem(match); problem != "" {
		return route.PathMatch{}, &refusal.Refusal{Field: "path", Reason: refusal.Invalid, Message: problem}
	}
	return match, nil
}

// readDefault resolves spec.defaultBackend. It takes the requests of the hosts of
// the rules that match no path; without rules, those of every host.
func (r *resolver) readDefault() {
	if r.object.Spec.DefaultBackend == nil {
		return
	}
	target := r.targetOf("spec.defaultBackend", r.object.Spec.DefaultBackend)
	hosts := r.ruleHosts
	if len(r.object.Spec.Rules) == 0 {
		hosts = []ruleHost{{}}
	}
	if r.nginx != nil && r.nginx.settings.Canary.Enabled {
		return // a canary has a share of paths alone
	}
	for i, at := range hosts {
		if len(r.resolved.Paths) == MaxRules {
			r.refuseHere("spec.defaultBackend", refusal.TooLarge,
				"there are more than %d paths, and %d hosts have no default backend: use several Ingresses", MaxRules, len(hosts)-i)
			return
		}
		r.resolved.Paths = append(r.resolved.Paths, r.defaultPath(at, target))
	}
}

// defaultPath returns the path of a default backend.
func (r *resolver) defaultPath(at ruleHost, target Target) Path {
	path := Path{Rule: at.rule, Host: at.host, Default: true, Target: target}
	if r.nginx != nil {
		path.Location = r.nginx.location(at.host, "/")
		path.Location.Default = true
		path.Directives = r.nginx.settings.Located("", r.nginx.before)
	}
	return path
}

// targetOf resolves the backend of a field of the Ingress. It must be in the
// Ingress's own namespace, regardless of allowCrossNamespace, as the Ingress API
// defines it.
func (r *resolver) targetOf(field string, written *networkingv1.IngressBackend) Target {
	switch {
	case written.Resource != nil:
		return Target{Closed: r.refuseHere(field+".resource", refusal.Unsupported, "a resource cannot be a backend here: name a Service")}
	case written.Service == nil:
		return Target{Closed: r.refuseHere(field, refusal.Invalid, "no backend is named: name a Service")}
	}
	if strings.Contains(written.Service.Name, "/") {
		return Target{Closed: r.refuseHere(field+".service", refusal.NotAllowed, "the Service of a path is one of the Ingress's own namespace: give its name alone")}
	}
	id, fault := r.source.Backend(written.Service.Name, written.Service.Port)
	if fault != nil {
		fault = r.refuse(r.resolved.Ingress, fault.At(field+".service"))
		if fault.Reason == refusal.NotFound {
			return Target{Missing: fault}
		}
		return Target{Closed: fault}
	}
	if r.nginx != nil {
		id.Variant = r.nginx.variant
	}
	summary := r.summaryOf(id)
	target := Target{Backend: id, Empty: summary.Empty, Timeouts: summary.Timeouts}
	if summary.Closed != nil {
		target.Closed = r.refuseHere(field+".service", summary.Closed.Reason, "the Service %s/%s cannot be used: %s", id.Namespace, id.Name, summary.Closed.Text())
	}
	return target
}
