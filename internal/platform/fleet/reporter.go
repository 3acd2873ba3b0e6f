package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

const (
	// reporterAge is how long it is remembered whether a runtime's reports are old.
	// Many watches ask for the same ones.
	reporterAge = time.Second
	// mostReporters bounds what is remembered.
	mostReporters = 20000
)

// reporter is what is to be known of a runtime to show its applications. It has no
// name when the runtime is gone.
type reporter struct {
	name  string
	stale bool
}

// reporters remembers reporters for a moment.
type reporters struct {
	mu    sync.Mutex
	known map[string]timedReporter
}

type timedReporter struct {
	reporter
	at time.Time
}

func (r *reporters) get(ctx context.Context, fleet *Fleet, id string) (reporter, error) {
	now := fleet.now()
	r.mu.Lock()
	found, ok := r.known[id]
	r.mu.Unlock()
	if age := now.Sub(found.at); ok && age >= 0 && age < reporterAge {
		return found.reporter, nil
	}
	runtime, err := fleet.store.RuntimeByID(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reporter{}, err
	}
	cursor, err := fleet.store.Cursor(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reporter{}, err
	}
	fresh := reporter{name: runtime.Name, stale: cursor.Resyncing || !fleet.online(runtime)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= mostReporters {
		r.known = map[string]timedReporter{}
	}
	r.known[id] = timedReporter{fresh, now}
	return fresh, nil
}
