package reconcile

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/gitops/tracking"
)

func itemOf(name string) item { return item{app: tracking.App{Namespace: "apps", Name: name}} }

// newTestQueue is a queue that is shut down at the end of the test.
func newTestQueue(t *testing.T) *queue {
	q := newQueue()
	t.Cleanup(q.work.ShutDown)
	return q
}

// An item that is being processed comes again, with all that happened meanwhile,
// and never to a second worker.
func TestQueueGivesAnItemToOneWorker(t *testing.T) {
	q := newTestQueue(t)
	q.add(itemOf("a"), reasonChange)
	q.add(itemOf("a"), reasonLive)
	got, why, _ := q.take()
	if got != itemOf("a") || why != reasonChange|reasonLive {
		t.Fatalf("took %v because of %b", got, why)
	}
	q.add(itemOf("a"), reasonSource)
	q.add(itemOf("b"), reasonChange)
	if got, _, _ := q.take(); got != itemOf("b") {
		t.Fatalf("took %v while a is processed, want b", got)
	}
	if q.length() != 0 {
		t.Errorf("%d items wait while both are processed", q.length())
	}
	q.done(itemOf("a"))
	if got, why, _ := q.take(); got != itemOf("a") || why != reasonSource {
		t.Errorf("took %v because of %b, want a again because of its source", got, why)
	}
	q.done(itemOf("b"))
	if q.length() != 0 {
		t.Error("b comes again, and nothing happened to it")
	}
}

// Times come in their order, each once; setting one again moves it.
func TestQueueKeepsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { q.run(ctx); close(ended) }()
		start := time.Now()
		after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
		q.at(itemOf("late"), reasonTimer, after(30))
		q.at(itemOf("moved"), reasonTimer, after(5))
		q.at(itemOf("moved"), reasonTimer, after(20))
		q.at(itemOf("dropped"), reasonTimer, after(1))
		q.at(itemOf("dropped"), reasonTimer, time.Time{})
		q.within(itemOf("soon"), reasonLive, after(10))
		q.within(itemOf("soon"), reasonLive, after(12)) // no later than before
		q.at(itemOf("forgotten"), reasonTimer, after(2))
		q.within(itemOf("forgotten"), reasonLive, after(3))
		q.forget(itemOf("forgotten"))
		var got []string
		var at []time.Duration
		for range 3 {
			next, _, _ := q.take()
			q.done(next)
			got, at = append(got, next.app.Name), append(at, time.Since(start).Round(time.Second)/time.Second)
		}
		if want := []string{"soon", "moved", "late"}; !slices.Equal(got, want) {
			t.Errorf("they came as %v, want %v", got, want)
		}
		if want := []time.Duration{10, 20, 30}; !slices.Equal(at, want) {
			t.Errorf("they came after %v seconds, want %v", at, want)
		}
		cancel()
		<-ended
		if _, _, open := q.take(); open {
			t.Error("the queue is open after its end")
		}
	})
}
