package watch

import "time"

// Listed reports whether Next has returned the first list of every built-in kind.
// Objects that they name may still be unread; see Synced.
func (w *Watcher) Listed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		return false
	}
	for feed := range w.unlisted {
		if feed.resource != secretResource {
			return false
		}
	}
	return true
}

// Behind returns for how long a resource could not be read, 0 while all can.
func (w *Watcher) Behind() time.Duration { return w.failures.duration() }
