package tunnel

import (
	"time"

	"slipway.dev/slipway/internal/backoff"
)

// firstDelay bounds the delay after the first failed try.
const firstDelay = 500 * time.Millisecond

// delay is how long to wait before a try: nothing before the first, then a random
// time below a bound that doubles up to the slowest. All of it is random, because
// agents that lost the same platform would otherwise come back together.
func delay(try int, slowest time.Duration) time.Duration {
	if try <= 0 {
		return 0
	}
	return backoff.Policy{First: firstDelay, Longest: slowest, JitterDown: 1}.Delay(try)
}
