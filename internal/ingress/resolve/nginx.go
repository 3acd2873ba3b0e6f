package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/policy"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// nginxState is the working state for an Ingress of ingress-nginx.
type nginxState struct {
	settings *nginx.Settings
	id       route.PolicyID
	// policies come first; those before the redirect to https are at their start.
	policies []route.Policy
	before   int
	// variant is that of the backends.
	variant string
}

// readNGINX parses the annotations of ingress-nginx. Annotations of slipway.dev count,
// too, and come behind them.
func (r *resolver) readNGINX() {
	parsed := r.options.NGINX.parser.Parse(r.object.Annotations, r.options.NGINX.Defaults)
	settings := parsed.Settings
	for i := range parsed.Faults {
		r.refuse(r.resolved.Ingress, &parsed.Faults[i])
	}
	if parsed.Closed {
		r.closeAll(annotationFault(parsed.Faults))
	}
	name := r.resolved.Ingress.Name
	r.nginx = &nginxState{
		settings: settings, variant: settings.VariantFor(name, r.options.NGINX.Defaults),
		id: route.PolicyID{Kind: string(snapshot.Ingress), Namespace: r.resolved.Ingress.Namespace, Name: name},
	}
	r.resolved.NGINX = &nginx.Outcome{Server: settings.Snippets.Server, Everywhere: settings.Snippets.Everywhere}
	own := r.resolved.Timeouts
	r.resolved.Timeouts.Connect = cmp.Or(own.Connect, settings.Timeouts.Connect)
	r.resolved.Timeouts.Header = cmp.Or(own.Header, settings.Timeouts.Header)
	r.resolved.Timeouts.Idle = cmp.Or(own.Idle, settings.Timeouts.Idle)
	r.resolved.Unrecorded.AccessLog = r.resolved.Unrecorded.AccessLog || settings.NoAccessLog
	if parsed.Policies != nil {
		r.nginx.policies, r.nginx.before = parsed.Policies, len(parsed.Before)
	} else {
		r.nginx.policies = make([]route.Policy, 0, len(parsed.Before)+len(parsed.After))
		r.addSteps(parsed.Before)
		r.nginx.before = len(r.nginx.policies)
		r.addSteps(parsed.After)
	}
	r.addErrorPages(&settings.Errors)
	r.addExternalAuth()
}

// addErrorPages adds the pages of a Service, with its first port. Without the Service the
// Ingress is served with its own pages.
func (r *resolver) addErrorPages(errors *nginx.Errors) {
	if errors.Service == "" {
		return
	}
	namespace, field := r.source.Namespace, nginx.FieldOf("default-backend")
	service := r.source.View.Service(namespace, errors.Service)
	if service == nil || len(service.Spec.Ports) == 0 {
		r.refuseHere(field, refusal.NotFound, "there is no Service %s/%.120s with a port: create it", namespace, errors.Service)
		return
	}
	made := errors.Pages(r.nginx.id, uint16(service.Spec.Ports[0].Port))
	r.nginx.policies = append(r.nginx.policies, *made)
	r.resolved.AllowEmpty = true // a page takes the place of the 503
}

// addSteps adds the policies of steps. A fault closes the Ingress.
func (r *resolver) addSteps(steps []nginx.Step) {
	for i := range steps {
		step := &steps[i]
		id := r.nginx.id
		if step.Filter == nil {
			id.Variant = step.Policy.ID.Variant
			r.nginx.policies = append(r.nginx.policies, step.Policy)
			r.nginx.policies[len(r.nginx.policies)-1].ID = id
			continue
		}
		made, faults := policy.Filters([]v1alpha1.Filter{*step.Filter}, id, r.source)
		for _, fault := range faults {
			r.closeAll(r.refuseHere(nginx.FieldOf(step.Annotation), fault.Reason, "%s", fault.Message))
		}
		for j := range made {
			made[j].ID.Variant = "nginx-" + step.Annotation
		}
		r.nginx.policies = append(r.nginx.policies, made...)
	}
}

// locate sets what the rule of a path depends on besides its match.
func (r *resolver) locate(path *Path, written *networkingv1.HTTPIngressPath) {
	text := cmp.Or(written.Path, "/")
	path.Location = r.nginx.location(path.Host, text)
	path.Location.Exact = written.PathType != nil && *written.PathType == networkingv1.PathTypeExact
	path.Location.Expressions = r.nginx.settings.Expressions(text)
	if path.Location.Expressions && !r.nginx.settings.Canary.Enabled && !slices.Contains(r.resolved.NGINX.ExpressionHosts, path.Host) {
		r.resolved.NGINX.ExpressionHosts = append(r.resolved.NGINX.ExpressionHosts, path.Host)
	}
	path.Policies = r.nginx.settings.Rewriting(r.nginx.id, text)
	path.Directives = r.nginx.settings.Located(text, r.nginx.before)
	if host := r.nginx.settings.Host; host != "" {
		path.Rewrite = &route.Rewrite{Host: host}
	}
}

// location returns a location with the redirect to https.
func (n *nginxState) location(host, path string) *nginx.Location {
	at := &nginx.Location{Host: host, Path: path, At: n.before, Force: n.settings.TLS.Force}
	at.ToTLS, at.Header = n.settings.ToTLS(n.id, path)
	return at
}

