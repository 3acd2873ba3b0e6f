package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
)

const (
	// watchTick is how often a watch checks for runtimes that went offline:
	// time passes without a change in the store.
	watchTick = 2 * time.Second
	// keepAliveInterval is the longest silence of a watch, because proxies
	// close idle streams. The keepalive message is empty.
	keepAliveInterval = 20 * time.Second
	// maxWatches bounds the watches of one account on one replica.
	maxWatches = 500
	// maxPending bounds the changes that a watch collects before it reads
	// everything again.
	maxPending = 256
)

// watchLimiter counts watches by account.
type watchLimiter struct {
	mu    sync.Mutex
	count map[string]int
}

// acquire reserves a watch, or fails at the limit.
func (w *watchLimiter) acquire(accountID string) (release func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count[accountID] >= maxWatches {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("the account has too many watches open: close some"))
	}
	if w.count == nil {
		w.count = map[string]int{}
	}
	w.count[accountID]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.count[accountID]--; w.count[accountID] == 0 {
			delete(w.count, accountID)
		}
	}, nil
}

// watchView is the state of one watch: it sends the difference to what it
// sent before.
type watchView interface {
	// sendAll sends everything that is new or changed, and deletions.
	sendAll(ctx context.Context) error
	// sendChanged does the same for the objects of the changes.
	sendChanged(ctx context.Context, changes []store.Change) error
	// sendExpired does the same for objects whose status depends on time.
	sendExpired(ctx context.Context) error
	// synced reports to the client that the complete state has been sent.
	synced() error
	// keepAlive sends an empty message.
	keepAlive() error
	// takeSent reports whether a message was sent since the last call.
	takeSent() bool
}

// watch runs a watch until it ends. Changes that arrive during a send are
// collected and merged, so a slow client never receives outdated states one
// by one.
func (f *Fleet) watch(ctx context.Context, accountID string, view watchView) error {
	release, err := f.watchers.acquire(accountID)
	if err != nil {
		return err
	}
	defer release()
	// Counted per replica, as the limit is.
	f.metrics.watches.Inc()
	defer f.metrics.watches.Dec()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := f.store.Changes(ctx) // subscribed before the first read, so that no change is lost
	if err := view.sendAll(ctx); err != nil {
		return f.apiError(err)
	}
	if err := view.synced(); err != nil {
		return err
	}
	return f.apiError(f.watchLoop(ctx, accountID, view, changes))
}

// watchLoop sends changes, expired states and keepalives until the client is
// gone or the replica stops.
func (f *Fleet) watchLoop(ctx context.Context, accountID string, view watchView, changes <-chan store.Change) error {
	ticks := time.NewTicker(watchTick)
	defer ticks.Stop()
	lastSent := time.Now()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.options.Stopping:
			return connect.NewError(connect.CodeUnavailable, errors.New("this replica of the platform is shutting down: reconnect"))
		case first, open := <-changes:
			if !open {
				return ctx.Err()
			}
			// A burst of changes results in one update.
			if pending, all := collect(first, changes, accountID); all {
				err = view.sendAll(ctx)
			} else if len(pending) > 0 {
				err = view.sendChanged(ctx, pending)
			}
		case <-ticks.C:
			// Keepalives are only needed when nothing else was sent.
			err = view.sendExpired(ctx)
			if view.takeSent() {
				lastSent = time.Now()
			} else if err == nil && time.Since(lastSent) >= keepAliveInterval {
				lastSent = time.Now()
				err = view.keepAlive()
			}
		}
		if err != nil {
			return err
		}
	}
}

// collect drains the pending changes of an account without duplicates. all is
// set when everything must be read again.
func collect(first store.Change, changes <-chan store.Change, accountID string) (pending []store.Change, all bool) {
	seen := map[store.Change]bool{}
	next, open := first, true
	for open {
		switch {
		case next.Kind == store.ChangeAll:
			all = true
		case next.AccountID == accountID && !seen[next]:
			seen[next] = true
			pending = append(pending, next)
		}
		// Reading everything once is cheaper than many single reads.
		if len(pending) > maxPending {
			return nil, true
		}
		select {
		case next, open = <-changes:
		default:
			return pending, all
		}
	}
	return pending, all
}
