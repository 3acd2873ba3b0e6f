package engine

import (
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// markPolicies marks the status of the BackendTLSPolicies of a namespace. Few namespaces
// have any, and none has many.
func (e *Engine) markPolicies(namespace string) {
	for _, policy := range e.snapshot.View().BackendTLSPolicies(namespace) {
		e.gateways.stale[snapshot.Ref{Kind: snapshot.BackendTLSPolicy, Namespace: namespace, Name: policy.Name}] = struct{}{}
	}
}

// policyStatus derives the status of a BackendTLSPolicy.
func (e *Engine) policyStatus(policy *gatewayv1.BackendTLSPolicy) []gatewayv1.PolicyAncestorStatus {
	gateways := map[snapshot.Ref]struct{}{}
	for id, u := range e.backends {
		targeted := func(target gatewayv1.LocalPolicyTargetReferenceWithSectionName) bool {
			return backend.TargetsService(&target, id.Name)
		}
		if id.Namespace != policy.Namespace || !slices.ContainsFunc(policy.Spec.TargetRefs, targeted) {
			continue
		}
		for user := range u.users.all() {
			if user.route == nil {
				continue
			}
			for _, of := range user.route.Attached {
				gateways[of.Gateway] = struct{}{}
			}
		}
	}
	return gateway.TLSPolicyStatus(e.snapshot.View(), policy, slices.SortedFunc(maps.Keys(gateways), snapshot.Ref.Compare))
}
