package tunnel

import (
	"time"

	"slipway.dev/slipway/internal/backoff"
)

// firstDelay bounds the delay after the first failed attempt.
const firstDelay = 500 * time.Millisecond

// delay returns the delay before an attempt: none before the first, then a random
// time below a bound that doubles up to maxBackoff. The jitter covers the full
// range, because agents that lost the same platform at the same moment would
// otherwise reconnect together.
func delay(try int, maxBackoff time.Duration) time.Duration {
	if try <= 0 {
		return 0
	}
	return backoff.Policy{First: firstDelay, Longest: maxBackoff, JitterDown: 1}.Delay(try)
}
