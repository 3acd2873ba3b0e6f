package gateway

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// allowsSet reports whether a ListenerSet may add listeners to a Gateway; by default none
// may.
func allowsSet(view *snapshot.View, gateway *gatewayv1.Gateway, set *gatewayv1.ListenerSet) bool {
	allowed := gateway.Spec.AllowedListeners
	if allowed == nil || allowed.Namespaces == nil {
		return false
	}
	return selects(view, or(allowed.Namespaces.From, gatewayv1.NamespacesFromNone), allowed.Namespaces.Selector, gateway.Namespace, set.Namespace)
}

// entriesOf returns the listeners of a ListenerSet in the form of a Gateway.
func entriesOf(set *gatewayv1.ListenerSet) []gatewayv1.Listener {
	listeners := make([]gatewayv1.Listener, len(set.Spec.Listeners))
	for i := range set.Spec.Listeners {
		entry := &set.Spec.Listeners[i]
		listeners[i] = gatewayv1.Listener{
			Name: entry.Name, Hostname: entry.Hostname, Port: entry.Port, Protocol: entry.Protocol, TLS: entry.TLS, AllowedRoutes: entry.AllowedRoutes,
		}
	}
	return listeners
}

// listenerName returns the name of a listener among all of its Gateway. No name of an
// object has a slash.
func listenerName(set *gatewayv1.ListenerSet, name gatewayv1.SectionName) string {
	if set == nil {
		return string(name)
	}
	return set.Namespace + "/" + set.Name + "/" + string(name)
}

// SetOfListener returns the ListenerSet of a listener with the name that routes have it by
// (Route.Attached), and false for a listener of the Gateway itself.
func SetOfListener(name string) (set snapshot.Ref, ofSet bool) {
	namespace, rest, ofSet := strings.Cut(name, "/")
	if !ofSet {
		return snapshot.Ref{}, false
	}
	set.Kind, set.Namespace = snapshot.ListenerSet, namespace
	set.Name, _, _ = strings.Cut(rest, "/")
	return set, true
}

// of reports whether the listener is of a ListenerSet; nil is the Gateway itself. The
// object may be of another version than when the listener was read.
func (l *listener) of(set *gatewayv1.ListenerSet) bool {
	if l.set == nil || set == nil {
		return l.set == set
	}
	return l.set.Namespace == set.Namespace && l.set.Name == set.Name
}

// hasUsable reports whether a ListenerSet, or the Gateway itself for nil, has a listener
// that traffic can come to, now or once its certificate is issued.
func (g *Gateway) hasUsable(set *gatewayv1.ListenerSet) bool {
	return slices.ContainsFunc(g.listeners, func(l listener) bool { return l.of(set) && l.serves() })
}

// serves reports whether traffic can come to the listener, now or once its certificate is
// issued.
func (l *listener) serves() bool {
	return l.usable() && !l.distrusts && (!l.bare || l.pending != "")
}

// attachedSets returns the number of ListenerSets that are accepted.
func (g *Gateway) attachedSets() int32 {
	sets := map[*gatewayv1.ListenerSet]bool{}
	for i := range g.listeners {
		if l := &g.listeners[i]; l.set != nil && l.serves() {
			sets[l.set] = true
		}
	}
	return int32(len(sets))
}

// SetStatus returns the status of a ListenerSet of the Gateway.
func (g *Gateway) SetStatus(set *gatewayv1.ListenerSet, facts Facts) gatewayv1.ListenerSetStatus {
	var status gatewayv1.ListenerSetStatus
	known, programmed, valid := false, false, true
	for i := range g.listeners {
		if !g.listeners[i].of(set) {
			continue
		}
		of := g.listenerStatus(i, facts)
		known, valid = true, valid && !hasFault(of.Conditions)
		for _, c := range of.Conditions {
			programmed = programmed || c.Type == string(gatewayv1.ListenerConditionProgrammed) && c.Status == metav1.ConditionTrue
		}
		status.Listeners = append(status.Listeners, gatewayv1.ListenerEntryStatus(of))
	}
	accept, program := gatewayv1.ListenerSetConditionAccepted, gatewayv1.ListenerSetConditionProgrammed
	both := func(reason gatewayv1.ListenerSetConditionReason, message string) []metav1.Condition {
		return []metav1.Condition{failed(accept, reason, message), failed(program, reason, message)}
	}
	conditions := []metav1.Condition{condition(accept, gatewayv1.ListenerSetReasonAccepted, ""), condition(program, gatewayv1.ListenerSetReasonProgrammed, "")}
	switch {
	case !known:
		conditions = both(gatewayv1.ListenerSetReasonNotAllowed, "allowedListeners of the Gateway does not include this namespace")
	case !g.hasUsable(set):
		conditions = both(gatewayv1.ListenerSetReasonListenersNotValid, "no listener is accepted: see their conditions")
	case !programmed && g.assignment.Reason != "":
		conditions[1] = failed(program, gatewayv1.ListenerSetReasonPending, g.assignment.Message)
	case !programmed && g.waits(set):
		conditions[1] = failed(program, gatewayv1.ListenerSetReasonPending, "no listener can be served yet: see their conditions")
	case !programmed:
		conditions[1] = failed(program, gatewayv1.ListenerSetReasonListenersNotValid, "no listener can be served: see their conditions")
	case !valid:
		conditions[0] = condition(accept, gatewayv1.ListenerSetReasonListenersNotValid, "some listeners are not served: see their conditions")
	}
	status.Conditions = observed(set.Generation, conditions...)
	return status
}
