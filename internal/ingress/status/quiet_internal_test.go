package status

import (
	"testing"

	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestQuiet: memory is released once after many statuses, when no object waits.
func TestQuiet(t *testing.T) {
	calls := 0
	w := &GatewayWriter{queue: workqueue.NewTypedDelayingQueue[snapshot.Ref](), Quiet: func() { calls++ }}
	defer w.queue.ShutDown()
	expect := func(want int) {
		t.Helper()
		if w.noteQuiet(); calls != want {
			t.Errorf("it was called %d times, want %d", calls, want)
		}
	}
	w.written.Store(quietWrites - 1)
	expect(0)
	w.written.Add(1)
	w.queue.Add(snapshot.Ref{Kind: snapshot.Gateway, Name: "one"})
	expect(0)
	ref, _ := w.queue.Get()
	w.queue.Done(ref)
	expect(1)
	expect(1)
}
