// Package backoff computes how long to wait before something that failed is
// tried again. It is the only exponential backoff of the program: the planes
// differ in the numbers of their Policy, not in the arithmetic.
//
// It uses the standard library alone, so that every plane may import it.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy describes a capped exponential backoff with jitter.
//
// Jitter keeps clients apart that failed at the same moment: without it they
// all come back together and fail together again. JitterDown suits a retry that
// may come early, JitterUp one that must not come before the delay, such as one
// that a server asked for.
type Policy struct {
	// First is the delay after the first failure.
	First time.Duration
	// Longest caps the delay before jitter is applied.
	Longest time.Duration
	// Factor is the growth from one failure to the next; 0 means 2.
	Factor int
	// JitterDown is the fraction of a delay that may be taken off at random,
	// from 0 to 1. With 1 the whole delay is random ("full jitter").
	JitterDown float64
	// JitterUp is the fraction of a delay that may be added at random.
	JitterUp float64
}

// Delay returns the wait after so many failures in a row, with jitter. Fewer
// than one failure counts as one.
func (p Policy) Delay(failures int) time.Duration { return p.Spread(p.Base(failures)) }

// Base returns the delay after so many failures in a row, without jitter.
func (p Policy) Base(failures int) time.Duration {
	factor := time.Duration(max(p.Factor, 2))
	delay := min(p.First, p.Longest)
	if delay <= 0 {
		return 0
	}
	for range failures - 1 {
		// Comparing before the multiplication keeps it from overflowing, and ends
		// the loop after a few steps however many failures there were.
		if delay > p.Longest/factor {
			return p.Longest
		}
		delay *= factor
	}
	return delay
}

// Spread applies the policy's jitter to a delay that comes from elsewhere, such
// as a Retry-After header. A delay below zero is zero.
func (p Policy) Spread(delay time.Duration) time.Duration {
	delay = max(delay, 0)
	down := time.Duration(p.JitterDown * float64(delay))
	up := time.Duration(p.JitterUp * float64(delay))
	if down+up <= 0 {
		return delay
	}
	return delay - down + rand.N(down+up+1)
}

// Jitter returns a duration between d and d·(1+fraction). It spreads periodic
// work that many replicas or objects would otherwise do at the same moment.
func Jitter(d time.Duration, fraction float64) time.Duration {
	return Policy{JitterUp: fraction}.Spread(d)
}

// Retries counts failures in a row and returns the delay after each. It is not
// safe for concurrent use.
type Retries struct {
	Policy
	failures int
}

// Next counts one more failure and returns the delay after it.
func (r *Retries) Next() time.Duration {
	r.failures++
	return r.Delay(r.failures)
}

// Reset forgets the failures, after a success.
func (r *Retries) Reset() { r.failures = 0 }

// Sleep waits for a duration, or until the context is done, and then returns
// the error of the context.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
