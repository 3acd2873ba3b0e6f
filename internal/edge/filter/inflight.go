package filter

import (
	"cmp"
	"sync"

	"slipway.dev/slipway/internal/route"
)

// flights counts the requests in flight, by key. A key is stored only as long as a
// request with it runs.
type flights struct{ shards [shardCount]flightShard }

// flightShard is a part of the keys with its own lock.
type flightShard struct {
	mu      sync.Mutex
	running map[uint64]int64
	refused uint64
	// shared has the keys instead of running where the limit holds over replicas.
	shared map[uint64]*sharedFlight
}

// begin counts a request, unless most with its key run already or the shard is
// full.
func (f *flights) begin(key uint64, most int64) bool {
	shard := &f.shards[key%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	count, known := shard.running[key]
	switch {
	case count >= most:
		return false
	case !known && len(shard.running) >= maxShardKeys:
		shard.refused++
		return false
	case shard.running == nil:
		shard.running = make(map[uint64]int64)
	}
	shard.running[key] = count + 1
	return true
}

// end forgets a key with its last request, so idle keys take no memory.
func (f *flights) end(key uint64) {
	shard := &f.shards[key%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.running[key]--; shard.running[key] <= 0 {
		delete(shard.running, key)
	}
}

func (f *flights) addUsage(usage *Usage) {
	for i := range f.shards {
		shard := &f.shards[i]
		shard.mu.Lock()
		usage.FlightKeys += len(shard.running) + len(shard.shared)
		usage.Refused += shard.refused
		shard.mu.Unlock()
	}
}

// inFlight limits the requests of each key that run at one time. The mark of a
// request holds its key while it is counted.
type inFlight struct {
	flights *flights
	key     requestKey
	most    int64
	mark    int
	refused *LocalResponse
	// sharing is that of a limit over all replicas, nil for one of this replica.
	counters *Counters
	sharing  *sharing
}

func newInFlight(a *route.InFlight, id route.PolicyID, c *compiler) (*inFlight, error) {
	key, err := newRequestKey(a.Key, route.KeyAll, a.Client, c.counters)
	if err != nil {
		return nil, err
	}
	refusal, err := newRetryAfterResponse(cmp.Or(a.Status, 429), "TooManyInFlight")
	f := &inFlight{
		flights: c.counters.flights.take(&c.counters.mu, id),
		key:     key, most: a.Max, mark: c.mark(), refused: refusal.soon(), counters: c.counters,
	}
	if c.counters.sharing != nil && !a.PerReplica {
		f.sharing = c.counters.sharing
		f.sharing.share(id, f.flights)
	}
	return f, err
}

// begin counts a request, on this replica or on all of them.
func (f *inFlight) begin(key uint64, x *Exchange) bool {
	if f.sharing == nil {
		return f.flights.begin(key, f.most)
	}
	stretch, heard := f.sharing.view()
	return f.flights.beginShared(key, max(1, f.most/stretch), f.counters.since(x.Now), heard)
}

// Request implements [Filter].
func (f *inFlight) Request(x *Exchange) *LocalResponse {
	key := f.key.of(x)
	if !f.begin(key, x) {
		return f.refused
	}
	x.Marks[f.mark] = int64(key)
	return nil
}

// Done implements [Finisher].
func (f *inFlight) Done(x *Exchange) {
	if key := x.Marks[f.mark]; key != 0 {
		x.Marks[f.mark] = 0
		if f.sharing != nil {
			f.flights.endShared(uint64(key))
		} else {
			f.flights.end(uint64(key))
		}
	}
}
