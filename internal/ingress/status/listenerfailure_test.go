package status

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestFetchFailureOfListener: a certificate that the leader could not get is in the
// condition of its listener alone, until it is cleared, and until a new term.
func TestFetchFailureOfListener(t *testing.T) {
	waits := []metav1.Condition{
		{Type: "Accepted", Status: metav1.ConditionTrue, Message: "accepted"}, {Type: "Programmed", Status: metav1.ConditionFalse, Message: "is being requested"},
	}
	meta := metav1.ObjectMeta{Namespace: "infra", Name: "public", UID: "1", ResourceVersion: "7"}
	for kind, c := range map[snapshot.Kind]struct {
		object snapshot.GatewayObject
		wanted engine.GatewayStatus
	}{
		snapshot.Gateway: {&gatewayv1.Gateway{ObjectMeta: meta}, engine.GatewayStatus{Gateway: &gatewayv1.GatewayStatus{
			Listeners: []gatewayv1.ListenerStatus{{Name: "a", Conditions: waits}, {Name: "b", Conditions: waits}},
		}}},
		snapshot.ListenerSet: {&gatewayv1.ListenerSet{ObjectMeta: meta}, engine.GatewayStatus{Set: &gatewayv1.ListenerSetStatus{
			Listeners: []gatewayv1.ListenerEntryStatus{{Name: "a", Conditions: waits}, {Name: "b", Conditions: waits}},
		}}},
	} {
		w := NewGatewayWriter(nil, false, nil)
		ref := snapshot.Ref{Kind: kind, Namespace: "infra", Name: "public"}
		w.Set(ref, c.object, c.wanted)
		reported := func(what string, failed, waiting int) {
			t.Helper()
			patch := string(w.patchOf(ref))
			if strings.Count(patch, "no connection") != failed || strings.Count(patch, "is being requested") != waiting || strings.Count(patch, `"accepted"`) != 2 {
				t.Errorf("%s of a %s: %s", what, kind, patch)
			}
		}
		fail := func(secret, listener string) {
			w.SetFetchFailure(ref, secret, refusal.New(gateway.ResolverField(gatewayv1.SectionName(listener)), refusal.NotReady, "no connection"))
		}
		reported("at first", 0, 2)
		fail("acme-1", "a")
		reported("one failure", 1, 1)
		fail("acme-1", "b")
		reported("two listeners with one certificate", 2, 0)
		w.SetFetchFailure(ref, "acme-2", nil)
		reported("another certificate is issued", 2, 0)
		w.SetFetchFailure(ref, "acme-1", nil)
		reported("it is issued", 0, 2)
		fail("acme-1", "a")
		w.ForgetFetchFailures()
		reported("a new term", 0, 2)
		fail("acme-1", "a")
		w.Gone(ref)
		w.Set(ref, c.object, c.wanted)
		reported("another object of the name", 0, 2)
	}
}
