package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/store"
)

const (
	// reporterTTL is how long the status of a runtime is cached. Concurrent
	// watches query the same runtimes.
	reporterTTL = time.Second
	// maxCachedReporters bounds the cache; at the limit it is emptied.
	maxCachedReporters = 20000
)

// reporterStatus is what a list of applications needs of their runtime. The
// name is empty for a deleted runtime. The policy is the same pointer until it
// changes.
type reporterStatus struct {
	name   string
	stale  bool
	policy *apprights.Policy
}

// reporters is a short-lived cache of reporterStatus by runtime ID.
type reporters struct {
	mu    sync.Mutex
	known map[string]cachedReporter
}

type cachedReporter struct {
	reporterStatus
	at time.Time
}

// get returns the status of a runtime, from the cache if it is fresh.
// Concurrent misses may query the store more than once, which is harmless.
func (r *reporters) get(ctx context.Context, fleet *Fleet, id string) (reporterStatus, error) {
	now := fleet.now()
	r.mu.Lock()
	found, ok := r.known[id]
	r.mu.Unlock()
	// The clock may go backwards; a negative age counts as stale.
	if age := now.Sub(found.at); ok && age >= 0 && age < reporterTTL {
		return found.reporterStatus, nil
	}
	runtime, err := fleet.store.RuntimeByID(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reporterStatus{}, err
	}
	cursor, err := fleet.store.Cursor(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reporterStatus{}, err
	}
	fresh := reporterStatus{name: runtime.Name, stale: cursor.Resyncing || !fleet.online(runtime), policy: fleet.options.Policies.Of(runtime)}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Emptying the whole map is simpler than evicting entries, and costs one
	// query per runtime per second at worst.
	if r.known == nil || len(r.known) >= maxCachedReporters {
		r.known = map[string]cachedReporter{}
	}
	r.known[id] = cachedReporter{fresh, now}
	return fresh, nil
}
