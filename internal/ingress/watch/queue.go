package watch

import (
	"context"
	"sync"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// item is a queued event, or a silent marker that reports its delivery.
type item struct {
	event Event
	// silent items are not returned by Next.
	silent bool
	// delivered is called when Next returns the item.
	delivered func()
}

// place is the key of the newest item for an object.
type place struct {
	ref    snapshot.Ref
	silent bool
}

// queue carries events from the reflectors to Next. It has two parts. One holds
// events in order, and blocks push while it is full, which is the back-pressure on
// the reflectors. The other holds the newest event of each Secret and never
// blocks, because the goroutine that empties the queue adds to it too.
type queue struct {
	limit int
	// filled holds at most one signal that there are items.
	filled chan struct{}
	closed chan struct{}

	mu     sync.Mutex
	items  []item
	newest map[place]item
	// room is closed and replaced when items are taken.
	room chan struct{}
}

func newQueue(limit int) *queue {
	return &queue{
		limit: limit, filled: make(chan struct{}, 1), closed: make(chan struct{}),
		newest: map[place]item{}, room: make(chan struct{}),
	}
}

// push appends an item, and blocks while the queue is full.
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

// tryPush returns nil if the item was queued, or else the channel to wait for.
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

// set replaces an older item for the same object. A silent item never replaces an
// event, which would be lost.
func (q *queue) set(ref snapshot.Ref, it item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.newest[place{ref, it.silent}] = it
	q.signal()
}

// signal never blocks: one pending signal stands for any number of items.
func (q *queue) signal() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// take blocks until there are items and returns all of them.
func (q *queue) take(ctx context.Context) ([]item, error) {
	for {
		select {
		case <-q.filled:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-q.closed:
			return nil, errStopped
		}
		// It may be empty: the items of this signal may have been taken with
		// those of an earlier one.
		if items := q.drain(); len(items) > 0 {
			return items, nil
		}
	}
}

// drain takes all items and wakes blocked pushers.
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

// close makes take return errStopped.
func (q *queue) close() { close(q.closed) }
