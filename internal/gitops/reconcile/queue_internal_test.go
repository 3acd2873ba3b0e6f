package reconcile

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/gitops/tracking"
)

func taskOf(name string) task { return task{app: tracking.App{Namespace: "apps", Name: name}} }

// A task that is being worked on comes again, with all that happened meanwhile,
// and never to a second worker.
func TestQueueGivesATaskToOneWorker(t *testing.T) {
	q := newQueue(time.Now)
	q.add(taskOf("a"), becauseAsked)
	q.add(taskOf("a"), becauseLive)
	got, why, _ := q.take()
	if got != taskOf("a") || why != becauseAsked|becauseLive {
		t.Fatalf("took %v because of %b", got, why)
	}
	q.add(taskOf("a"), becauseSource)
	q.add(taskOf("b"), becauseAsked)
	if got, _, _ := q.take(); got != taskOf("b") {
		t.Fatalf("took %v while a is worked on, want b", got)
	}
	if q.length() != 0 {
		t.Errorf("%d tasks wait while both are worked on", q.length())
	}
	q.done(taskOf("a"))
	if got, why, _ := q.take(); got != taskOf("a") || why != becauseSource {
		t.Errorf("took %v because of %b, want a again because of its source", got, why)
	}
	q.done(taskOf("b"))
	if q.length() != 0 {
		t.Error("b comes again, and nothing happened to it")
	}
}

// Times come in their order, each once; setting one again moves it.
func TestQueueKeepsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { q.run(ctx); close(ended) }()
		start := time.Now()
		after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
		q.at(taskOf("late"), becauseTime, after(30))
		q.at(taskOf("moved"), becauseTime, after(5))
		q.at(taskOf("moved"), becauseTime, after(20))
		q.at(taskOf("dropped"), becauseTime, after(1))
		q.at(taskOf("dropped"), becauseTime, time.Time{})
		q.within(taskOf("soon"), becauseLive, after(10))
		q.within(taskOf("soon"), becauseLive, after(12)) // no later than before
		q.at(taskOf("forgotten"), becauseTime, after(2))
		q.within(taskOf("forgotten"), becauseLive, after(3))
		q.forget(taskOf("forgotten"))
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
