package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestStatusesOfOneSet: a route that comes to a listener of a ListenerSet, or leaves it,
// changes the status of that set, and not those of the Gateway and its other sets.
func TestStatusesOfOneSet(t *testing.T) {
	facts, all := snapshot.New(), gatewayv1.NamespacesFromAll
	for _, object := range gatewaysOf("one") {
		if of, ok := object.(*gatewayv1.Gateway); ok {
			of.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: &all}}
		}
		facts.Put(object)
	}
	namespace := gatewayv1.Namespace("infra")
	for i := range 3 {
		set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("s%d", i), UID: types.UID(fmt.Sprintf("s%d", i)), Generation: 1, CreationTimestamp: metav1.Unix(2, 0),
		}}
		set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: &namespace, Name: "one"}
		set.Spec.Listeners = []gatewayv1.ListenerEntry{{
			Name: "http", Port: gatewayv1.PortNumber(8000 + i), Protocol: gatewayv1.HTTPProtocolType,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
		}}
		facts.Put(set)
	}
	followed := engine.New(facts, gatewayOptions())
	followed.All()
	changed := func() []snapshot.Ref {
		found := maps.Collect(followed.ChangedGatewayStatuses())
		return slices.SortedFunc(maps.Keys(found), snapshot.Ref.Compare)
	}
	if got := changed(); len(got) != 5 {
		t.Errorf("at first %v", got)
	}
	kind := gatewayv1.Kind("ListenerSet")
	parent := gatewayv1.ParentReference{Kind: &kind, Name: "s1"}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 1, CreationTimestamp: metav1.Unix(3, 0)}
	set := snapshot.Ref{Kind: snapshot.ListenerSet, Namespace: "shop", Name: "s1"}
	followed.Update(facts.Put(routeOf(snapshot.HTTPRoute, meta, []gatewayv1.ParentReference{parent}, "web.example")))
	if got := changed(); !slices.Equal(got, []snapshot.Ref{set}) {
		t.Errorf("with a route %v", got)
	}
	if got := followed.GatewayStatus(set).Set.Listeners[0].AttachedRoutes; got != 1 {
		t.Errorf("the listener has %d routes", got)
	}
	followed.Update(facts.Delete(snapshot.HTTPRoute, "shop", "web"))
	if got := changed(); !slices.Equal(got, []snapshot.Ref{set}) {
		t.Errorf("without the route %v", got)
	}
	if got := followed.GatewayStatus(set).Set.Listeners[0].AttachedRoutes; got != 0 {
		t.Errorf("the listener has %d routes after", got)
	}
}
