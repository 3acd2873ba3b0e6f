package watch

import "time"

// Listed reports whether Next has returned the first list of every built-in
// kind. What these objects name may still be missing; see Synced.
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

// Behind is how long something could not be read, 0 while everything can.
func (w *Watcher) Behind() time.Duration { return w.failures.duration() }
