package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// leaseOf is the Lease of a replica that serves versions.
func leaseOf(name string, version int, served Versions) *coordinationv1.Lease {
	text, err := json.Marshal(served)
	if err != nil {
		panic(err)
	}
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: name, ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{servedAnnotation: string(text)},
	}}
}

// TestLaggingReplicas: a status waits for the replicas that renew their Lease and do not
// serve its object yet, but not for one that has ended or makes no progress.
func TestLaggingReplicas(t *testing.T) {
	r := NewReplicas(nil, "slipway-edge", slog.New(slog.DiscardHandler))
	start := time.Now()
	needed := Versions{"gateways": 10, "httproutes": 20}
	want := func(what string, after time.Duration, replicas ...string) {
		t.Helper()
		if got := r.lagging(needed, start.Add(after)); !slices.Equal(got, replicas) {
			t.Errorf("%s: it waits for %q, want %q", what, got, replicas)
		}
	}
	see := func(after time.Duration, leases ...*coordinationv1.Lease) []string {
		return r.observeAll(leases, start.Add(after))
	}
	want("before the first list", 0, "unknown")
	see(0)
	want("a replica alone", 0)
	see(0, leaseOf(r.name, 1, nil))
	want("its own Lease", 0)
	see(0, leaseOf("a", 1, Versions{"gateways": 10, "httproutes": 19}), leaseOf("b", 1, Versions{"gateways": 10, "httproutes": 25}), leaseOf("c", 1, nil))
	want("behind", 0, "a", "c")
	see(time.Second, leaseOf("a", 2, Versions{"gateways": 11, "httproutes": 20}), leaseOf("b", 1, Versions{"gateways": 10, "httproutes": 25}))
	want("advanced, and one gone", time.Second)
	needed = Versions{"gateways": 12, "httproutes": 20}
	want("a newer Gateway", time.Second, "a", "b")
	want("not renewed since the start", replicaExpiry+time.Second, "a")
	want("not renewed at all", replicaExpiry+2*time.Second)
	if got := see(replicaForgotten+time.Second, leaseOf("a", 2, nil), leaseOf("b", 1, nil)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the Leases %q are forgotten", got)
	}
	// One that renews its Lease and never gets there.
	r.observeAll(nil, start)
	for second := time.Duration(0); second <= stallTimeout; second += time.Second {
		see(second, leaseOf("stuck", int(second), Versions{"gateways": 11}))
		want("stuck", second, "stuck")
	}
	last := stallTimeout + time.Second
	see(last, leaseOf("stuck", int(last), Versions{"gateways": 11}))
	want("stuck for long", last)
	see(last, leaseOf("stuck", int(last)+1, Versions{"gateways": 11, "httproutes": 1}))
	want("moves again", last, "stuck")
	// One that was stuck and caught up is waited for anew.
	see(last, leaseOf("stuck", int(last)+2, needed))
	want("caught up", last)
	needed = Versions{"gateways": 13, "httproutes": 20}
	later := last + 2*stallTimeout
	see(later, leaseOf("stuck", int(later), Versions{"gateways": 12, "httproutes": 20}))
	want("behind after a quiet time", later, "stuck")
	r.observe(apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("denied")))
	want("without the right to read", last)
}

// TestStatusWaitsForReplicas: a status is held back while a replica does not serve the
// object, and comes when it does. One that does not change waits for nothing.
func TestStatusWaitsForReplicas(t *testing.T) {
	w := NewGatewayWriter(nil, false, slog.New(slog.DiscardHandler))
	w.Replicas = NewReplicas(nil, "slipway-edge", w.log)
	w.queue = workqueue.NewTypedDelayingQueue[snapshot.Ref]() // it leads
	defer w.queue.ShutDown()
	ref := snapshot.Ref{Kind: snapshot.Gateway, Namespace: "infra", Name: "public"}
	accepted := gatewayv1.GatewayStatus{Conditions: []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue}}}
	object := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public"}}
	w.Replicas.observeAll([]*coordinationv1.Lease{leaseOf("a", 1, Versions{"gateways": 9})}, time.Now())
	w.SetServed(Versions{"gateways": 9}, Versions{"gateways": 9})
	w.Set(ref, object, engine.GatewayStatus{Gateway: &accepted})
	if wait := w.awaitReplicas(ref); wait != 0 {
		t.Errorf("a status that all serve waits %v", wait)
	}
	w.SetServed(Versions{"gateways": 10}, Versions{"gateways": 10})
	w.SetServed(nil, nil) // nothing new
	w.Set(ref, object, engine.GatewayStatus{Gateway: &accepted})
	if wait := w.awaitReplicas(ref); wait != replicaRecheck {
		t.Errorf("a status that one replica does not serve waits %v", wait)
	}
	w.Set(ref, object, engine.GatewayStatus{})
	if wait := w.awaitReplicas(ref); wait != 0 {
		t.Errorf("a status without a change waits %v", wait)
	}
	w.Set(ref, object, engine.GatewayStatus{Gateway: &accepted})
	w.awaitReplicas(ref)
	w.Replicas.observeAll([]*coordinationv1.Lease{leaseOf("a", 2, Versions{"gateways": 10})}, time.Now())
	if wait := w.awaitReplicas(ref); wait != 0 {
		t.Errorf("a status that all serve again waits %v", wait)
	}
	if text := string(must.Get(json.Marshal(w.Replicas.served))(t)); text != `{"gateways":10}` {
		t.Errorf("this replica serves %s", text)
	}
}

// TestLeaderPublishesLess: what the leader serves is published with the next renewal, and
// when it ceases to lead; that of others at once.
func TestLeaderPublishesLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReplicas(nil, "slipway-edge", slog.New(slog.DiscardHandler))
		renew, returned := make(chan time.Time), make(chan struct{}, 3)
		wait := func() {
			go func() {
				r.awaitNews(t.Context(), renew)
				returned <- struct{}{}
			}()
			synctest.Wait()
		}
		want := func(what string, publishes bool) {
			t.Helper()
			synctest.Wait()
			if got := len(returned) > 0; got != publishes {
				t.Errorf("%s: it publishes: %t", what, got)
			}
			for len(returned) > 0 {
				<-returned
			}
		}
		wait()
		r.setServed(Versions{"gateways": 1})
		want("a replica that does not lead", true)
		r.setLeading(true)
		wait()
		r.setServed(Versions{"gateways": 2})
		want("the leader", false)
		renew <- time.Now()
		want("a renewal", true)
		wait()
		r.setLeading(false)
		want("the end of the leadership", true)
	})
}
