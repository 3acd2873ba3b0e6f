package status

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
)

// TestForeignConditions: conditions of others stay in the status of a Gateway, a ListenerSet
// and their listeners; without a change of ours nothing is written.
func TestForeignConditions(t *testing.T) {
	now := metav1.Now()
	foreign := metav1.Condition{Type: "example.com/Checked", Status: metav1.ConditionFalse, LastTransitionTime: metav1.Unix(1, 0)}
	served := metav1.Condition{Type: "Programmed", Status: metav1.ConditionTrue, LastTransitionTime: now}
	broken := metav1.Condition{Type: "Programmed", Status: metav1.ConditionFalse, LastTransitionTime: now}
	before := []metav1.Condition{foreign, served}

	gateway := func(own metav1.Condition) map[string]any {
		seen := gatewayv1.GatewayStatus{Conditions: before, Listeners: []gatewayv1.ListenerStatus{{Name: "web", Conditions: before}}}
		next := gatewayv1.GatewayStatus{Conditions: before[1:], Listeners: []gatewayv1.ListenerStatus{{Name: "web", Conditions: []metav1.Condition{own}}}}
		return (&gatewayRecord{object: &gatewayv1.Gateway{Status: seen}, wanted: engine.GatewayStatus{Gateway: &next}}).changes(now)
	}
	set := func(own metav1.Condition) map[string]any {
		seen := gatewayv1.ListenerSetStatus{Conditions: before, Listeners: []gatewayv1.ListenerEntryStatus{{Name: "web", Conditions: before}}}
		next := gatewayv1.ListenerSetStatus{Conditions: before[1:], Listeners: []gatewayv1.ListenerEntryStatus{{Name: "web", Conditions: []metav1.Condition{own}}}}
		return (&gatewayRecord{object: &gatewayv1.ListenerSet{Status: seen}, wanted: engine.GatewayStatus{Set: &next}}).changes(now)
	}
	for name, changes := range map[string]func(metav1.Condition) map[string]any{"Gateway": gateway, "ListenerSet": set} {
		if changed := changes(served); changed != nil {
			t.Errorf("%s: without a change of ours it becomes %+v", name, changed)
		}
		changed := changes(broken)
		var ofListener []metav1.Condition
		switch listeners := changed["listeners"].(type) {
		case []gatewayv1.ListenerStatus:
			ofListener = listeners[0].Conditions
		case []gatewayv1.ListenerEntryStatus:
			ofListener = listeners[0].Conditions
		}
		own, _ := changed["conditions"].([]metav1.Condition)
		if !slices.Equal(ofListener, []metav1.Condition{foreign, broken}) || !slices.Equal(own, before) {
			t.Errorf("%s: it becomes %+v", name, changed)
		}
	}
}
