package filter

import (
	"time"

	"slipway.dev/slipway/internal/edge/sharedlimit"
)

// remoteExpiry is how long the count of another replica holds after its last
// message, in nanoseconds. The requests of a replica that died end with it.
const remoteExpiry = 10 * lendingPeriod

// sharedFlight is a key of a limit in flight that holds over replicas.
type sharedFlight struct {
	running int64
	// begun and requests are those since the last exchange, admitted and all.
	begun, requests int64
	// received counts the requests of other replicas since then.
	received int64
	demand   demand
	remotes  []remoteFlight
}

// remoteFlight is what another replica has in flight.
type remoteFlight struct {
	sender  uint64
	running int64
	at      int64
}

// elsewhere returns how many requests other replicas have in flight, and forgets
// those that are no longer heard.
func (f *sharedFlight) elsewhere(now int64) int64 {
	kept, sum := f.remotes[:0], int64(0)
	for _, remote := range f.remotes {
		if now-remote.at <= remoteExpiry {
			kept = append(kept, remote)
			sum += remote.running
		}
	}
	f.remotes = kept
	return sum
}

// beginShared is begin for a limit that holds over replicas. Between two exchanges a
// replica takes at most its share of what is free, and one request in any case.
func (f *flights) beginShared(key uint64, most, now, heard int64) bool {
	shard := &f.shards[key%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	flight := shard.sharedOf(key)
	if flight == nil {
		shard.refused++
		return false
	}
	flight.requests++
	free := most - flight.running - flight.elsewhere(now)
	if free <= 0 || flight.begun > 0 && float64(flight.begun) >= flight.demand.part(heard)*float64(free+flight.begun) {
		return false
	}
	flight.begun++
	flight.running++
	return true
}

// sharedOf returns the entry of a key, nil when the shard is full.
func (s *flightShard) sharedOf(key uint64) *sharedFlight {
	flight := s.shared[key]
	switch {
	case flight != nil:
		return flight
	case len(s.shared) >= maxShardKeys:
		return nil
	case s.shared == nil:
		s.shared = make(map[uint64]*sharedFlight)
	}
	flight = &sharedFlight{}
	s.shared[key] = flight
	return flight
}

// endShared ends a request. The entry stays until the other replicas know.
func (f *flights) endShared(key uint64) {
	shard := &f.shards[key%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if flight := shard.shared[key]; flight != nil && flight.running > 0 {
		flight.running--
	}
}

// lend implements [sharedState].
func (f *flights) lend(entries []sharedlimit.Entry, limit uint64, now, heard int64) []sharedlimit.Entry {
	for i := range f.shards {
		entries = f.shards[i].lend(entries, limit, now)
	}
	return entries
}

// lend ends the lending period of a shard. All keys with requests are sent each time,
// because their counts expire elsewhere. The order of the map is random, so that of
// more keys than fit none is left out for long.
func (s *flightShard) lend(entries []sharedlimit.Entry, limit uint64, now int64) []sharedlimit.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, flight := range s.shared {
		if flight.running+flight.requests > 0 && len(entries) < sharedlimit.MaxEntries {
			entries = append(entries, sharedlimit.Entry{Limit: limit, Key: key, Spent: time.Duration(flight.running), Requests: flight.requests})
		}
		idle := flight.demand.add(flight.requests, flight.received)
		flight.begun, flight.requests, flight.received = 0, 0, 0
		if idle && flight.running == 0 && flight.elsewhere(now) == 0 {
			delete(s.shared, key)
		}
	}
	return entries
}

// charge implements [sharedState].
func (f *flights) charge(sender uint64, entry *sharedlimit.Entry, now int64) {
	shard := &f.shards[entry.Key%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	flight := shard.sharedOf(max(1, entry.Key))
	if flight == nil {
		return
	}
	flight.received += entry.Requests
	for i := range flight.remotes {
		if flight.remotes[i].sender == sender {
			flight.remotes[i].running, flight.remotes[i].at = int64(entry.Spent), now
			return
		}
	}
	if len(flight.remotes) < maxReplicas {
		flight.remotes = append(flight.remotes, remoteFlight{sender, int64(entry.Spent), now})
	}
}

// inUse implements [sharedState].
func (f *flights) inUse() bool { return true }
