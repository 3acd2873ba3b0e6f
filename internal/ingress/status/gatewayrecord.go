package status

import (
	"cmp"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// gatewayRecord is an object as it was last seen, and the status that it should have.
type gatewayRecord struct {
	object snapshot.GatewayObject
	wanted engine.GatewayStatus
	// needed are the versions that the status is derived from, until it is written. A
	// replica that does not lead has none: there are thousands of records.
	needed Versions
	failed int // failures in a row
}

// changes returns the fields of the status to write, nil if they are there.
func (r *gatewayRecord) changes(now metav1.Time) map[string]any {
	switch object := r.object.(type) {
	case *gatewayv1.GatewayClass:
		if r.wanted.Class == nil {
			return nil
		}
		next := *r.wanted.Class
		next.Conditions = mergeConditions(object.Status.Conditions, next.Conditions, now, true)
		if reflect.DeepEqual(object.Status, next) {
			return nil
		}
		return map[string]any{"conditions": next.Conditions, "supportedFeatures": next.SupportedFeatures}
	case *gatewayv1.Gateway:
		return r.gatewayChanges(object, now)
	case *gatewayv1.ListenerSet:
		return r.setChanges(object, now)
	case *gatewayv1.HTTPRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.GRPCRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.TLSRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.TCPRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.UDPRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.BackendTLSPolicy:
		next := mergeAncestors(object.Status.Ancestors, r.wanted.Ancestors, now)
		if len(next) == len(object.Status.Ancestors) && (len(next) == 0 || reflect.DeepEqual(object.Status.Ancestors, next)) {
			return nil
		}
		return map[string]any{"ancestors": next}
	}
	return nil
}

// routeChanges is changes for a route with these parents.
func (r *gatewayRecord) routeChanges(before []gatewayv1.RouteParentStatus, now metav1.Time) map[string]any {
	next := mergeParents(before, r.wanted.Parents, now)
	if len(next) == len(before) && (len(next) == 0 || reflect.DeepEqual(before, next)) {
		return nil
	}
	return map[string]any{"parents": next}
}

// gatewayChanges is changes for a Gateway.
func (r *gatewayRecord) gatewayChanges(object *gatewayv1.Gateway, now metav1.Time) map[string]any {
	if r.wanted.Gateway == nil {
		return nil
	}
	next := *r.wanted.Gateway
	// Conditions of others stay. These are ours alone, and go with their cause.
	before := slices.DeleteFunc(slices.Clone(object.Status.Conditions), func(c metav1.Condition) bool {
		return (c.Type == string(gatewayv1.GatewayConditionInsecureFrontendValidationMode) || c.Type == string(gatewayv1.GatewayConditionResolvedRefs) || c.Type == snapshot.TargetPortsCondition) &&
			!slices.ContainsFunc(next.Conditions, func(own metav1.Condition) bool { return own.Type == c.Type })
	})
	next.Conditions = mergeConditions(before, next.Conditions, now, true)
	next.Listeners = slices.Clone(next.Listeners)
	for i := range next.Listeners {
		of := &next.Listeners[i]
		var before []metav1.Condition
		for _, listener := range object.Status.Listeners {
			if listener.Name == of.Name {
				before = listener.Conditions
			}
		}
		of.Conditions = mergeConditions(before, of.Conditions, now, true)
	}
	if reflect.DeepEqual(object.Status, next) {
		return nil
	}
	return map[string]any{
		"addresses": next.Addresses, "conditions": next.Conditions, "listeners": next.Listeners, "attachedListenerSets": next.AttachedListenerSets,
	}
}

// setChanges is changes for a ListenerSet.
func (r *gatewayRecord) setChanges(object *gatewayv1.ListenerSet, now metav1.Time) map[string]any {
	if r.wanted.Set == nil {
		return nil
	}
	next := *r.wanted.Set
	next.Conditions = mergeConditions(object.Status.Conditions, next.Conditions, now, true)
	next.Listeners = slices.Clone(next.Listeners)
	for i := range next.Listeners {
		of := &next.Listeners[i]
		var before []metav1.Condition
		for _, listener := range object.Status.Listeners {
			if listener.Name == of.Name {
				before = listener.Conditions
			}
		}
		of.Conditions = mergeConditions(before, of.Conditions, now, true)
	}
	if reflect.DeepEqual(object.Status, next) {
		return nil
	}
	return map[string]any{"conditions": next.Conditions, "listeners": next.Listeners}
}

// mergeConditions returns conditions with the time of their last transition: now for
// those whose status changed. Conditions of other types are kept where others may
// write them.
func mergeConditions(before, next []metav1.Condition, now metav1.Time, keepOthers bool) []metav1.Condition {
	merged := slices.Clone(next)
	find := func(list []metav1.Condition, kind string) int {
		return slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == kind })
	}
	for i := range merged {
		merged[i].LastTransitionTime = now
		if at := find(before, merged[i].Type); at >= 0 && before[at].Status == merged[i].Status {
			merged[i].LastTransitionTime = before[at].LastTransitionTime
		}
	}
	for _, other := range before {
		if keepOthers && find(next, other.Type) < 0 {
			merged = append(merged, other)
		}
	}
	slices.SortStableFunc(merged, func(a, b metav1.Condition) int {
		return cmp.Compare(uint(find(before, a.Type)), uint(find(before, b.Type))) // new ones last
	})
	return merged
}

// mergeParents replaces our entries in the status of a route. Those of other
// controllers stay where they are.
func mergeParents(before, next []gatewayv1.RouteParentStatus, now metav1.Time) []gatewayv1.RouteParentStatus {
	merged := make([]gatewayv1.RouteParentStatus, 0, len(before)+len(next))
	mine := func(of gatewayv1.RouteParentStatus) bool { return of.ControllerName == gateway.ControllerName }
	same := func(ref gatewayv1.ParentReference) func(gatewayv1.RouteParentStatus) bool {
		return func(of gatewayv1.RouteParentStatus) bool { return reflect.DeepEqual(of.ParentRef, ref) }
	}
	for _, entry := range before {
		if mine(entry) {
			at := slices.IndexFunc(next, same(entry.ParentRef))
			if at < 0 {
				continue
			}
			conditions := mergeConditions(entry.Conditions, next[at].Conditions, now, false)
			entry = next[at]
			entry.Conditions = conditions
		}
		merged = append(merged, entry)
	}
	for _, entry := range next {
		known := slices.ContainsFunc(merged, func(of gatewayv1.RouteParentStatus) bool { return mine(of) && same(entry.ParentRef)(of) })
		if !known {
			entry.Conditions = mergeConditions(nil, entry.Conditions, now, false)
			merged = append(merged, entry)
		}
	}
	return merged
}

// mergeAncestors replaces our entries in the status of a policy, as mergeParents does for
// routes. Those of other controllers come first.
func mergeAncestors(before, next []gatewayv1.PolicyAncestorStatus, now metav1.Time) []gatewayv1.PolicyAncestorStatus {
	mine := func(of gatewayv1.PolicyAncestorStatus) bool { return of.ControllerName == gateway.ControllerName }
	merged := slices.DeleteFunc(slices.Clone(before), mine)
	for _, entry := range next {
		known := slices.IndexFunc(before, func(of gatewayv1.PolicyAncestorStatus) bool {
			return mine(of) && reflect.DeepEqual(of.AncestorRef, entry.AncestorRef)
		})
		var conditions []metav1.Condition
		if known >= 0 {
			conditions = before[known].Conditions
		}
		entry.Conditions = mergeConditions(conditions, entry.Conditions, now, false)
		merged = append(merged, entry)
	}
	return merged
}
