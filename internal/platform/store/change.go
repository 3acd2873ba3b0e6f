package store

import (
	"context"
	"sync"
)

// ChangeKind is the type of the changed object.
type ChangeKind string

// Kinds of changes.
const (
	ChangeRuntime     ChangeKind = "runtime"     // ID is the runtime's
	ChangeApplication ChangeKind = "application" // ID is the runtime's
	ChangeCredential  ChangeKind = "credential"  // ID is the runtime's
	ChangeReplica     ChangeKind = "replica"     // ID is the replica's; also for its connections
	// ChangeAll reports that changes may have been lost: subscribers must
	// read everything again.
	ChangeAll ChangeKind = "all"
)

// Change reports that an object was stored, by this or another replica. It
// carries keys and no content: subscribers read the current state from the
// store.
type Change struct {
	Kind      ChangeKind `json:"k"`
	AccountID string     `json:"a,omitempty"`
	ID        string     `json:"i,omitempty"`
	// Namespace and Name identify an application. They are empty when several
	// applications of the runtime changed.
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"n,omitempty"`
}

const (
	// maxNamedChanges is how many applications of one transaction are
	// announced individually. Above it one change stands for the whole
	// runtime.
	maxNamedChanges = 16
	// maxPending bounds the queue of a subscriber; when it is full, ChangeAll
	// replaces it.
	maxPending = 256
)

// deduplicate removes repeated changes and merges many applications of a
// runtime into one.
func deduplicate(changes []Change) []Change {
	// A bulk report changes thousands of applications; one change per runtime
	// keeps the notification small, and subscribers read the runtime's list
	// once.
	seen := make(map[Change]bool, len(changes))
	var short []Change
	for _, change := range changes {
		if len(changes) > maxNamedChanges && change.Kind == ChangeApplication {
			change.Namespace, change.Name = "", ""
		}
		if !seen[change] {
			seen[change] = true
			short = append(short, change)
		}
	}
	return short
}

// Changes returns a channel of the changes that are stored from now on. It is
// closed when ctx is done or the store is closed. A change is delivered after
// it can be read. A slow subscriber receives ChangeAll in place of dropped
// changes and never blocks a writer.
func (s *Store) Changes(ctx context.Context) <-chan Change {
	out := make(chan Change)
	// The subscription starts before Changes returns, so the caller can read
	// the current state afterwards without a gap.
	subscriber := s.subscribers.subscribe()
	s.running.Go(func() {
		defer close(out)
		defer s.subscribers.unsubscribe(subscriber)
		for {
			select {
			case <-subscriber.wake:
			case <-ctx.Done():
				return
			case <-s.closing.Done():
				return
			}
			// The queue is drained outside of the lock: a slow reader only
			// delays itself.
			for _, change := range s.subscribers.take(subscriber) {
				select {
				case out <- change:
				case <-ctx.Done():
					return
				case <-s.closing.Done():
					return
				}
			}
		}
	})
	return out
}

// subscribers holds the readers of changes in this process.
type subscribers struct {
	mu     sync.Mutex
	active map[*subscriber]bool
}

// subscriber is one reader. Its queue is guarded by subscribers.mu.
type subscriber struct {
	pending []Change      // guarded by subscribers.mu
	wake    chan struct{} // capacity 1
}

// subscribe adds a reader that receives changes from now on.
func (a *subscribers) subscribe() *subscriber {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := &subscriber{wake: make(chan struct{}, 1)}
	if a.active == nil {
		a.active = map[*subscriber]bool{}
	}
	a.active[l] = true
	return l
}

// unsubscribe removes a reader with its queue.
func (a *subscribers) unsubscribe(l *subscriber) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.active, l)
}

// take returns the queued changes of a reader and empties its queue.
func (a *subscribers) take(l *subscriber) []Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending := l.pending
	l.pending = nil
	return pending
}

// publish queues changes for every reader without blocking.
func (a *subscribers) publish(changes []Change) {
	if len(changes) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range a.active {
		// Overflow loses details, never the fact that something changed.
		if len(l.pending)+len(changes) > maxPending {
			l.pending = []Change{{Kind: ChangeAll}}
		} else {
			l.pending = append(l.pending, changes...)
		}
		select {
		case l.wake <- struct{}{}:
		default: // already woken
		}
	}
}
