package watch

import "time"

// Hurry shortens the pauses, for tests that wait for the end of one.
func (w *Watcher) Hurry(rare time.Duration) { w.timing.deniedRetry, w.timing.longest = rare, rare }

// Narrow makes the queue short.
func (w *Watcher) Narrow(limit int) { w.queue = newQueue(limit) }

// Queued is how many events wait for Next.
func (w *Watcher) Queued() int {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	return len(w.queue.items)
}
