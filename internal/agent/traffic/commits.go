package traffic

import (
	"context"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// mostCommits bounds what is remembered.
	mostCommits = 4096
	// commitLookers is how many commits are looked up at a time.
	commitLookers = 16
	commitTime    = 10 * time.Second
	// commitRetry is when a commit that was not found is looked for again.
	commitRetry = time.Minute
)

// LookUp finds what is told of a commit of an Application; nil if nothing is.
type LookUp func(ctx context.Context, app tracking.App, revision string) (*source.Commit, error)

type commitKey struct {
	app      tracking.App
	revision string
}

type commitEntry struct {
	commit  *source.Commit
	pending bool
	triedAt time.Time
}

// commitBook remembers commits, and looks for others beside the rounds.
type commitBook struct {
	find    LookUp
	looking chan struct{}

	mu      sync.Mutex
	known   map[commitKey]*commitEntry
	version int
}

func newCommitBook(find LookUp) *commitBook {
	return &commitBook{find: find, looking: make(chan struct{}, commitLookers), known: map[commitKey]*commitEntry{}}
}

// number grows when one was looked for.
func (b *commitBook) number() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// of gives a commit; nil while it is not known. It is looked for then.
func (b *commitBook) of(ctx context.Context, app *appFacts, now time.Time) *source.Commit {
	if app.revision == "" || b.find == nil {
		return nil
	}
	key := commitKey{app.place, app.revision}
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.known[key]
	if entry == nil {
		if len(b.known) >= mostCommits {
			b.forget(now)
		}
		entry = &commitEntry{}
		b.known[key] = entry
	}
	if entry.commit == nil && !entry.pending && (entry.triedAt.IsZero() || now.Sub(entry.triedAt) >= commitRetry) {
		select {
		case b.looking <- struct{}{}:
			entry.pending = true
			go b.look(ctx, key, entry)
		default: // the next round
		}
	}
	return entry.commit
}

// forget makes room. What is looked at is found again. The lock is held.
func (b *commitBook) forget(now time.Time) {
	for key, entry := range b.known {
		if !entry.pending && now.Sub(entry.triedAt) > commitRetry {
			delete(b.known, key)
		}
	}
	if len(b.known) >= mostCommits {
		clear(b.known)
	}
}

func (b *commitBook) look(ctx context.Context, key commitKey, entry *commitEntry) {
	defer func() { <-b.looking }()
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	commit, err := b.find(ctx, key.app, key.revision)
	b.mu.Lock()
	defer b.mu.Unlock()
	entry.pending, entry.triedAt = false, time.Now()
	// A new number makes tables be joined anew, and with them others be looked for.
	b.version++
	if err == nil {
		entry.commit = commit
	}
}
