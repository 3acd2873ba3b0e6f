package gateway

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// reference is a reference from one object to another.
type reference struct {
	fromKind      gatewayv1.Kind // of Gateway API
	fromNamespace string
	toKind        gatewayv1.Kind // of the core group, or of Gateway API
	toGroup       gatewayv1.Group
	toNamespace   string
	toName        gatewayv1.ObjectName
}

// permitted reports whether a reference is allowed: within a namespace, or by a
// ReferenceGrant of the namespace that it leads to.
func (r *reference) permitted(view *snapshot.View) bool {
	if r.fromNamespace == r.toNamespace {
		return true
	}
	return slices.ContainsFunc(view.ReferenceGrants(r.toNamespace), func(grant *gatewayv1.ReferenceGrant) bool {
		from := slices.ContainsFunc(grant.Spec.From, func(from gatewayv1.ReferenceGrantFrom) bool {
			return from.Group == gatewayv1.GroupName && from.Kind == r.fromKind && string(from.Namespace) == r.fromNamespace
		})
		return from && slices.ContainsFunc(grant.Spec.To, func(to gatewayv1.ReferenceGrantTo) bool {
			return to.Group == r.toGroup && to.Kind == r.toKind && (to.Name == nil || *to.Name == "" || *to.Name == r.toName)
		})
	})
}

// hostGrants returns the namespaces that may have rules for the hosts of a route: a
// ReferenceGrant from routes of a namespace to routes of its kind grants them.
func hostGrants(view *snapshot.View, kind gatewayv1.Kind, namespace, name string) []resolve.HostGrant {
	var grants []resolve.HostGrant
	for _, grant := range view.ReferenceGrants(namespace) {
		mine := slices.ContainsFunc(grant.Spec.To, func(to gatewayv1.ReferenceGrantTo) bool {
			return to.Group == gatewayv1.GroupName && to.Kind == kind && (to.Name == nil || *to.Name == "" || string(*to.Name) == name)
		})
		for _, from := range grant.Spec.From {
			if mine && from.Group == gatewayv1.GroupName && snapshot.IsGatewayRoute(snapshot.Kind(from.Kind+"."+gatewayv1.GroupName)) {
				grants = append(grants, resolve.HostGrant{Namespace: string(from.Namespace)})
			}
		}
	}
	return grants
}

// or returns what a pointer points to, or the value for nil.
func or[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}
