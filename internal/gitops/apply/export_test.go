package apply

import "time"

// Hurry makes the pauses between tries short.
func (a *Applier) Hurry(first, longest time.Duration) { a.pace.first, a.pace.longest = first, longest }
