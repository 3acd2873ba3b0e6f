package snapshot_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// statused returns an object of Gateway API with a generation, and a version of which only
// the status is another one.
func statused(kind snapshot.Kind, generation int64, version string) snapshot.GatewayObject {
	object := snapshot.NewGatewayObject(kind)
	object.SetNamespace("shop")
	object.SetName("one")
	object.SetUID("1")
	object.SetGeneration(generation)
	object.SetResourceVersion(version)
	conditions := []metav1.Condition{{Type: "Accepted", Message: version}}
	parents := gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{{Conditions: conditions}}}
	switch o := object.(type) {
	case *gatewayv1.GatewayClass:
		o.Status.Conditions = conditions
	case *gatewayv1.Gateway:
		o.Status.Conditions = conditions
		o.Status.Listeners = []gatewayv1.ListenerStatus{{Name: "http", AttachedRoutes: int32(len(version))}}
	case *gatewayv1.ListenerSet:
		o.Status.Conditions = conditions
	case *gatewayv1.HTTPRoute:
		o.Status.RouteStatus = parents
	case *gatewayv1.GRPCRoute:
		o.Status.RouteStatus = parents
	case *gatewayv1.TLSRoute:
		o.Status.RouteStatus = parents
	case *gatewayv1.TCPRoute:
		o.Status.RouteStatus = parents
	case *gatewayv1.UDPRoute:
		o.Status.RouteStatus = parents
	case *gatewayv1.BackendTLSPolicy:
		o.Status.Ancestors = []gatewayv1.PolicyAncestorStatus{{Conditions: conditions}}
	}
	return object
}

// TestStatusIsNoChange: the status that the edge itself writes comes back as an event, and
// makes no reader of the object resolve it again. The new version is kept: the next status
// is written on it.
func TestStatusIsNoChange(t *testing.T) {
	for _, kind := range snapshot.GatewayKinds() {
		t.Run(string(kind), func(t *testing.T) {
			facts := snapshot.New()
			if changed := facts.Put(statused(kind, 1, "1")); len(changed) == 0 {
				t.Fatal("a new object changes nothing")
			}
			if changed := facts.Put(statused(kind, 1, "22")); len(changed) > 0 {
				t.Errorf("another status changes %v", changed)
			}
			kept := facts.GatewayObject(snapshot.Ref{Kind: kind, Namespace: "shop", Name: "one"})
			if kept.GetResourceVersion() != "22" {
				t.Errorf("version %s is kept", kept.GetResourceVersion())
			}
			if changed := facts.Put(statused(kind, 2, "333")); len(changed) == 0 {
				t.Error("another spec changes nothing")
			}
		})
	}
}

// TestTargetPortsAreAChange: the ports in the status of a Gateway are what replicas agree
// on, so these have to be read again.
func TestTargetPortsAreAChange(t *testing.T) {
	facts := snapshot.New()
	facts.Put(statused(snapshot.Gateway, 1, "1"))
	next := statused(snapshot.Gateway, 1, "2").(*gatewayv1.Gateway)
	next.Status.Conditions = append(next.Status.Conditions, metav1.Condition{Type: snapshot.TargetPortsCondition, Message: "80=20080"})
	want := []snapshot.Ref{{Kind: snapshot.Gateway, Namespace: "shop", Name: "one"}}
	if changed := facts.Put(next); !slices.Equal(changed, want) {
		t.Errorf("it changes %v, want %v", changed, want)
	}
}
