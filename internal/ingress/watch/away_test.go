package watch_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// While the way to the API server is cut nothing is lost and nothing is deleted.
// What was deleted meanwhile is seen afterwards, also when the API server has
// forgotten its history and lists anew.
func TestServerAway(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, shop+secretManifest("one", "Opaque", "first")+secretManifest("two", "Opaque", "first"))
	way, sent := &gate{}, &recorder{}
	log := &textLog{}
	r := read(t, connect(t, cluster, way.option, sent.option), watch.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	r.Want(secrets(namespace, "one", "two"))
	r.untilSynced()
	before := len(r.events)

	if err := way.close(); err != nil {
		t.Fatal(err)
	}
	cluster.Kill(t)
	r.failing("ingresses")
	cluster.Restart(t)
	deleteObjects(t, cluster, namespace)
	cluster.Apply(t, namespace, secretManifest("two", "Opaque", "second"))
	if !r.Synced() || len(r.events) != before {
		t.Errorf("synced %t and %d events, want that all stays as it is", r.Synced(), len(r.events)-before)
	}
	way.open()
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
	if count := log.count("cannot read from the cluster", "resource=ingresses"); count != 1 {
		t.Errorf("the failure of Ingresses was logged %d times, want once:\n%s", count, log)
	}
	if lists := len(sent.matching("/ingresses?")); lists < 3 {
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
		if err := remove(); err != nil {
			t.Fatal(err)
		}
	}
}

// failing waits until a resource is said to fail.
func (r *reader) failing(resource string) {
	r.t.Helper()
	r.poll(resource+" fail", func() bool { return r.Failures()[resource] != nil })
}

// A watcher that never reached the API server stops at once, is not synced, and
// starts when the server is there.
func TestServerAwayAtFirst(t *testing.T) {
	cluster := kubetest.Shared(t)
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, shop)
	way := &gate{shut: true}
	r := read(t, connect(t, cluster, way.option), watch.Options{Namespaces: []string{namespace}})
	r.Want(secrets(namespace, "one"))
	r.failing("services")
	r.failing("secrets")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if events, err := r.Next(ctx); err == nil || r.Synced() {
		t.Errorf("got %v, synced %t, want nothing", events, r.Synced())
	}
	way.open()
	r.untilSynced()
	if !r.has(snapshot.Ingress, namespace, "cart") {
		t.Error("the Ingress is missing")
	}
	if err := way.close(); err != nil {
		t.Fatal(err)
	}
	r.failing("services")
	r.stop()
}

// textLog is a log that can be searched.
type textLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds a line.
func (l *textLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String is the whole log.
func (l *textLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *textLog) count(parts ...string) int {
	count := 0
	for line := range strings.Lines(l.String()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			count++
		}
	}
	return count
}
