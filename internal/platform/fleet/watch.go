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
	// watchTick is how often a watch looks whether runtimes went silent, which
	// nothing in the store says.
	watchTick = 2 * time.Second
	// keepAlive is how long a watch is silent at most: proxies close what says
	// nothing. The message has nothing in it.
	keepAlive = 20 * time.Second
	// mostWatches bounds the streams of one account on one replica.
	mostWatches = 500
	// mostPending bounds what a watch collects before it reads everything anew.
	mostPending = 256
)

// watcherCount counts streams by account.
type watcherCount struct {
	mu    sync.Mutex
	count map[string]int
}

// enter takes a place for a stream, or refuses.
func (w *watcherCount) enter(accountID string) (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count[accountID] >= mostWatches {
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

// viewer is one stream: it sends what it has not sent yet.
type viewer interface {
	// all sends everything that is new or different, and what is gone.
	all(ctx context.Context) error
	// some does so for what changed.
	some(ctx context.Context, changes []store.Change) error
	// aged does so for what only time has changed.
	aged(ctx context.Context) error
	// synced says that everything has been sent once.
	synced() error
	// alive says that the stream is.
	alive() error
	// sent says whether something was sent since it was asked last.
	sent() bool
}

// watch runs a stream until it ends. What changes while something is being sent is
// collected, and is not sent more often than it is taken.
func (f *Fleet) watch(ctx context.Context, accountID string, view viewer) error {
	leave, err := f.watchers.enter(accountID)
	if err != nil {
		return err
	}
	defer leave()
	f.metrics.watches.Inc()
	defer f.metrics.watches.Dec()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := f.store.Changes(ctx) // before the first look, so that nothing is missed
	if err := view.all(ctx); err != nil {
		return f.answer(err)
	}
	if err := view.synced(); err != nil {
		return err
	}
	return f.answer(f.follow(ctx, accountID, view, changes))
}

func (f *Fleet) follow(ctx context.Context, accountID string, view viewer, changes <-chan store.Change) error {
	ticks := time.NewTicker(watchTick)
	defer ticks.Stop()
	quiet := time.Now()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.options.Stopping:
			return connect.NewError(connect.CodeUnavailable, errors.New("this replica of the platform is stopping: connect again"))
		case first, open := <-changes:
			if !open {
				return ctx.Err()
			}
			if pending, everything := collect(first, changes, accountID); everything {
				err = view.all(ctx)
			} else if len(pending) > 0 {
				err = view.some(ctx, pending)
			}
		case <-ticks.C:
			err = view.aged(ctx)
			if view.sent() {
				quiet = time.Now()
			} else if err == nil && time.Since(quiet) >= keepAlive {
				quiet = time.Now()
				err = view.alive()
			}
		}
		if err != nil {
			return err
		}
	}
}

// collect takes the changes of an account that are there already, each once. It
// says when all has to be read again.
func collect(first store.Change, changes <-chan store.Change, accountID string) (pending []store.Change, everything bool) {
	seen := map[store.Change]bool{}
	next, open := first, true
	for open {
		switch {
		case next.Kind == store.ChangeAll:
			everything = true
		case next.AccountID == accountID && !seen[next]:
			seen[next] = true
			pending = append(pending, next)
		}
		if len(pending) > mostPending {
			return nil, true
		}
		select {
		case next, open = <-changes:
		default:
			return pending, everything
		}
	}
	return pending, everything
}
