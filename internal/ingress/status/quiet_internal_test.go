package status

import (
	"fmt"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestQuiet: memory is released once after a backlog, when no object waits, and never for
// objects that come one by one.
func TestQuiet(t *testing.T) {
	calls := 0
	w := &GatewayWriter{queue: workqueue.NewTypedDelayingQueue[snapshot.Ref](), Quiet: func() { calls++ }}
	defer w.queue.ShutDown()
	add := func(number int) {
		w.enqueue(snapshot.Ref{Kind: snapshot.HTTPRoute, Name: fmt.Sprint(number)})
	}
	take := func() {
		ref, _ := w.queue.Get()
		w.queue.Done(ref)
		w.refill()
		w.noteQuiet()
	}
	for number := range 3 * maxQueued {
		add(number)
		take()
	}
	if calls != 0 {
		t.Errorf("it was called %d times for objects that came one by one", calls)
	}
	for number := range maxQueued + 1 {
		add(number)
	}
	for left := maxQueued; left >= 0; left-- {
		take()
		if want := 1 - min(1, left); calls != want {
			t.Fatalf("with %d objects left it was called %d times, want %d", left, calls, want)
		}
	}
	add(0)
	if take(); calls != 1 {
		t.Errorf("it was called %d times for one backlog", calls)
	}
}
