package source

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// How long an unused repository stays open in memory, and how long everything
// unused stays on the disk. The times are generous: opening costs some disk reads,
// but a removed repository is a full fetch.
const (
	idleAfter   = time.Hour
	unusedAfter = 7 * 24 * time.Hour
)

// sweep closes unused repositories, and removes repositories, charts and indexes
// that no project has used for long, at most once a minute.
func (s *Sources) sweep() {
	now := time.Now()
	last := s.swept.Load()
	if now.UnixNano()-last < int64(time.Minute) || !s.swept.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	s.forgetIdle(now)
	if err := s.quota.sweep(now.Add(-unusedAfter)); err != nil {
		s.options.Log.Warn("cannot record which projects use the cache of sources", slog.Any("error", err))
	}
}

// forgetIdle drops repositories from memory. What is on the disk stays, and is
// opened when it is used again.
func (s *Sources) forgetIdle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.repositories {
		switch idle := r.idle(now); {
		case idle > idleAfter:
			// The runtime closes files that nothing holds any more.
			delete(s.repositories, key)
			s.refs.RemoveIf(func(other *repository) bool { return other == r })
		case idle < 2*time.Minute:
			// Its folder must not look unused after a restart.
			if err := os.Chtimes(r.folder, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.options.Log.Warn("cannot mark a repository as used", slog.String("repository", r.name), slog.Any("error", err))
			}
		}
	}
}

// idle is how long a repository has been unused. It is 0 while a request is in
// flight or a fetch holds fetchLock: two repositories of one folder must never
// fetch. The lock is tried and not waited for, because the caller holds the mutex
// of all repositories.
func (r *repository) idle(now time.Time) time.Duration {
	select {
	case r.fetchLock <- struct{}{}:
		defer func() { <-r.fetchLock }()
	default:
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inFlight != nil {
		return 0
	}
	return now.Sub(r.lastUsed)
}

// remove deletes an entry of the quota from the disk. It is false for a repository
// that is being fetched or opened. Stores that read it keep their files open.
func (s *Sources) remove(entry string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.repositories {
		if r.entry != entry {
			continue
		}
		select {
		case r.fetchLock <- struct{}{}:
			defer func() { <-r.fetchLock }()
		default:
			return false
		}
		r.setDisk(nil)
	}
	if err := os.RemoveAll(filepath.Join(s.options.Folder, entry)); err != nil {
		s.options.Log.Warn("cannot remove an unused source", slog.String("entry", entry), slog.Any("error", err))
		return false
	}
	return true
}
