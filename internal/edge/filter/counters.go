package filter

import (
	"hash/maphash"
	"iter"
	"runtime"
	"sync"
	"time"

	"slipway.dev/slipway/internal/route"
)

const (
	// goneGrace is how long the counts of a declaration outlive it: an object
	// that is deleted and made again goes on where it was.
	goneGrace = 10 * time.Minute
	// shardCount spreads the keys of a declaration over several locks.
	shardCount = 16
	// maxShardKeys bounds the keys of a shard, and so of a declaration: 65536
	// keys in all, about 4 MiB.
	maxShardKeys = 4096
)

// Counters is what filters count: tokens, requests in flight, failures. It is
// kept by the identity of the declaration, so all rules with a declaration
// share its counts, and a change of the table does not reset them. It is safe
// for use by many goroutines.
//
// Memory is bounded for each declaration: 65536 keys, whatever clients send. At
// the bound a rate limit forgets the key that was not seen for the longest time,
// which gives that one its full burst again; who has more addresses than that is
// not held up by a limit per address. A limit of requests in flight cannot
// forget those that run, so it refuses requests with a new key at the bound.
type Counters struct {
	start time.Time
	// clients and texts are the seeds under which keys are hashed. Nobody
	// outside knows them, so nobody can choose keys that collide.
	clients, texts maphash.Seed
	// passwords lets only some of the processors compute password hashes, which
	// anybody can ask for.
	passwords chan struct{}

	mu       sync.Mutex
	rates    shelf[buckets]
	flights  shelf[flights]
	breakers shelf[breaker]
}

// NewCounters counts from now on: the times of later requests are relative to
// it. Give it time.Now(), which does not jump when the clock is set.
func NewCounters(now time.Time) *Counters {
	return &Counters{
		start: now, clients: maphash.MakeSeed(), texts: maphash.MakeSeed(),
		passwords: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		rates:     shelf[buckets]{}, flights: shelf[flights]{}, breakers: shelf[breaker]{},
	}
}

// since is the time of a request, in nanoseconds from the start.
func (c *Counters) since(now time.Time) int64 { return max(0, int64(now.Sub(c.start))) }

// Keep says which declarations the table has. The counts of others are dropped
// when a later call, at least ten minutes after the first that missed them,
// misses them still. Call it after a change of the table, and from time to time
// when there is none.
func (c *Counters) Keep(ids iter.Seq[route.PolicyID], now time.Time) {
	live := make(map[route.PolicyID]bool)
	for id := range ids {
		live[id] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rates.keep(live, now)
	c.flights.keep(live, now)
	c.breakers.keep(live, now)
}

// PolicyIDs gives the identities of the policies that count, those in chains
// included: what [Counters.Keep] asks for.
func PolicyIDs(policies []route.Policy) iter.Seq[route.PolicyID] {
	return func(yield func(route.PolicyID) bool) { yieldIDs(policies, route.MaxChainDepth, yield) }
}

func yieldIDs(policies []route.Policy, depth int, yield func(route.PolicyID) bool) bool {
	for i := range policies {
		switch action := policies[i].Action().(type) {
		case *route.RateLimit, *route.InFlight, *route.CircuitBreaker:
			if !yield(policies[i].ID) {
				return false
			}
		case *route.Chain:
			if depth > 0 && !yieldIDs(action.Policies, depth-1, yield) {
				return false
			}
		}
	}
	return true
}

// Usage is how full the counters are, for metrics.
type Usage struct {
	// Declarations that have counts.
	Declarations int
	// RateKeys and FlightKeys are the keys that are counted.
	RateKeys, FlightKeys int
	// Forgotten keys of rate limits, and Refused requests with a new key of
	// limits in flight, because there was no room.
	Forgotten, Refused uint64
}

// Usage adds up all declarations. It takes each lock for a moment.
func (c *Counters) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	usage := Usage{Declarations: len(c.rates) + len(c.flights) + len(c.breakers)}
	for _, kept := range c.rates {
		kept.state.addUsage(&usage)
	}
	for _, kept := range c.flights {
		kept.state.addUsage(&usage)
	}
	return usage
}

// shelf keeps the states of one kind.
type shelf[S any] map[route.PolicyID]*shelved[S]

// shelved is a state, and since when its declaration is not in the table.
type shelved[S any] struct {
	state *S
	gone  time.Time
}

// take gives the state of a declaration, a new one when there is none.
func (s shelf[S]) take(mu *sync.Mutex, id route.PolicyID) *S {
	mu.Lock()
	defer mu.Unlock()
	kept := s[id]
	if kept == nil {
		kept = &shelved[S]{state: new(S)}
		s[id] = kept
	}
	kept.gone = time.Time{}
	return kept.state
}

func (s shelf[S]) keep(live map[route.PolicyID]bool, now time.Time) {
	for id, kept := range s {
		switch {
		case live[id]:
			kept.gone = time.Time{}
		case kept.gone.IsZero():
			kept.gone = now
		case now.Sub(kept.gone) >= goneGrace:
			delete(s, id)
		}
	}
}
