package reconcile

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// While many Applications wait for a worker, events of objects are collected for longer, and
// Events are written at a lower rate.
func TestLiveEventsYieldToSyncs(t *testing.T) {
	c := &Controller{store: newStore("apps", nil)}
	c.queue = newQueue(2, func(item) []string { return []string{"default"} })
	t.Cleanup(c.queue.work.ShutDown)
	c.events = newEventRecorder(nil, c.Events, nil, nil, c.queue.isBusy)
	id := tracking.App{Namespace: "argocd", Name: "web"}
	c.store.put(&v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "1"}}, nil)
	// due returns how long an event of an object waits.
	due := func() time.Duration {
		c.queue.at(item{app: id}, reasonLive, time.Time{})
		now := time.Now()
		c.Changed(id.Label(), tracking.Key{})
		c.queue.mu.Lock()
		defer c.queue.mu.Unlock()
		return c.queue.times[item{app: id}][reasonLive].Sub(now)
	}
	if wait := due(); wait <= 0 || wait >= busyDebounce || c.events.isBusy() {
		t.Errorf("in an idle queue an event waits for %s", wait)
	}
	for i := range 9 {
		c.queue.add(item{app: tracking.App{Namespace: "argocd", Name: fmt.Sprint("app-", i)}}, reasonSource)
	}
	if wait := due(); wait < busyDebounce || !c.events.isBusy() {
		t.Errorf("in a busy queue an event waits for %s", wait)
	}
}
