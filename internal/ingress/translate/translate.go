package translate

import (
	"cmp"
	"fmt"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// DefaultVariant distinguishes the rule of a default backend from that of the path
// at the same position.
const DefaultVariant = "default"

// Ingress translates a resolved Ingress. One that is not ours has an empty outcome.
func Ingress(resolved *resolve.ResolvedIngress) Outcome {
	if !resolved.Ours {
		return Outcome{}
	}
	t := translation{resolved: resolved, closed: resolved.Closed}
	t.outcome = Outcome{
		Hosts: resolved.Hosts, Grants: resolved.Grants, Backends: resolved.Backends, Requests: resolved.Requests, Refusals: resolved.Refusals, Store: resolved.Store,
	}
	t.checkPolicies()
	if resolved.NGINX != nil {
		t.outcome.NGINX = &nginx.Outcome{
			TLSHosts: resolved.NGINX.TLSHosts, ExpressionHosts: resolved.NGINX.ExpressionHosts, Canaries: resolved.NGINX.Canaries,
			Server: resolved.NGINX.Server, Everywhere: resolved.NGINX.Everywhere,
			Locations: make([]nginx.Location, 0, len(resolved.Paths)),
		}
	}
	for i := range resolved.Paths {
		t.add(&resolved.Paths[i])
	}
	for i := range resolved.Streams {
		t.addStream(&resolved.Streams[i])
	}
	for i := range resolved.Certificates {
		use := &resolved.Certificates[i]
		t.outcome.Certificates = append(t.outcome.Certificates, CertificateClaim{
			Certificate: use.Certificate, Hosts: use.Hosts, Ingress: resolved.Ingress, Created: resolved.Created, Field: use.Field,
		})
	}
	for i := range resolved.Handshakes {
		use := &resolved.Handshakes[i]
		t.outcome.Options = append(t.outcome.Options, OptionsClaim{
			Conditions: use.Conditions, Hosts: use.Hosts, Ingress: resolved.Ingress, Created: resolved.Created, Field: use.Field, Refused: use.Closed,
		})
	}
	return t.outcome
}

// translation is the working state for one Ingress.
type translation struct {
	resolved *resolve.ResolvedIngress
	// closed is why no path may be served; nil if they may.
	closed  *refusal.Refusal
	outcome Outcome
}

// checkPolicies closes the Ingress if its policies are invalid in a rule. They are
// validated once and not for each path: there can be many paths.
func (t *translation) checkPolicies() {
	if t.closed != nil {
		return
	}
	probe := route.Rule{
		ID: route.ID{Name: "probe"}, Response: &route.Response{Status: 503},
		Policies: t.resolved.Policies, Timeouts: t.resolved.Timeouts,
	}
	if problems := probe.Validate(); len(problems) > 0 {
		t.closed = t.refuse("metadata.annotations", problems[0])
	}
}

// add adds the rule of a path. An invalid rule is replaced by one that returns 503,
// and dropped if its match is invalid.
func (t *translation) add(path *resolve.Path) {
	rule := t.place(path)
	t.respond(rule, path)
	if problem := t.problemOf(rule, path); problem != nil {
		rule = t.place(path)
		rule.Response = refused(t.refuse(fieldOf(path), *problem))
		if t.problemOf(rule, path) != nil {
			return // the match itself is invalid
		}
	}
	t.outcome.Rules = append(t.outcome.Rules, rule)
	if path.Location != nil {
		t.outcome.NGINX.Locations = append(t.outcome.NGINX.Locations, *path.Location)
	}
}

// place returns the rule with identity and match, without an action.
func (t *translation) place(path *resolve.Path) *route.Rule {
	resolved := t.resolved
	rule := &route.Rule{
		ID: route.ID{
			Kind: snapshot.RuleKind(resolved.Ingress.Kind), Namespace: resolved.Ingress.Namespace, Name: resolved.Ingress.Name,
			Rule: path.Rule, Path: path.Index, Variant: path.Variant,
		},
		EntryPoints: resolved.EntryPoints,
		Host:        path.Host,
		Match:       route.Match{Path: path.Match},
		Priority:    resolved.Priority,
		Created:     resolved.Created,
		Unrecorded:  resolved.Unrecorded,
	}
	if of := path.Route; of != nil {
		rule.Match, rule.Priority, rule.Unrecorded = of.Match, of.Priority, of.Unrecorded
	}
	if resolved.EncryptedOnly {
		rule.Match.Scheme = route.SchemeHTTPS
	}
	if path.Default {
		rule.ID.Variant = DefaultVariant
		// Priority is compared before the host: above 0 it would take the requests
		// of all other rules.
		rule.Priority = min(rule.Priority, 0)
		// A fallback has no conditions. With the scheme as a condition it is a rule
		// without a path, which also comes after all others of its host.
		rule.Fallback = !resolved.EncryptedOnly
	}
	return rule
}

// respond sets the action of a rule: proxy, or return 503. A fault of the Ingress
// takes precedence over one of the path.
func (t *translation) respond(rule *route.Rule, path *resolve.Path) {
	target := &path.Target
	switch {
	case t.closed != nil:
		rule.Response = refused(t.closed)
	case path.Response != nil:
		rule.Response = path.Response
	case target.Closed != nil:
		rule.Response = refused(target.Closed)
	case target.Missing != nil:
		rule.Response, rule.Directives = unavailable(route.ReasonNoService, target.Missing.Message), path.Directives
	case target.Empty && !t.resolved.AllowEmpty:
		rule.Response = unavailable(route.ReasonNoEndpoint, fmt.Sprintf("the Service %s/%s has no ready endpoint", target.Backend.Namespace, target.Backend.Name))
		rule.Directives = path.Directives
	case path.Route != nil && path.Route.Response != nil:
		rule.Response, rule.Policies = path.Route.Response, path.Route.Policies
	case path.Route != nil:
		t.respondRoute(rule, path)
	default:
		rule.Backends = []route.BackendRef{{Backend: target.Backend}}
		rule.Policies = t.resolved.Policies
		if len(path.Policies) > 0 {
			rule.Policies = slices.Concat(rule.Policies, path.Policies)
		}
		rule.Rewrite, rule.Directives = path.Rewrite, path.Directives
		rule.Timeouts = timeouts(t.resolved.Timeouts, target.Timeouts)
	}
}

// respondRoute sets the backends of a route of Traefik. The share of a target without a
// backend gets a 503.
func (t *translation) respondRoute(rule *route.Rule, path *resolve.Path) {
	of, target := path.Route, path.Target
	rule.Policies, rule.Sticky = of.Policies, of.Sticky
	if len(of.Shares) == 0 {
		rule.Backends = []route.BackendRef{{Backend: target.Backend}}
	}
	missing := route.BackendRef{Status: 503}
	for i := range of.Shares {
		share := &of.Shares[i]
		if share.Target.Closed != nil || share.Target.Missing != nil {
			missing.Weight += share.Weight
			continue
		}
		rule.Backends = append(rule.Backends, route.BackendRef{Backend: share.Target.Backend, Weight: share.Weight, Fallback: share.Fallback})
		if target.Timeouts == (route.Timeouts{}) {
			target = share.Target
		}
	}
	if rule.Sticky != nil && slices.ContainsFunc(rule.Backends, weighs) {
		// A weight of 0 moves the clients of a Service to the others, as in Traefik.
		rule.Backends = slices.DeleteFunc(rule.Backends, func(ref route.BackendRef) bool { return !weighs(ref) && !ref.Fallback })
	}
	if missing.Weight > 0 {
		rule.Backends = append(rule.Backends, missing)
	}
	rule.Timeouts = timeouts(t.resolved.Timeouts, target.Timeouts)
}

// weighs reports whether a backend gets requests by its weight.
func weighs(ref route.BackendRef) bool { return ref.Weight > 0 }

// addStream adds a route of connections. With a fault, its connections are closed.
func (t *translation) addStream(stream *resolve.Stream) {
	resolved := t.resolved
	tcp := &route.TCPRoute{
		ID: route.TCPRouteID{
			Kind: snapshot.RuleKind(resolved.Ingress.Kind), Namespace: resolved.Ingress.Namespace, Name: resolved.Ingress.Name,
			Rule: stream.Rule, Path: stream.Index,
		},
		EntryPoints: resolved.EntryPoints, ServerName: stream.ServerName, TLS: stream.Mode, Priority: stream.Priority, Created: resolved.Created,
	}
	closed := route.BackendRef{Status: 503}
	if t.closed != nil || stream.Closed != nil {
		closed.Weight = 1
	} else {
		tcp.Policies = stream.Policies
		for i := range stream.Shares {
			share := &stream.Shares[i]
			if share.Target.Closed != nil || share.Target.Missing != nil {
				closed.Weight += max(share.Weight, 1)
				continue
			}
			tcp.Backends = append(tcp.Backends, route.BackendRef{Backend: share.Target.Backend, Weight: share.Weight})
			tcp.Timeouts = timeouts(tcp.Timeouts, share.Target.Timeouts)
		}
	}
	if closed.Weight > 0 {
		tcp.Backends = append(tcp.Backends, closed)
	}
	if problems := tcp.Validate(); len(problems) > 0 {
		t.refuse(fmt.Sprintf("spec.routes[%d]", stream.Rule), problems[0])
		return
	}
	t.outcome.TCPRoutes = append(t.outcome.TCPRoutes, tcp)
}

// timeouts merges the timeouts of the Ingress and, where those are unset, of the
// backend.
func timeouts(ingress, backend route.Timeouts) route.Timeouts {
	return route.Timeouts{
		Connect: cmp.Or(ingress.Connect, backend.Connect),
		Header:  cmp.Or(ingress.Header, backend.Header),
		Idle:    cmp.Or(ingress.Idle, backend.Idle),
		Total:   cmp.Or(ingress.Total, backend.Total),
	}
}

// problemOf returns the first problem of a rule, or nil. checkPolicies has
// validated the policies of the Ingress, and those of the path are few.
func (t *translation) problemOf(rule *route.Rule, path *resolve.Path) *route.Problem {
	bare := *rule
	bare.Policies = nil
	if rule.Response == nil {
		bare.Policies = path.Policies
	}
	if problems := bare.Validate(); len(problems) > 0 {
		return &problems[0]
	}
	return nil
}

// refuse records a problem that package resolve did not find.
func (t *translation) refuse(field string, problem route.Problem) *refusal.Refusal {
	fault := reference.RefusalOf(problem, field).Of(t.resolved.Ingress.Object())
	fault.Message = "the routing table cannot hold it: " + problem.Text()
	// At the limit the list ends with a refusal about those that are omitted.
	if len(t.outcome.Refusals) < resolve.MaxRefusals {
		t.outcome.Refusals = append(t.outcome.Refusals[:len(t.outcome.Refusals):len(t.outcome.Refusals)], fault)
	}
	return &fault
}

func refused(fault *refusal.Refusal) *route.Response {
	return unavailable(route.ReasonRefused, fault.Text())
}

func unavailable(reason route.Reason, message string) *route.Response {
	return &route.Response{Status: 503, Reason: reason, Message: message}
}

// fieldOf returns the field of a path in its Ingress.
func fieldOf(path *resolve.Path) string {
	if path.Route != nil {
		return fmt.Sprintf("spec.routes[%d]", path.Rule)
	}
	if path.Default {
		return "spec.defaultBackend"
	}
	return fmt.Sprintf("spec.rules[%d].http.paths[%d]", path.Rule, path.Index)
}
