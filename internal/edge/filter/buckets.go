package filter

import (
	"sync"
	"sync/atomic"
)

// buckets are the token buckets of one rate limit, by key. Each bucket is one
// number, the time at which it is full again ("virtual scheduling" of ATM's
// generic cell rate algorithm). So a change of the rate needs no change of the
// buckets, and a bucket that is full need not be stored at all.
type buckets struct {
	shards [shardCount]bucketShard
	// active counts the keys that are exchanged with other replicas.
	active atomic.Int64
}

// bucketShard is an LRU map: its entries are also in a list, by when they were last
// used, so that the oldest is evicted at once. mu guards all of it.
type bucketShard struct {
	mu             sync.Mutex
	index          map[uint64]int32
	nodes          []bucket
	newest, oldest int32 // nodes, none when index is empty
	free           []int32
	forgotten      uint64
	// loans are beside the nodes, and empty for a limit of one replica. lent has
	// those in use.
	loans []loan
	lent  []int32
}

// bucket is an entry of the LRU list. Links are indices, not pointers, so that the
// garbage collector has nothing to follow.
type bucket struct {
	key          uint64
	full         int64 // when the bucket is full again
	newer, older int32
}

// none is the place of no node.
const none int32 = -1

// take takes a token from the bucket of key, or returns how long to wait for it. A
// token comes every interval nanoseconds, and a full bucket lasts for depth
// nanoseconds of them.
func (b *buckets) take(key uint64, now, interval, depth int64) (wait int64) {
	shard := &b.shards[key%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	node := &shard.nodes[shard.seen(key, now)]
	// A bucket can be below empty only after a change from a stricter limit.
	node.full = min(node.full, now+depth)
	full := max(now, node.full) + interval
	if wait = full - depth - now; wait > 0 {
		return wait
	}
	node.full = full
	return 0
}

// seen returns the node of key, moved to the front.
func (s *bucketShard) seen(key uint64, now int64) int32 {
	if i, ok := s.index[key]; ok {
		if i != s.newest {
			s.unlink(i)
			s.link(i)
		}
		return i
	}
	if s.index == nil {
		s.index = make(map[uint64]int32)
		s.newest, s.oldest = none, none
	}
	s.forget(now)
	i := int32(len(s.nodes))
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.nodes = append(s.nodes, bucket{})
	}
	s.nodes[i] = bucket{key: key, full: now}
	s.index[key] = i
	s.link(i)
	return i
}

// forget makes room: each new key evicts up to two buckets that are full, which
// loses nothing, and at the bound the oldest bucket in any case.
func (s *bucketShard) forget(now int64) {
	for range 2 {
		if s.oldest == none || s.nodes[s.oldest].full > now || s.unsent(s.oldest) {
			break
		}
		s.drop(s.oldest)
	}
	if len(s.index) >= maxShardKeys {
		s.drop(s.oldest)
		s.forgotten++
	}
}

// drop removes a node and keeps its place for the next one.
func (s *bucketShard) drop(i int32) {
	delete(s.index, s.nodes[i].key)
	s.unlink(i)
	s.free = append(s.free, i)
	if int(i) < len(s.loans) {
		s.loans[i] = loan{listed: s.loans[i].listed}
	}
}

// unsent reports whether a bucket was used since the last exchange with other
// replicas, so that dropping it would lose what they must know.
func (s *bucketShard) unsent(i int32) bool { return int(i) < len(s.loans) && s.loans[i].requests > 0 }

// link puts a node in front of the list.
func (s *bucketShard) link(i int32) {
	node := &s.nodes[i]
	node.newer, node.older = none, s.newest
	if s.newest != none {
		s.nodes[s.newest].newer = i
	} else {
		s.oldest = i
	}
	s.newest = i
}

func (s *bucketShard) unlink(i int32) {
	node := &s.nodes[i]
	if node.newer != none {
		s.nodes[node.newer].older = node.older
	} else {
		s.newest = node.older
	}
	if node.older != none {
		s.nodes[node.older].newer = node.newer
	} else {
		s.oldest = node.newer
	}
}

// addUsage takes one lock at a time, so that requests wait for a moment only.
func (b *buckets) addUsage(usage *Usage) {
	for i := range b.shards {
		shard := &b.shards[i]
		shard.mu.Lock()
		usage.RateKeys += len(shard.index)
		usage.Forgotten += shard.forgotten
		shard.mu.Unlock()
	}
}
