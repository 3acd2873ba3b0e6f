package translate

import (
	"cmp"
	"fmt"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// defaultVariant tells the rule of a default backend from that of the path
// whose position it has.
const defaultVariant = "default"

// Ingress says what becomes of an Ingress. One that is not ours asks for nothing.
func Ingress(site *resolve.ResolvedIngress) Outcome {
	if !site.Ours {
		return Outcome{}
	}
	t := translation{resolved: site, closed: site.Closed}
	t.outcome = Outcome{Hosts: site.Hosts, Backends: site.Backends, Requests: site.Requests, Refusals: site.Refusals}
	t.checkPolicies()
	for i := range site.Paths {
		t.add(&site.Paths[i])
	}
	for i := range site.Certificates {
		use := &site.Certificates[i]
		t.outcome.Certificates = append(t.outcome.Certificates, CertificateClaim{
			Certificate: use.Certificate, Hosts: use.Hosts, Ingress: site.Ingress, Created: site.Created, Field: use.Field,
		})
	}
	for i := range site.Handshakes {
		use := &site.Handshakes[i]
		t.outcome.Options = append(t.outcome.Options, OptionsClaim{
			Conditions: use.Conditions, Hosts: use.Hosts, Ingress: site.Ingress, Created: site.Created, Field: use.Field, Refused: use.Closed,
		})
	}
	return t.outcome
}

// translation is the work on one Site.
type translation struct {
	resolved *resolve.ResolvedIngress
	// closed says why no path may be served; nil when they may.
	closed  *snapshot.Fault
	outcome Outcome
}

// checkPolicies closes the Ingress when its policies are none that a rule can
// have. They are looked at once and not for each path: there can be many paths.
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

// add gives the rule of a path, unless the table could not hold it.
func (t *translation) add(path *resolve.Path) {
	rule := t.place(path)
	t.respond(rule, path)
	if problem := t.problemOf(rule); problem != nil {
		rule = t.place(path)
		rule.Response = refused(t.refuse(fieldOf(path), *problem))
		if t.problemOf(rule) != nil {
			return // not what it does is wrong, but where it stands
		}
	}
	t.outcome.Rules = append(t.outcome.Rules, rule)
}

// place makes the rule without what it does.
func (t *translation) place(path *resolve.Path) *route.Rule {
	site := t.resolved
	rule := &route.Rule{
		ID: route.ID{
			Kind: string(site.Ingress.Kind), Namespace: site.Ingress.Namespace, Name: site.Ingress.Name,
			Rule: path.Rule, Path: path.Index,
		},
		EntryPoints: site.EntryPoints,
		Host:        path.Host,
		Match:       route.Match{Path: path.Match},
		Priority:    site.Priority,
		Created:     site.Created,
		Unrecorded:  site.Unrecorded,
	}
	if site.EncryptedOnly {
		rule.Match.Scheme = route.SchemeHTTPS
	}
	if path.Default {
		rule.ID.Variant = defaultVariant
		// Priority comes before the host: one above 0 would take the requests of
		// everybody's rules.
		rule.Priority = min(rule.Priority, 0)
		// A fallback has no conditions. With one it is a rule without a path, which
		// comes after all others of its host too.
		rule.Fallback = !site.EncryptedOnly
	}
	return rule
}

// respond says what the rule does. What is wrong with the Ingress is told before
// what is wrong with the path.
func (t *translation) respond(rule *route.Rule, path *resolve.Path) {
	target := &path.Target
	switch {
	case t.closed != nil:
		rule.Response = refused(t.closed)
	case target.Closed != nil:
		rule.Response = refused(target.Closed)
	case target.Missing != nil:
		rule.Response = unavailable(route.ReasonNoService, target.Missing.Message)
	case target.Empty && !t.resolved.AllowEmpty:
		rule.Response = unavailable(route.ReasonNoEndpoint, fmt.Sprintf("the Service %s/%s has no ready endpoint", target.Backend.Namespace, target.Backend.Name))
	default:
		rule.Backends = []route.BackendRef{{Backend: target.Backend}}
		rule.Policies = t.resolved.Policies
		rule.Timeouts = timeouts(t.resolved.Timeouts, target.Timeouts)
	}
}

// timeouts are those of the Ingress, and the backend's where it says nothing.
func timeouts(ingress, backend route.Timeouts) route.Timeouts {
	return route.Timeouts{
		Connect: cmp.Or(ingress.Connect, backend.Connect),
		Header:  cmp.Or(ingress.Header, backend.Header),
		Idle:    cmp.Or(ingress.Idle, backend.Idle),
		Total:   cmp.Or(ingress.Total, backend.Total),
	}
}

// problemOf gives the first problem of a rule. Its policies were looked at
// before.
func (t *translation) problemOf(rule *route.Rule) *route.Problem {
	bare := *rule
	bare.Policies = nil
	if problems := bare.Validate(); len(problems) > 0 {
		return &problems[0]
	}
	return nil
}

// refuse notes a problem that package resolve did not find.
func (t *translation) refuse(field string, problem route.Problem) *snapshot.Fault {
	fault := snapshot.Fault{Field: field, Reason: snapshot.Invalid, Message: "the routing table cannot hold it: " + problem.Field + ": " + problem.Message}
	if problem.Fault == route.FaultTooMany {
		fault.Reason = snapshot.TooLarge
	}
	// Full to the limit, the list says already that there is more.
	if len(t.outcome.Refusals) < resolve.MaxRefusals {
		t.outcome.Refusals = append(t.outcome.Refusals[:len(t.outcome.Refusals):len(t.outcome.Refusals)], snapshot.Refusal{Object: t.resolved.Ingress, Fault: fault})
	}
	return &fault
}

func refused(fault *snapshot.Fault) *route.Response {
	return unavailable(route.ReasonRefused, fault.Error())
}

func unavailable(reason route.Reason, message string) *route.Response {
	return &route.Response{Status: 503, Reason: reason, Message: message}
}

// fieldOf is the place of a path in its Ingress.
func fieldOf(path *resolve.Path) string {
	if path.Default {
		return "spec.defaultBackend"
	}
	return fmt.Sprintf("spec.rules[%d].http.paths[%d]", path.Rule, path.Index)
}
