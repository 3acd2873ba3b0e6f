package watch

import (
	"context"
	"sync"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// item is an event on its way, or only the news that something was delivered.
type item struct {
	event Event
	// silent items are not returned by Next.
	silent bool
	// delivered is called when Next returns the item.
	delivered func()
}

// place is that of the newest item for an object.
type place struct {
	ref    snapshot.Ref
	silent bool
}

// queue is between the reflectors and Next. It has two parts. The one holds
// events in their order; when it is full, whoever pushes waits. The other holds
// the newest event for each Secret and never makes anybody wait, because the
// goroutine that empties the queue puts events there too.
type queue struct {
	limit int
	// filled holds one signal at most.
	filled chan struct{}
	closed chan struct{}

	mu     sync.Mutex
	items  []item
	newest map[place]item
	// room is closed, and made anew, when items are taken.
	room chan struct{}
}

func newQueue(limit int) *queue {
	return &queue{
		limit: limit, filled: make(chan struct{}, 1), closed: make(chan struct{}),
		newest: map[place]item{}, room: make(chan struct{}),
	}
}

// push appends an item, and waits while there is no room.
func (q *queue) push(ctx context.Context, it item) error {
	for {
		room := q.tryPush(it)
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryPush returns nil when the item is in, or else what to wait for.
func (q *queue) tryPush(it item) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) >= q.limit {
		return q.room
	}
	q.items = append(q.items, it)
	q.signal()
	return nil
}

// set puts an item in the place of an older one for the same object. A silent
// one never takes the place of an event.
func (q *queue) set(ref snapshot.Ref, it item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.newest[place{ref, it.silent}] = it
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// take waits for items and takes all of them.
func (q *queue) take(ctx context.Context) ([]item, error) {
	for {
		select {
		case <-q.filled:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-q.closed:
			return nil, errStopped
		}
		// There may be nothing after all: what the signal was for can have been
		// taken with something before it.
		if items := q.drain(); len(items) > 0 {
			return items, nil
		}
	}
}

func (q *queue) drain() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	for _, it := range q.newest {
		items = append(items, it)
	}
	clear(q.newest)
	q.items = nil
	close(q.room)
	q.room = make(chan struct{})
	return items
}

// close ends the waiting of take.
func (q *queue) close() { close(q.closed) }
