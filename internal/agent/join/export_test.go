package join

import "time"

// Hasten makes a membership wait for little.
func Hasten(o *Options) {
	o.timing = timing{
		heartbeat: 20 * time.Millisecond, request: 5 * time.Second, firstBackoff: 5 * time.Millisecond,
		maxBackoff: 50 * time.Millisecond, keyInterval: 50 * time.Millisecond,
	}
}

// Pauses gives the waits after failures.
func Pauses(first, longest time.Duration, count int) []time.Duration {
	p := newRetries(first, longest)
	var all []time.Duration
	for range count {
		all = append(all, p.Next())
	}
	return all
}
