package lastgood

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"slipway.dev/slipway/internal/route"
)

const (
	// writePeriod is the least time between two writes, and so the age of the
	// table that a restart serves.
	writePeriod = 5 * time.Second
	// writeShare bounds writing to one part in twenty of the time: after a long
	// write the next one waits longer.
	writeShare = 20
)

// Keeper saves tables in the background. Of tables that come faster than they
// are written, only the newest is written.
//
// Its goroutine is in one of three states: it waits for a table, it writes one,
// or it waits until it may write again. Close ends the first and the last, and
// then writes what is left.
type Keeper struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex          // guards next and closed
	next   func() *route.Table // nil when all is saved
	closed bool

	wakeup chan struct{}
	stop   chan struct{}
	done   chan struct{}
	err    error // of the last write
}

// NewKeeper starts a Keeper for a directory, which it makes if it is not there.
// It fails at once if nothing could be saved, so that an operator sees it at
// the start and not after an outage.
func NewKeeper(dir string, log *slog.Logger) (*Keeper, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := open(dir)
	if err != nil {
		return nil, err
	}
	root.Close()
	k := &Keeper{dir: dir, log: log, wakeup: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go k.run()
	return k, nil
}

// Keep saves a table soon. It never waits. The function is called when the
// table is written, because most tables are not: a newer one comes first.
func (k *Keeper) Keep(table func() *route.Table) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.next = table
	k.wake()
}

// Close saves the last table and returns the error of that. It gives up when
// ctx is done.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		close(k.stop)
	}
	k.mu.Unlock()
	select {
	case <-k.done:
		return k.err
	case <-ctx.Done():
		return errors.Join(errors.New("the last-good table was not saved in time"), ctx.Err())
	}
}

// run writes tables until Close. It is the only goroutine that writes, so
// writes never overlap and err needs no lock: Close reads it after done.
func (k *Keeper) run() {
	defer close(k.done)
	for {
		select {
		case <-k.stop:
			k.write()
			return
		case <-k.wakeup:
		}
		began := time.Now()
		k.write()
		pause := time.NewTimer(max(writePeriod, writeShare*time.Since(began)))
		select {
		case <-k.stop:
			pause.Stop()
			k.write()
			return
		case <-pause.C:
		}
	}
}

// write saves the newest table, if there is one. One that cannot be saved is
// retried, unless a newer one has come.
func (k *Keeper) write() {
	k.mu.Lock()
	table := k.next
	k.next = nil
	k.mu.Unlock()
	if table == nil {
		return
	}
	k.err = Save(k.dir, table())
	if k.err == nil {
		return
	}
	k.log.Error("saving the last-good table failed, a restart without the source of routes would serve an older one", "error", k.err)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil {
		k.next = table
	}
	k.wake()
}

// wake wakes the goroutine. A wake-up that is pending already is enough.
func (k *Keeper) wake() {
	select {
	case k.wakeup <- struct{}{}:
	default:
	}
}
