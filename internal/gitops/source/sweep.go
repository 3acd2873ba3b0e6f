package source

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// How long an unused repository stays open in memory, and on the disk. The
// times are generous: opening costs some disk reads, but a removed repository
// is a full fetch.
const (
	idleAfter   = time.Hour
	unusedAfter = 7 * 24 * time.Hour
)

// sweep closes and removes unused repositories, at most once a minute. The
// caller holds mu.
func (s *Sources) sweep() {
	now := time.Now()
	if now.Sub(s.swept) < time.Minute {
		return
	}
	s.swept = now
	for key, r := range s.repositories {
		switch idle := r.closeIdle(now); {
		case idle > unusedAfter:
			delete(s.repositories, key)
			if err := os.RemoveAll(r.folder); err != nil {
				s.options.Log.Warn("cannot remove an unused repository", slog.String("repository", r.name), slog.Any("error", err))
			}
		case idle < 2*time.Minute:
			// Its folder must not look unused after a restart.
			if err := os.Chtimes(r.folder, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.options.Log.Warn("cannot mark a repository as used", slog.String("repository", r.name), slog.Any("error", err))
			}
		}
	}
}

// closeIdle closes the files of an unused repository and returns how long it
// has been unused. It does nothing while a fetch holds fetchLock. The lock is
// tried and not waited for, because the caller holds the mutex of all
// repositories.
func (r *repository) closeIdle(now time.Time) time.Duration {
	select {
	case r.fetchLock <- struct{}{}:
		defer func() { <-r.fetchLock }()
	default:
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	idle := now.Sub(r.lastUsed)
	if idle > idleAfter && r.inFlight == nil {
		// The runtime closes files that nothing holds any more.
		r.disk, r.cachedRefs = nil, nil
	}
	return idle
}

// removeUnused removes what no process has used for a week. It runs before the
// first Resolve, so that no repository can be in use.
func (s *Sources) removeUnused() error {
	folder := filepath.Join(s.options.Folder, "git")
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < unusedAfter {
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
