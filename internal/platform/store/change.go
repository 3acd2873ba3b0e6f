package store

import (
	"context"
	"sync"
)

// ChangeKind is what a Change is about.
type ChangeKind string

// The kinds of changes.
const (
	ChangeRuntime     ChangeKind = "runtime"     // ID is the runtime's
	ChangeApplication ChangeKind = "application" // ID is the runtime's
	ChangeCredential  ChangeKind = "credential"  // ID is the runtime's
	ChangeReplica     ChangeKind = "replica"     // ID is the replica's; also for its connections
	// ChangeAll says that changes may have been missed: read everything again.
	ChangeAll ChangeKind = "all"
)

// Change says that something was stored, by this or another replica.
type Change struct {
	Kind      ChangeKind `json:"k"`
	AccountID string     `json:"a,omitempty"`
	ID        string     `json:"i,omitempty"`
	// Namespace and Name are of an application. Empty for ChangeApplication: several
	// of the runtime changed.
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"n,omitempty"`
}

const (
	// maxTold is how many applications of one transaction are told one by one.
	maxTold = 16
	// maxPending is how many changes wait for a reader before it gets ChangeAll.
	maxPending = 256
)

// summarised leaves each change once, and one for many applications.
func summarised(changes []Change) []Change {
	seen := make(map[Change]bool, len(changes))
	var short []Change
	for _, change := range changes {
		if len(changes) > maxTold && change.Kind == ChangeApplication {
			change.Namespace, change.Name = "", ""
		}
		if !seen[change] {
			seen[change] = true
			short = append(short, change)
		}
	}
	return short
}

// Changes are the changes that are stored from now on, until ctx ends or the store
// is closed; then the channel is closed. A change comes after it can be read. A
// reader that is slow gets ChangeAll in place of what it missed; it never holds
// anybody up.
func (s *Store) Changes(ctx context.Context) <-chan Change {
	out := make(chan Change)
	listener := s.audience.join()
	s.running.Go(func() {
		defer close(out)
		defer s.audience.leave(listener)
		for {
			select {
			case <-listener.wake:
			case <-ctx.Done():
				return
			case <-s.closing.Done():
				return
			}
			for _, change := range s.audience.take(listener) {
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

// audience is who reads changes in this process.
type audience struct {
	mu        sync.Mutex
	listeners map[*listener]bool
}

type listener struct {
	pending []Change      // guarded by audience.mu
	wake    chan struct{} // has room for one
}

func (a *audience) join() *listener {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := &listener{wake: make(chan struct{}, 1)}
	if a.listeners == nil {
		a.listeners = map[*listener]bool{}
	}
	a.listeners[l] = true
	return l
}

func (a *audience) leave(l *listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.listeners, l)
}

func (a *audience) take(l *listener) []Change {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending := l.pending
	l.pending = nil
	return pending
}

func (a *audience) tell(changes []Change) {
	if len(changes) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range a.listeners {
		if len(l.pending)+len(changes) > maxPending {
			l.pending = []Change{{Kind: ChangeAll}}
		} else {
			l.pending = append(l.pending, changes...)
		}
		select {
		case l.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}
