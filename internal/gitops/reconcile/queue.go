package reconcile

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// task is what the workers do, one at a time for each: a pass over an
// Application, a look at a repository, or the sweep of kinds that nobody needs.
type task struct {
	app        tracking.App
	repository string
	sweep      bool
}

// reason says why a task is to be done. Several can come together.
type reason uint8

const (
	// becauseAsked: the Application or its project changed, or everything is
	// looked at for the first time.
	becauseAsked reason = 1 << iota
	// becauseSource: its repository has another revision, or can be read again,
	// or cannot any more.
	becauseSource
	// becauseLive: one of its objects changed.
	becauseLive
	// becauseTime: a time came that the last pass had named.
	becauseTime
)

// only reports whether there is no other reason than some.
func (r reason) only(some reason) bool { return r&^some == 0 }

// queue gives tasks to workers. A task that is being worked on is not given to
// another worker; it comes again if something happened meanwhile. It holds each
// task once, so it is bounded by what there is.
type queue struct {
	now func() time.Time

	mu      sync.Mutex
	filled  *sync.Cond
	closed  bool
	order   []task
	pending map[task]reason
	working map[task]bool
	times   timetable
	// sooner holds one signal at most: the earliest time is another one.
	sooner chan struct{}
}

func newQueue(now func() time.Time) *queue {
	q := &queue{
		now: now, pending: map[task]reason{}, working: map[task]bool{},
		times: timetable{place: map[appointment]int{}}, sooner: make(chan struct{}, 1),
	}
	q.filled = sync.NewCond(&q.mu)
	return q
}

// add asks for a task to be done now.
func (q *queue) add(of task, why reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(of, why)
}

func (q *queue) put(of task, why reason) {
	before, waits := q.pending[of]
	q.pending[of] = before | why
	if waits || q.working[of] {
		return
	}
	q.order = append(q.order, of)
	q.filled.Signal()
}

// at asks for a task to be done at a time, and at no other for that reason. Zero
// is never.
func (q *queue) at(of task, why reason, when time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.times.set(appointment{of, why}, when)
	q.tell()
}

// within asks for a task to be done at a time, or earlier if it was asked for
// earlier.
func (q *queue) within(of task, why reason, when time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if already, ok := q.times.get(appointment{of, why}); ok && !already.After(when) {
		return
	}
	q.times.set(appointment{of, why}, when)
	q.tell()
}

func (q *queue) tell() {
	select {
	case q.sooner <- struct{}{}:
	default:
	}
}

// forget drops all times of a task.
func (q *queue) forget(of task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for why := becauseAsked; why <= becauseTime; why <<= 1 {
		q.times.set(appointment{of, why}, time.Time{})
	}
}

// take waits for a task. It is false when the queue is closed. The caller calls
// done.
func (q *queue) take() (task, reason, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.order) == 0 && !q.closed {
		q.filled.Wait()
	}
	if q.closed {
		return task{}, 0, false
	}
	of := q.order[0]
	q.order = q.order[1:]
	why := q.pending[of]
	delete(q.pending, of)
	q.working[of] = true
	return of, why, true
}

func (q *queue) done(of task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.working, of)
	if _, again := q.pending[of]; again {
		q.order = append(q.order, of)
		q.filled.Signal()
	}
}

// length is how many tasks wait for a worker.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.order)
}

// run keeps the times until the context is done, and closes the queue then.
func (q *queue) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(q.due())
		select {
		case <-ctx.Done():
		case <-q.sooner:
		case <-timer.C:
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}

// due puts what is due into the queue, and says how long to wait for the next.
func (q *queue) due() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for len(q.times.heap) > 0 {
		first := q.times.heap[0]
		if wait := first.when.Sub(now); wait > 0 {
			return wait
		}
		q.times.set(first.appointment, time.Time{})
		q.put(first.task, first.why)
	}
	return time.Hour
}

// appointment is a task and why it is done at a time.
type appointment struct {
	task
	why reason
}

type timed struct {
	appointment
	when time.Time
}

// timetable is a heap of times, one for each appointment.
type timetable struct {
	heap  []timed
	place map[appointment]int
}

func (t *timetable) get(of appointment) (time.Time, bool) {
	i, ok := t.place[of]
	if !ok {
		return time.Time{}, false
	}
	return t.heap[i].when, true
}

// set moves an appointment. Zero takes it out.
func (t *timetable) set(of appointment, when time.Time) {
	i, known := t.place[of]
	switch {
	case known && when.IsZero():
		heap.Remove(t, i)
	case known:
		t.heap[i].when = when
		heap.Fix(t, i)
	case !when.IsZero():
		heap.Push(t, timed{of, when})
	}
}

// Len is for the package heap, and so are the others.
func (t *timetable) Len() int { return len(t.heap) }

// Less orders by time.
func (t *timetable) Less(i, j int) bool { return t.heap[i].when.Before(t.heap[j].when) }

// Swap keeps the places.
func (t *timetable) Swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.place[t.heap[i].appointment], t.place[t.heap[j].appointment] = i, j
}

// Push appends.
func (t *timetable) Push(x any) {
	one := x.(timed)
	t.place[one.appointment] = len(t.heap)
	t.heap = append(t.heap, one)
}

// Pop removes the last.
func (t *timetable) Pop() any {
	last := t.heap[len(t.heap)-1]
	t.heap = t.heap[:len(t.heap)-1]
	delete(t.place, last.appointment)
	return last
}