// expression returns the match of a path that is an expression.
func (n *nginxState) expression(path string) (route.PathMatch, *refusal.Refusal) {
	path = cmp.Or(path, "/")
	if problem := nginx.ExpressionProblem(path); problem != "" {
		return route.PathMatch{}, refusal.New("path", refusal.Unsupported, "%s", problem)
	}
	return route.PathMatch{Type: route.PathRegexp, Value: nginx.Expression(path)}, nil
}

// addCanary adds a path of a canary, and reports whether the Ingress is one. A canary
// without a backend is left out: its main backend gets all requests.
func (r *resolver) addCanary(path *Path) bool {
	settings := &r.nginx.settings.Canary
	if !settings.Enabled {
		return false
	}
	target := &path.Target
	if target.Closed == nil && target.Missing == nil && !target.Empty && r.resolved.Closed == nil {
		r.resolved.NGINX.Canaries = append(r.resolved.NGINX.Canaries, nginx.Canary{
			Host: path.Host, Path: path.Location.Path, Exact: path.Location.Exact, Backend: target.Backend, Settings: *settings,
		})
	}
	return true
}

// finishNGINX adds the rules for further hosts, when those of the Ingress are known.
func (r *resolver) finishNGINX() {
	if r.nginx == nil {
		return
	}
	r.resolved.NGINX.TLSHosts = r.tlsNames()
	if r.nginx.settings.Canary.Enabled {
		return
	}
	own := r.resolved.Paths
	expressions := len(r.resolved.NGINX.ExpressionHosts) > 0
	for i, alias := range r.nginx.settings.Aliases {
		host, accepted := r.acceptHost(nginx.FieldOf("server-alias"), alias, false)
		if !accepted {
			continue
		}
		if expressions {
			r.resolved.NGINX.ExpressionHosts = append(r.resolved.NGINX.ExpressionHosts, host)
		}
		for j := range own {
			r.addGuest(own[j], host, fmt.Sprintf("alias-%d", i+1))
		}
	}
	if r.nginx.settings.TLS.WWW {
		r.addWWW()
	}
}

// addGuest adds a copy of a path for another host.
func (r *resolver) addGuest(path Path, host, variant string) {
	if len(r.resolved.Paths) == MaxRules {
		r.refuseHere("spec.rules", refusal.TooLarge, "there are more than %d paths, those for further hosts included: use several Ingresses", MaxRules)
		return
	}
	at := *path.Location
	at.Guest, at.Host = true, host
	path.Location, path.Host, path.Variant = &at, host, variant
	// A rule without a host serves the alias already.
	r.resolved.Paths = append(r.resolved.Paths, path)
}

// addWWW adds the redirects from the hosts with or without www.
func (r *resolver) addWWW() {
	for i, at := range r.ruleHosts {
		if at.host == "" || strings.HasPrefix(at.host, "*.") {
			continue
		}
		other, with := strings.CutPrefix(at.host, "www.")
		if !with {
			other = "www." + at.host
		}
		host, accepted := r.acceptHost(nginx.FieldOf("from-to-www-redirect"), other, false)
		if !accepted {
			continue
		}
		r.addGuest(Path{
			Rule: at.rule, Match: route.PathMatch{Type: route.PathPrefix, Value: "/"},
			Response: &route.Response{
				Status: r.nginx.settings.TLS.Status, Reason: route.ReasonConfigured, Redirect: &route.Redirect{Host: at.host},
			},
			Location: &nginx.Location{Path: "/", Redirects: true},
		}, host, fmt.Sprintf("www-%d", i+1))
	}
}

// tlsNames returns the hosts of spec.tls, sorted; those of the rules for an entry without
// hosts.
func (r *resolver) tlsNames() []string {
	var hosts []string
	for i := range r.object.Spec.TLS {
		entry := &r.object.Spec.TLS[i]
		if len(entry.Hosts) == 0 {
			hosts = append(hosts, r.namedHosts()...)
		}
		for _, host := range entry.Hosts {
			hosts = append(hosts, SpellHost(host))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// readClientAuth resolves the client certificates of ingress-nginx's annotations, as a
// TLSOption of the namespace would. Its name has what it depends on, so that Ingresses
// with the same settings agree.
func (r *resolver) readClientAuth() {
	if r.nginx == nil || r.nginx.settings.ClientAuth.Secret == "" || r.nginx.settings.ClientAuth.Mode == "" {
		return
	}
	auth, field := &r.nginx.settings.ClientAuth, nginx.FieldOf("auth-tls-secret")
	spec := map[string]any{"mode": auth.Mode}
	if auth.Mode != "request" {
		spec["secrets"] = []any{auth.Secret}
	}
	object := &snapshot.Resource{
		Kind: snapshot.TLSOption, Namespace: r.resolved.Ingress.Namespace,
		Name: "nginx_" + auth.Mode + "_" + strings.ReplaceAll(auth.Secret, "/", "_"), Spec: map[string]any{"clientAuth": spec},
	}
	use := HandshakeUse{Field: field, Hosts: r.namedHosts()}
	conditions, faults := policy.TLSOption(object, r.source)
	use.Conditions = conditions
	if len(faults) > 0 {
		use.Closed = r.refuseHere(field, faults[0].Reason, "%s", faults[0].Message)
	}
	r.addHandshake(use)
}
