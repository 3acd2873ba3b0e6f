package filter

import (
	"cmp"
	"math"
	"time"

	"slipway.dev/slipway/internal/route"
)

// rateLimit limits the requests of each key to a rate, with a burst.
type rateLimit struct {
	counters *Counters
	buckets  *buckets
	key      requestKey
	// interval is the time between two tokens, depth how long a full bucket
	// lasts at that rate, both in nanoseconds.
	interval, depth int64
	refusal         retryAfterResponse
	// sharing is that of a limit over all replicas, nil for one of this replica.
	sharing *sharing
}

func newRateLimit(a *route.RateLimit, id route.PolicyID, c *Counters) (*rateLimit, error) {
	key, err := newRequestKey(a.Key, route.KeyClient, a.Client, c)
	if err != nil {
		return nil, err
	}
	refusal, err := newRetryAfterResponse(cmp.Or(a.Status, 429), "RateLimited")
	if err != nil {
		return nil, err
	}
	// Rounded up: never more than was allowed, and never without a limit.
	interval := int64(a.Period) / a.Requests
	if int64(a.Period)%a.Requests != 0 {
		interval++
	}
	burst := cmp.Or(a.Burst, a.Requests)
	// Far beyond any burst that is meant, and sums of it cannot overflow.
	burst = min(burst, math.MaxInt64/8/interval)
	f := &rateLimit{
		counters: c, buckets: c.rates.take(&c.mu, id), key: key,
		interval: interval, depth: interval * burst, refusal: refusal,
	}
	if c.sharing != nil && !a.PerReplica {
		f.sharing = c.sharing
		f.sharing.share(id, f.buckets)
	}
	return f, nil
}

// Request implements [Filter].
func (f *rateLimit) Request(x *Exchange) *LocalResponse {
	wait := f.take(f.key.of(x), f.counters.since(x.Now))
	if wait <= 0 {
		return nil
	}
	return x.respondRetryAfter(&f.refusal, time.Duration(wait))
}

// take takes a token of the replica's bucket or of its share of a common one.
func (f *rateLimit) take(key uint64, now int64) (wait int64) {
	if f.sharing == nil {
		return f.buckets.take(key, now, f.interval, f.depth)
	}
	stretch, heard := f.sharing.view()
	return f.buckets.takeShared(key, now, f.interval*stretch, f.depth, heard)
}
