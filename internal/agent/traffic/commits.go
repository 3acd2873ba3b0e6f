package traffic

import (
	"context"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// maxCommits bounds the cache.
	maxCommits = 4096
	// maxCommitLookups bounds the lookups at a time.
	maxCommitLookups = 16
	commitTimeout    = 10 * time.Second
	// commitRetryDelay is when a commit that was not found is looked up again.
	commitRetryDelay = time.Minute
)

// LookUp returns a commit of an Application; nil if it may not be shown.
type LookUp func(ctx context.Context, app tracking.App, revision string) (*source.Commit, error)

type commitKey struct {
	// The project of the Application decides whether the commit may be shown,
	// so that it is part of the key.
	app      tracking.App
	revision string
}

type commitEntry struct {
	// commit is nil while it is pending and after a failure.
	commit  *source.Commit
	pending bool
	triedAt time.Time
}

// commitCache caches commits, and looks up missing ones in the background, so
// that polling never waits for Git.
type commitCache struct {
	// find reads from Git.
	find LookUp
	// looking is a semaphore of lookups.
	looking chan struct{}

	mu     sync.Mutex
	cached map[commitKey]*commitEntry
	// version grows with each finished lookup.
	version int
}

// newCommitCache returns an empty cache.
func newCommitCache(find LookUp) *commitCache {
	return &commitCache{find: find, looking: make(chan struct{}, maxCommitLookups), cached: map[commitKey]*commitEntry{}}
}

// number grows with each finished lookup, so that tables are rebuilt with it.
func (b *commitCache) number() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// get returns a commit; nil while it is not cached, which starts a lookup. It
// never blocks on Git: the caller joins its table without the commit, and a new
// version has it joined again.
func (b *commitCache) get(ctx context.Context, app *appFacts, now time.Time) *source.Commit {
	if app.revision == "" || b.find == nil {
		return nil
	}
	key := commitKey{app.place, app.revision}
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.cached[key]
	if entry == nil {
		if len(b.cached) >= maxCommits {
			b.forget(now)
		}
		entry = &commitEntry{}
		b.cached[key] = entry
	}
	if entry.commit == nil && !entry.pending && (entry.triedAt.IsZero() || now.Sub(entry.triedAt) >= commitRetryDelay) {
		select {
		case b.looking <- struct{}{}:
			entry.pending = true
			go b.lookUp(ctx, key, entry)
		default: // the next round
		}
	}
	return entry.commit
}

// forget makes room in a full cache. Commits that are still shown are looked up
// again. The lock must be held.
func (b *commitCache) forget(now time.Time) {
	for key, entry := range b.cached {
		if !entry.pending && now.Sub(entry.triedAt) > commitRetryDelay {
			delete(b.cached, key)
		}
	}
	if len(b.cached) >= maxCommits {
		clear(b.cached)
	}
}

// lookUp finds one commit and stores the result, also a failure.
func (b *commitCache) lookUp(ctx context.Context, key commitKey, entry *commitEntry) {
	defer func() { <-b.looking }()
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	commit, err := b.find(ctx, key.app, key.revision)
	b.mu.Lock()
	defer b.mu.Unlock()
	entry.pending, entry.triedAt = false, time.Now()
	// A new version has tables joined again, which starts the lookups that had
	// no slot before.
	b.version++
	if err == nil {
		entry.commit = commit
	}
}
