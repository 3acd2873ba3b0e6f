package controller

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// anyAddress has the addresses of Gateways where the options have none: the first is
// for documentation and is assigned, and the others accept the ones that Gateways
// request. No address is listened on.
var anyAddress = []string{"192.0.2.0/24", "0.0.0.0/0", "::/0"}

// serveGateways enables the provider of Gateway API, unless the options are those of
// an edge for some namespaces: it reads all Namespaces.
func (o *Offline) serveGateways() {
	options := *o.Options
	k := options.Providers.KubernetesIngress
	if options.Providers.KubernetesGateway != nil && len(options.Providers.KubernetesGateway.Addresses) > 0 ||
		len(o.Files) == 0 && (len(k.Namespaces) > 0 || k.DisableClusterScopeResources) {
		return
	}
	options.Providers.KubernetesGateway = &config.KubernetesGateway{Addresses: anyAddress}
	o.Options = &options
}

// GatewaySites returns the Gateways, ListenerSets and routes that this edge serves, and
// those of other controllers, both sorted.
func (o *Offline) GatewaySites() (ours, others []snapshot.Ref) {
	for _, kind := range snapshot.GatewayKinds() {
		if kind != snapshot.Gateway && kind != snapshot.ListenerSet && !snapshot.IsGatewayRoute(kind) {
			continue
		}
		for namespace, name := range o.facts.Names(kind) {
			ref := snapshot.Ref{Kind: kind, Namespace: namespace, Name: name}
			if o.engine.Serves(ref) {
				ours = append(ours, ref)
			} else {
				others = append(others, ref)
			}
		}
	}
	slices.SortFunc(ours, snapshot.Ref.Compare)
	slices.SortFunc(others, snapshot.Ref.Compare)
	return ours, others
}

// gatewayFindings returns the problems of the objects of Gateway API: the conditions
// that the edge would write into their status, and routes without their Gateway.
func (o *Offline) gatewayFindings(missing finding.Severity) []manifest.Finding {
	var findings []manifest.Finding
	ours, others := o.GatewaySites()
	for _, ref := range ours {
		// What is a refusal too is a finding already, and a listener that is not
		// served has the reason in several conditions.
		refused, seen := map[string]bool{}, map[string]bool{}
		for _, found := range o.engine.Refusals() {
			refused[found.Text()] = refused[found.Text()] || snapshot.RefOf(found.Object) == ref
		}
		for field, c := range problemsOf(o.engine.GatewayStatus(ref)) {
			if refused[c.Message] || seen[field+c.Message] {
				continue
			}
			seen[field+c.Message] = true
			severity := finding.Error
			if slices.Contains(absences, c.Reason) {
				severity = missing
			}
			findings = append(findings, manifest.Finding{
				Severity: severity, File: o.Set.Files[ref], Object: ref.String(), Field: field, Reason: refusal.Reason(c.Reason), Message: c.Message,
			})
		}
	}
	for _, ref := range others {
		if route, ok := o.facts.GatewayObject(ref).(*gatewayv1.HTTPRoute); ok {
			findings = append(findings, o.parentFindings(ref, route, missing)...)
		}
	}
	return findings
}

// absences are the reasons of conditions about objects that may be in the cluster and
// not in the manifests.
var absences = []string{
	string(gatewayv1.RouteReasonBackendNotFound), string(gatewayv1.RouteReasonRefNotPermitted), string(gatewayv1.ListenerReasonInvalidCertificateRef),
}

// parentFindings returns a finding for each Gateway of a route that is not in the
// manifests: the route cannot be checked without it.
func (o *Offline) parentFindings(ref snapshot.Ref, route *gatewayv1.HTTPRoute, severity finding.Severity) []manifest.Finding {
	var findings []manifest.Finding
	for i, parent := range route.Spec.ParentRefs {
		if parent.Kind != nil && *parent.Kind != "Gateway" {
			continue
		}
		at := snapshot.Ref{Kind: snapshot.Gateway, Namespace: route.Namespace, Name: string(parent.Name)}
		if parent.Namespace != nil {
			at.Namespace = string(*parent.Namespace)
		}
		if !o.facts.Exists(at) {
			findings = append(findings, manifest.Finding{
				Severity: severity, File: o.Set.Files[ref], Object: ref.String(), Field: fmt.Sprintf("spec.parentRefs[%d]", i), Reason: refusal.NotFound,
				Message: fmt.Sprintf("the manifests have no Gateway %s/%s, so the route is not checked: add it with -f", at.Namespace, at.Name),
			})
		}
	}
	return findings
}

