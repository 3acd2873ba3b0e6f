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
	// goneGrace is how long the counts of a declaration outlive it: an object that
	// is deleted and created again continues with its counts.
	goneGrace = 10 * time.Minute
	// shardCount spreads the keys of a declaration over several locks.
	shardCount = 16
	// maxShardKeys bounds the keys of a shard, and so of a declaration: 65536
	// keys in all, about 4 MiB.
	maxShardKeys = 4096
)

// Counters is the state of filters that count: tokens, requests in flight,
// failures. It is keyed by the identity of the declaration, so all rules with a
// declaration share its counts, and a change of the table does not reset them. It
// is safe for concurrent use.
//
// Memory is bounded for each declaration: 65536 keys. At the bound a rate limit
// evicts the least recently used key, which gives that one its full burst again; a
// client with more addresses than that is not stopped by a limit per address. A
// limit of requests in flight cannot evict those that run, so it refuses requests
// with a new key at the bound.
type Counters struct {
	start time.Time
	// clients and texts are the seeds under which keys are hashed. They are random,
	// so a client cannot choose keys that collide.
	clients, texts maphash.Seed
	// passwords is a semaphore: only some of the processors compute password
	// hashes, which any client can cause.
	passwords chan struct{}
	// decisions caches those of authentication servers, for all filters.
	decisions authCache
	// sharing makes limits hold over replicas; nil counts for this one alone.
	sharing *sharing

	mu       sync.Mutex
	rates    stateMap[buckets]
	flights  stateMap[flights]
	breakers stateMap[breaker]
}

// NewCounters returns counters whose clock starts at now. Pass time.Now(), whose
// monotonic reading does not jump when the clock is set.
func NewCounters(now time.Time) *Counters {
	return &Counters{
		start: now, clients: maphash.MakeSeed(), texts: maphash.MakeSeed(),
		passwords: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		rates:     stateMap[buckets]{}, flights: stateMap[flights]{}, breakers: stateMap[breaker]{},
	}
}

// since is the time of a request, in nanoseconds from the start.
func (c *Counters) since(now time.Time) int64 { return max(0, int64(now.Sub(c.start))) }

// Keep drops the counts of declarations that are no longer in the table, once they
// have been missing in calls for at least ten minutes. Call it after a change of
// the table, and from time to time when there is none.
func (c *Counters) Keep(ids iter.Seq[route.PolicyID], now time.Time) {
	live := make(map[route.PolicyID]bool)
	for id := range ids {
		live[id] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rates.keep(live, now)
	c.flights.keep(live, now)
	c.sharing.keep(c.rates, c.flights)
	c.breakers.keep(live, now)
}

// PolicyIDs yields the identities of the policies that count, those in chains
// included, for [Counters.Keep].
func PolicyIDs(policies []route.Policy) iter.Seq[route.PolicyID] {
	return func(yield func(route.PolicyID) bool) { yieldIDs(policies, route.MaxChainDepth, yield) }
}

// yieldIDs recurses into chains, no deeper than a valid table does.
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
	// Forgotten counts the keys that rate limits evicted, Refused the requests
	// with a new key that limits in flight refused, both for want of room.
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

// stateMap holds the states of one kind of policy. Counters.mu guards it.
type stateMap[S any] map[route.PolicyID]*stateEntry[S]

// stateEntry is a state, and since when its declaration is not in the table.
type stateEntry[S any] struct {
	state *S
	gone  time.Time
}

// take returns the state of a declaration, a new one when there is none.
func (s stateMap[S]) take(mu *sync.Mutex, id route.PolicyID) *S {
	mu.Lock()
	defer mu.Unlock()
	kept := s[id]
	if kept == nil {
		kept = &stateEntry[S]{state: new(S)}
		s[id] = kept
	}
	kept.gone = time.Time{}
	return kept.state
}

// keep marks the states of missing declarations and drops those that have been
// missing for goneGrace.
func (s stateMap[S]) keep(live map[route.PolicyID]bool, now time.Time) {
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
