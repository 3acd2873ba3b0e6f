package apply

import "time"

// Hurry makes the pauses between tries short.
func (a *Applier) Hurry(first, longest time.Duration) {
	a.backoff.first, a.backoff.longest = first, longest
}
