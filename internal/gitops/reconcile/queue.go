package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/internal/gitops/fair"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// item is what a worker processes, one at a time for each: an Application, a
// repository to poll, a call of a plugin, or the kinds to unwatch.
type item struct {
	app        tracking.App
	repository address.Address
	// call is the key of a call of a plugin for the Application.
	call    string
	unwatch bool
}

// reason is why an item is in the queue. Several are merged.
type reason uint8

const (
	// reasonChange: the Application or its project changed, or this is the first
	// run.
	reasonChange reason = 1 << iota
	// reasonSource: a poll found another revision, or the repository became
	// readable or unreadable.
	reasonSource
	// reasonLive: one of the Application's objects changed.
	reasonLive
	// reasonTimer: a time that the last run named has come.
	reasonTimer
)

// only reports whether there is no reason but the given ones.
func (r reason) only(some reason) bool { return r&^some == 0 }

// queue is client-go's delaying work queue with the reasons of each item. The
// work queue gives an item to one worker at a time, and again if it was added
// meanwhile; it holds each item once, so it is bounded by what there is.
//
// Three things are added. Reasons are merged per item and handed out with it. Each
// reason of an item has at most one time, which can be moved or dropped: a timer
// of the work queue that comes too early hands out nothing, and is set again for
// the time that is left. Projects have turns, and one project has most workers at
// a time: a worker more than that always serves the others.
type queue struct {
	work  workqueue.TypedDelayingInterface[item]
	order *fair.Queue[item]
	most  int

	// mu guards the maps. It is never held while the work queue blocks.
	mu      sync.Mutex
	pending map[item]reason
	times   map[item]map[reason]time.Time
	working map[item]bool
	// parked are items by the project that has its share of workers. They are in
	// the work queue again when one of these is done.
	parked   map[string][]item
	isParked map[item]bool
}

// newQueue makes a queue that knows the projects of its items. It starts the
// timer goroutine of the work queue, which ends with run.
func newQueue(most int, projects func(item) []string) *queue {
	order := fair.NewQueue(projects)
	return &queue{
		work: order.NewDelaying(), order: order, most: most,
		pending: map[item]reason{}, times: map[item]map[reason]time.Time{}, working: map[item]bool{},
		parked: map[string][]item{}, isParked: map[item]bool{},
	}
}

// isBusy reports whether more items wait than the workers get to in about a second.
func (q *queue) isBusy() bool { return q.length() > 4*q.most }

// add enqueues an item now. One that is parked keeps its place.
func (q *queue) add(one item, why reason) {
	q.mu.Lock()
	q.pending[one] |= why
	parked := q.isParked[one]
	q.mu.Unlock()
	if !parked {
		q.work.Add(one)
	}
}

// at enqueues an item at a time, and at no other for that reason. Zero is never.
func (q *queue) at(one item, why reason, when time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set(one, why, when)
}

// within enqueues an item at a time, or earlier if that was scheduled.
func (q *queue) within(one item, why reason, when time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if scheduled, ok := q.times[one][why]; !ok || when.Before(scheduled) {
		q.set(one, why, when)
	}
}

// set moves the time of a reason. The lock is held.
func (q *queue) set(one item, why reason, when time.Time) {
	if when.IsZero() {
		delete(q.times[one], why)
		if len(q.times[one]) == 0 {
			delete(q.times, one)
		}
		return
	}
	if q.times[one] == nil {
		q.times[one] = map[reason]time.Time{}
	}
	q.times[one][why] = when
	q.work.AddAfter(one, time.Until(when))
}

// forget drops all times of an item.
func (q *queue) forget(one item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.times, one)
}

// take waits for an item that has a reason. It returns false when the queue is
// shut down. The caller calls done.
func (q *queue) take() (item, reason, bool) {
	for {
		one, shutdown := q.work.Get()
		if shutdown {
			return item{}, 0, false
		}
		if q.park(one) {
			q.work.Done(one)
			continue
		}
		if why := q.due(one); why != 0 {
			return one, why, true
		}
		q.done(one)
	}
}

// park sets an item aside whose project has its share of workers. Its reasons
// stay with it.
func (q *queue) park(one item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.order.Held(one) <= q.most {
		return false
	}
	project := q.order.Release(one)
	if !q.isParked[one] {
		q.isParked[one] = true
		q.parked[project] = append(q.parked[project], one)
	}
	return true
}

// unpark returns the parked item that is next in a project. The lock is held.
func (q *queue) unpark(project string) (next item, found bool) {
	waiting := q.parked[project]
	if len(waiting) == 0 {
		return item{}, false
	}
	if q.parked[project] = waiting[1:]; len(waiting) == 1 {
		delete(q.parked, project)
	}
	delete(q.isParked, waiting[0])
	return waiting[0], true
}

// due returns the reasons for which an item is processed now, and sets the timer
// for the earliest of the others.
func (q *queue) due(one item) reason {
	q.mu.Lock()
	defer q.mu.Unlock()
	why := q.pending[one]
	delete(q.pending, one)
	now := time.Now()
	var next time.Time
	for reason, when := range q.times[one] {
		if when.After(now) {
			next = earliest(next, when)
			continue
		}
		why |= reason
		delete(q.times[one], reason)
	}
	if !next.IsZero() {
		q.work.AddAfter(one, next.Sub(now))
	} else {
		delete(q.times, one)
	}
	if why != 0 {
		q.working[one] = true
	}
	return why
}

// done hands an item back. If it was added meanwhile, it comes again.
func (q *queue) done(one item) {
	q.mu.Lock()
	delete(q.working, one)
	next, found := q.unpark(q.order.Release(one))
	q.mu.Unlock()
	q.work.Done(one)
	if found {
		q.work.Add(next)
	}
}

// length is how many items wait for a worker. Items with a later time are not
// counted.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.work.Len() + len(q.isParked)
}

// run shuts the queue down when the context is done.
func (q *queue) run(ctx context.Context) {
	<-ctx.Done()
	q.work.ShutDown()
}