// problemsOf yields the conditions of a status that are not those of an object that
// is served as it is written, with the field that each is about.
func problemsOf(status engine.GatewayStatus) iter.Seq2[string, metav1.Condition] {
	return func(yield func(string, metav1.Condition) bool) {
		each := func(field string, conditions []metav1.Condition) bool {
			for _, c := range conditions {
				if isProblem(c) && !yield(field, c) {
					return false
				}
			}
			return true
		}
		if status.Set != nil {
			for i := range status.Set.Listeners {
				l := &status.Set.Listeners[i]
				if !each("spec.listeners["+string(l.Name)+"]", l.Conditions) {
					return
				}
			}
			each("", status.Set.Conditions)
			return
		}
		if status.Gateway != nil {
			for i := range status.Gateway.Listeners {
				l := &status.Gateway.Listeners[i]
				if !each("spec.listeners["+string(l.Name)+"]", l.Conditions) {
					return
				}
			}
			each("", status.Gateway.Conditions)
			return
		}
		for i := range status.Parents {
			if !each("spec.parentRefs["+string(status.Parents[i].ParentRef.Name)+"]", status.Parents[i].Conditions) {
				return
			}
		}
	}
}

// isProblem reports whether a condition is a problem of its own. Programmed follows
// from the others, but for addresses, and that of a Gateway from its listeners.
func isProblem(c metav1.Condition) bool {
	bad := metav1.ConditionFalse
	if c.Type == string(gatewayv1.ListenerConditionConflicted) {
		bad = metav1.ConditionTrue
	}
	switch {
	case c.Status != bad || c.Reason == string(gatewayv1.GatewayReasonListenersNotValid):
		return false
	case c.Type == string(gatewayv1.GatewayConditionProgrammed):
		return c.Reason == string(gatewayv1.GatewayReasonAddressNotUsable) || c.Reason == string(gatewayv1.GatewayReasonAddressNotAssigned)
	default:
		return true
	}
}

// unservedListeners returns why listeners with a host do not accept connections: one that
// waits for its certificate has no place in the table that could be explained.
func (o *Offline) unservedListeners(host string) []manifest.Finding {
	var findings []manifest.Finding
	ours, _ := o.GatewaySites()
	for _, ref := range ours {
		status := o.engine.GatewayStatus(ref)
		conditions := map[gatewayv1.SectionName][]metav1.Condition{}
		hosts := map[gatewayv1.SectionName]*gatewayv1.Hostname{}
		switch object := o.facts.GatewayObject(ref).(type) {
		case *gatewayv1.Gateway:
			for i := range object.Spec.Listeners {
				hosts[object.Spec.Listeners[i].Name] = object.Spec.Listeners[i].Hostname
			}
			for _, l := range status.Gateway.Listeners {
				conditions[l.Name] = l.Conditions
			}
		case *gatewayv1.ListenerSet:
			for i := range object.Spec.Listeners {
				hosts[object.Spec.Listeners[i].Name] = object.Spec.Listeners[i].Hostname
			}
			for _, l := range status.Set.Listeners {
				conditions[l.Name] = l.Conditions
			}
		}
		for _, name := range slices.Sorted(maps.Keys(conditions)) {
			if hosts[name] == nil {
				continue
			}
			if _, shared := gateway.Intersect(resolve.SpellHost(string(*hosts[name])), host); !shared {
				continue
			}
			for _, c := range conditions[name] {
				if c.Type == string(gatewayv1.ListenerConditionProgrammed) && c.Status == metav1.ConditionFalse {
					findings = append(findings, manifest.Finding{
						Object: ref.String(), Field: "spec.listeners[" + string(name) + "]", Reason: refusal.Reason(c.Reason), Message: c.Message,
					})
				}
			}
		}
	}
	return findings
}
