package reconcile

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/gitops/tracking"
)

func itemOf(name string) item { return item{app: tracking.App{Namespace: "apps", Name: name}} }

// newTestQueue is a queue that is shut down at the end of the test.
func newTestQueue(t *testing.T) *queue {
	q := newQueue(100, oneProject)
	t.Cleanup(q.work.ShutDown)
	return q
}

// oneProject has all items.
func oneProject(item) []string { return []string{"default"} }

// byPrefix is the project before the dash in the name of an item.
func byPrefix(one item) []string {
	project, _, _ := strings.Cut(one.app.Name, "-")
	return []string{project}
}

// A project with many items has its share of workers, and one more worker is
// there for others. What it has to wait with comes in its order, with its reasons.
func TestQueueLeavesAWorkerToOthers(t *testing.T) {
	q := newQueue(2, byPrefix)
	t.Cleanup(q.work.ShutDown)
	for i := range 5 {
		q.add(itemOf(fmt.Sprint("slow-", i)), reasonChange)
	}
	take := func(want string) {
		t.Helper()
		if got, why, _ := q.take(); got != itemOf(want) || why == 0 {
			t.Fatalf("took %v because of %b, want %s", got, why, want)
		}
	}
	take("slow-0")
	take("slow-1")
	// Two are worked on: the third worker sets the rest aside and waits.
	third := make(chan item)
	go func() {
		one, _, _ := q.take()
		third <- one
	}()
	for q.work.Len() > 0 {
		runtime.Gosched()
	}
	q.add(itemOf("good-0"), reasonChange)
	if got := <-third; got != itemOf("good-0") {
		t.Fatalf("the third worker has %v", got)
	}
	q.add(itemOf("slow-3"), reasonLive)
	if q.length() != 3 {
		t.Errorf("%d wait, want 3", q.length())
	}
	q.done(itemOf("slow-0"))
	take("slow-2")
	q.done(itemOf("slow-1"))
	got, why, _ := q.take()
	if got != itemOf("slow-3") || why != reasonChange|reasonLive {
		t.Errorf("took %v because of %b", got, why)
	}
	q.done(itemOf("slow-2"))
	take("slow-4")
	for _, name := range []string{"slow-3", "slow-4", "good-0"} {
		q.done(itemOf(name))
	}
	if q.length() != 0 {
		t.Errorf("%d wait at the end", q.length())
	}
}

// An item that waits is taken before those of a project that has more workers,
// however many those are and whenever they came.
func TestQueueTakesTurns(t *testing.T) {
	q := newQueue(100, byPrefix)
	t.Cleanup(q.work.ShutDown)
	for i := range 50 {
		q.add(itemOf(fmt.Sprint("slow-", i)), reasonChange)
	}
	q.add(itemOf("good-0"), reasonChange)
	q.add(itemOf("good-1"), reasonChange)
	var names []string
	for range 5 {
		one, _, _ := q.take()
		names = append(names, one.app.Name)
	}
	slices.Sort(names[:2])
	slices.Sort(names[2:4])
	if got := strings.Join(names, " "); got != "good-0 slow-0 good-1 slow-1 slow-2" {
		t.Errorf("taken are %s", got)
	}
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
		q := newQueue(100, oneProject)
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
