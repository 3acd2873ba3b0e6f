package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/programs"
)

// countedGateway is a Gateway whose status an API server keeps that only notes writes.
type countedGateway struct {
	asked
	writer  *GatewayWriter
	ref     snapshot.Ref
	object  *gatewayv1.Gateway
	written gatewayv1.GatewayStatus
}

// leadCounted runs a leader for one Gateway in the time of the bubble.
func leadCounted(t *testing.T) *countedGateway {
	t.Helper()
	client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	c := &countedGateway{
		writer: NewGatewayWriter(&kube.Cluster{Metadata: client}, false, slog.New(slog.DiscardHandler)),
		ref:    snapshot.Ref{Kind: snapshot.Gateway, Namespace: "infra", Name: "public"},
		object: &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public", UID: "1", ResourceVersion: "1"}},
	}
	client.PrependReactor("patch", "gateways", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var patch struct{ Status gatewayv1.GatewayStatus }
		err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch)
		c.note()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.written = patch.Status
		return true, &metav1.PartialObjectMetadata{}, err
	})
	ctx, stop := context.WithCancel(t.Context())
	programs.Background(t, func() { c.writer.Lead(ctx) }, stop)
	synctest.Wait()
	return c
}

// set sets a number of routes, on the version that was written last.
func (c *countedGateway) set(routes int32, accepted metav1.ConditionStatus) {
	c.mu.Lock()
	c.version++
	seen := c.object.DeepCopy()
	seen.ResourceVersion = fmt.Sprint(c.version)
	c.written.DeepCopyInto(&seen.Status)
	c.mu.Unlock()
	c.writer.Set(c.ref, seen, engine.GatewayStatus{Gateway: &gatewayv1.GatewayStatus{
		Conditions: []metav1.Condition{{Type: "Accepted", Status: accepted}},
		Listeners:  []gatewayv1.ListenerStatus{{Name: "http", AttachedRoutes: routes}},
	}})
	synctest.Wait()
}

// TestCountsOfRoutes: while routes come and go, their number is written once in each
// interval, and the last one is not lost. A condition does not wait.
func TestCountsOfRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := leadCounted(t)
		c.set(1, metav1.ConditionTrue)
		if c.number() != 1 {
			t.Fatalf("%d writes of the first status", c.number())
		}
		pass(time.Minute)
		c.set(2, metav1.ConditionTrue)
		if c.number() != 2 {
			t.Fatal("a number waits after a quiet time")
		}
		for routes := range int32(100) {
			c.set(routes+3, metav1.ConditionTrue)
			pass(100 * time.Millisecond)
		}
		if got := c.within(10 * time.Second); got > 6 {
			t.Errorf("%d writes in ten seconds of churn", got)
		}
		pass(countsInterval)
		if got := c.written.Listeners[0].AttachedRoutes; got != 102 {
			t.Errorf("%d routes were written last", got)
		}
		c.set(103, metav1.ConditionTrue)
		before := c.number()
		c.set(103, metav1.ConditionFalse)
		if c.number() != before+1 {
			t.Error("a condition waits for the numbers of routes")
		}
	})
}

// TestOnlyCounts: which differences of a ListenerSet, and of others, are numbers of routes
// alone.
func TestOnlyCounts(t *testing.T) {
	set := func(routes int32, listeners ...gatewayv1.SectionName) *gatewayv1.ListenerSetStatus {
		status := &gatewayv1.ListenerSetStatus{}
		for _, name := range listeners {
			status.Listeners = append(status.Listeners, gatewayv1.ListenerEntryStatus{Name: name, AttachedRoutes: routes})
		}
		return status
	}
	for _, c := range []struct {
		what   string
		object snapshot.GatewayObject
		wanted engine.GatewayStatus
		want   bool
	}{
		{"a number", &gatewayv1.ListenerSet{Status: *set(1, "a", "b")}, engine.GatewayStatus{Set: set(2, "a", "b")}, true},
		{"a new listener", &gatewayv1.ListenerSet{Status: *set(1, "a")}, engine.GatewayStatus{Set: set(2, "a", "b")}, false},
		{"one that is not ours", &gatewayv1.ListenerSet{Status: *set(1, "a")}, engine.GatewayStatus{}, false},
		{"a route", &gatewayv1.HTTPRoute{}, engine.GatewayStatus{}, false},
	} {
		record := gatewayRecord{object: c.object, wanted: c.wanted}
		if got := record.onlyCounts(); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}
