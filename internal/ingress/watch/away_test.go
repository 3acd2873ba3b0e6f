package watch_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// While the way to the API server is cut nothing is lost and nothing is deleted.
// What was deleted meanwhile is seen afterwards, also when the API server has
// forgotten its history and lists again.
func TestServerAway(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, shop+secretManifest("one", "Opaque", "first")+secretManifest("two", "Opaque", "first"))
	way := &kubetest.Gate{}
	log := &programs.Output{}
	r := read(t, cluster.Connect(t, way.Option), watch.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	r.Want(secrets(namespace, "one", "two"))
	r.untilSynced()
	before := len(r.events)

	way.Close()
	cluster.Kill(t)
	r.failing("ingresses")
	cluster.Restart(t)
	deleteObjects(t, cluster, namespace)
	cluster.Apply(t, namespace, secretManifest("two", "Opaque", "second"))
	if !r.Synced() || len(r.events) != before {
		t.Errorf("synced %t and %d events, want that all stays as it is", r.Synced(), len(r.events)-before)
	}
	way.Open()
	r.until("what was missed is seen", func() bool {
		return !r.has(snapshot.Ingress, namespace, "cart") && !r.has(snapshot.Service, namespace, "cart") &&
			!r.has(snapshot.EndpointSlice, namespace, "cart-one") &&
			r.value(namespace, "one") == "absent" && r.value(namespace, "two") == "second"
	})
	for _, event := range r.events[before:] {
		if ingress := event.Delete; ingress.Kind == snapshot.Ingress && ingress.Name != "cart" {
			t.Errorf("%v was deleted", ingress)
		}
	}
	if count := countLines(log, "cannot read from the cluster", "resource=ingresses"); count != 1 {
		t.Errorf("the failure of Ingresses was logged %d times, want once:\n%s", count, log)
	}
	if lists := len(way.Requests("/ingresses?")); lists < 3 {
		t.Errorf("asked for Ingresses %d times, want the first list, retries and another list", lists)
	}
}

func deleteObjects(t *testing.T, cluster *kubetest.Cluster, namespace string) {
	t.Helper()
	ctx := t.Context()
	for _, remove := range []func() error{
		func() error { return cluster.Client.NetworkingV1().Ingresses(namespace).Delete(ctx, "cart", deleted) },
		func() error { return cluster.Client.CoreV1().Services(namespace).Delete(ctx, "cart", deleted) },
		func() error {
			return cluster.Client.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, "cart-one", deleted)
		},
		func() error { return cluster.Client.CoreV1().Secrets(namespace).Delete(ctx, "one", deleted) },
	} {
		must.Do(t, remove())
	}
}

// failing waits until a resource is among the failures.
func (r *reader) failing(resource string) {
	r.t.Helper()
	r.poll(resource+" fail", func() bool { return r.Failures()[resource] != nil })
}

// A watcher that never reached the API server stops at once, is not synced, and
// starts when the server is there.
func TestServerAwayAtFirst(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, shop)
	way := &kubetest.Gate{}
	way.Close()
	r := read(t, cluster.Connect(t, way.Option), watch.Options{Namespaces: []string{namespace}})
	r.Want(secrets(namespace, "one"))
	r.failing("services")
	r.failing("secrets")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if events, err := r.Next(ctx); err == nil || r.Synced() {
		t.Errorf("got %v, synced %t, want nothing", events, r.Synced())
	}
	way.Open()
	r.untilSynced()
	if !r.has(snapshot.Ingress, namespace, "cart") {
		t.Error("the Ingress is missing")
	}
	way.Close()
	r.failing("services")
	r.stop()
}

// countLines counts the lines of a log that have all parts.
func countLines(log *programs.Output, parts ...string) int {
	count := 0
	for line := range strings.Lines(log.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			count++
		}
	}
	return count
}
