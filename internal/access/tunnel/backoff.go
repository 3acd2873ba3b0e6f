package tunnel

import (
	"context"
	"math/rand/v2"
	"time"
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
	bound := slowest
	if try < 16 {
		bound = min(slowest, firstDelay<<(try-1))
	}
	return rand.N(bound + 1)
}

// pause waits, and reports whether the context lasted.
func pause(ctx context.Context, length time.Duration) bool {
	if length <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
