package gateway

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// maxAncestors is the number of Gateways that the status of a policy can have.
const maxAncestors = 16

// TLSPolicyStatus returns the status of a BackendTLSPolicy for each Gateway with routes to
// its targets, which are sorted.
func TLSPolicyStatus(view *snapshot.View, policy *gatewayv1.BackendTLSPolicy, gateways []snapshot.Ref) []gatewayv1.PolicyAncestorStatus {
	read := backend.ReadTLSPolicy(view, policy)
	accepted := condition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonAccepted, "")
	resolved := condition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, gatewayv1.BackendTLSPolicyReasonResolvedRefs, "")
	if fault := read.Unresolved; fault != nil {
		resolved = failed(gatewayv1.BackendTLSPolicyConditionResolvedRefs, fault.Reason, fault.Message)
	}
	switch older := olderPolicy(view, policy); {
	case older != nil:
		accepted = failed(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonConflicted, "the older policy "+older.Name+" has the same target: remove one of the two")
	case read.Rejected != nil:
		accepted = failed(gatewayv1.PolicyConditionAccepted, read.Rejected.Reason, read.Rejected.Message)
	}
	var ancestors []gatewayv1.PolicyAncestorStatus
	for _, ref := range gateways[:min(len(gateways), maxAncestors)] {
		group, kind, namespace := gatewayv1.Group(gatewayv1.GroupName), kindGateway, gatewayv1.Namespace(ref.Namespace)
		ancestors = append(ancestors, gatewayv1.PolicyAncestorStatus{
			AncestorRef:    gatewayv1.ParentReference{Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(ref.Name)},
			ControllerName: ControllerName,
			Conditions:     observed(policy.Generation, []metav1.Condition{accepted, resolved}...),
		})
	}
	return ancestors
}

// olderPolicy returns the policy that takes precedence over another one at one of its
// targets; nil for none.
func olderPolicy(view *snapshot.View, policy *gatewayv1.BackendTLSPolicy) *gatewayv1.BackendTLSPolicy {
	for _, other := range view.BackendTLSPolicies(policy.Namespace) {
		if other.Name == policy.Name {
			return nil // all that follow are younger
		}
		for i := range policy.Spec.TargetRefs {
			for j := range other.Spec.TargetRefs {
				a, b := &policy.Spec.TargetRefs[i], &other.Spec.TargetRefs[j]
				if a.LocalPolicyTargetReference == b.LocalPolicyTargetReference && or(a.SectionName, "") == or(b.SectionName, "") {
					return other
				}
			}
		}
	}
	return nil
}
