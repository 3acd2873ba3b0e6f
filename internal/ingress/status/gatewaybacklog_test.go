package status

import (
	"fmt"
	"log/slog"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestBacklog: the queue never has more objects than its limit, and none is lost.
func TestBacklog(t *testing.T) {
	w := NewGatewayWriter(nil, false, slog.New(slog.DiscardHandler))
	w.queue = workqueue.NewTypedDelayingQueue[snapshot.Ref]()
	defer w.queue.ShutDown()
	const objects = 3*maxQueued + 7
	for i := range objects {
		w.enqueue(snapshot.Ref{Kind: snapshot.HTTPRoute, Namespace: "shop", Name: fmt.Sprint(i)})
	}
	for seen := range objects {
		if length := w.queue.Len(); length == 0 || length > maxQueued {
			t.Fatalf("after %d of %d objects the queue has %d", seen, objects, length)
		}
		ref, _ := w.queue.Get()
		w.queue.Done(ref)
		w.refill()
	}
	if w.queue.Len() > 0 || w.backlog != nil {
		t.Errorf("%d objects are left in the queue, %d in the backlog", w.queue.Len(), len(w.backlog))
	}
}
