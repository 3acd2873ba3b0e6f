package fair

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Queue is the order of a work queue, for workqueue.TypedQueueConfig. The one who
// takes items calls Release for each.
type Queue[T comparable] struct {
	projects func(T) []string

	mu    sync.Mutex
	turns turns[T]
	// waiting are the items that were not taken. An item of several projects is
	// in the turns of each, and those that are left there when it is taken do not
	// count.
	waiting map[T]struct{}
	// taken has the project for which an item was taken.
	taken map[T]string
}

var _ workqueue.Queue[string] = (*Queue[string])(nil)

// NewQueue returns an empty queue. An item that several projects share is taken
// at the first turn of any of them: one of them cannot delay it for the others.
func NewQueue[T comparable](projects func(T) []string) *Queue[T] {
	return &Queue[T]{projects: projects, turns: newTurns[T](), waiting: map[T]struct{}{}, taken: map[T]string{}}
}

// NewDelaying returns a work queue with this order.
func (q *Queue[T]) NewDelaying() workqueue.TypedDelayingInterface[T] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Queue: q}),
	})
}

// Touch is for the work queue: an item that waits keeps its place.
func (q *Queue[T]) Touch(T) {}

// Push is for the work queue.
func (q *Queue[T]) Push(one T) {
	projects := q.projects(one)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[one] = struct{}{}
	for _, project := range projects {
		q.turns.push(project, one)
	}
	if len(projects) == 0 {
		q.turns.push("", one)
	}
}

// Len is for the work queue.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Pop is for the work queue, which calls it when Len is not 0.
func (q *Queue[T]) Pop() T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		one, project, found := q.turns.pop(1 << 30)
		if _, waits := q.waiting[one]; waits || !found {
			delete(q.waiting, one)
			q.taken[one] = project
			return one
		}
		q.turns.release(project)
	}
}

// Held is how many items are taken for the project of a taken one, with it.
func (q *Queue[T]) Held(one T) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.turns.of(q.taken[one]).held
}

// Release counts an item as no longer taken, and returns the project for which
// it was.
func (q *Queue[T]) Release(one T) (project string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	project = q.taken[one]
	delete(q.taken, one)
	q.turns.release(project)
	return project
}
