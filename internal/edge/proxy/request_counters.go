package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/edge/prefetch"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/route"
)

// requestCounters counts the requests of a rule by class of status and by bucket
// of duration. Most are counted in one of a few words, which fill two adjacent
// cache lines: each word holds the requests of one class and one bucket, and
// neighbouring buckets use different words. When a word is needed for another
// key, its count is evicted to counts. Those are allocated by the first eviction,
// so that rules with little traffic stay small (decision 0025).
type requestCounters struct {
	mu     sync.Mutex // guards counts, and the change of a word's key
	counts *counts
	// recent are keyed words; 0 is a word without a key.
	recent [recentWords]atomic.Uint32
}

const (
	// recentWords are for buckets from the shortest time to one 128 times as long.
	recentWords = 28
	// recentBits hold the count of a word; above it is the key: a bit that marks
	// it as one, the class and the bucket.
	recentBits = 21
	recentMask = 1<<recentBits - 1
	bucketBits = 7
	bucketMask = 1<<bucketBits - 1
	classMask  = 1<<3 - 1
)

// counts are what has been evicted from words.
type counts struct {
	statuses [6]uint64
	spread   [trafficreport.Buckets]uint32
}

// recentKey is the key of a word for a class and a bucket. It is never 0.
func recentKey(class, bucket int) uint32 {
	return ((classMask+1|uint32(class))<<bucketBits | uint32(bucket)) << recentBits
}

// room reports whether a word can count one more of a key.
func room(word, key uint32) bool { return word&^recentMask == key && word&recentMask < recentMask }

// prefetch loads both cache lines, long before observe writes one of them.
func (t *requestCounters) prefetch() {
	if t != nil {
		prefetch.ForWriting(&t.recent[0])
		prefetch.ForWriting(&t.recent[recentWords-1])
	}
}

// observe counts one request, without a lock unless a word changes its key or is
// full.
func (t *requestCounters) observe(status int, took time.Duration) {
	class := status / 100
	if class < 0 || class >= len(counts{}.statuses) {
		class = 0
	}
	bucket := trafficreport.BucketOf(took)
	key, word := recentKey(class, bucket), &t.recent[bucket%recentWords]
	for {
		old := word.Load()
		next := old + 1
		switch {
		case old == 0:
			next = key | 1 // the word is free: there is nothing to evict
		case !room(old, key):
			t.evict(word, key)
			return
		}
		if word.CompareAndSwap(old, next) {
			return
		}
	}
}

// evict moves the count of a word to counts and gives the word a new key, for a
// request whose key is another or whose word is full.
func (t *requestCounters) evict(word *atomic.Uint32, key uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		old := word.Load()
		next := key | 1
		if room(old, key) {
			next = old + 1 // another request has evicted it meanwhile
		}
		if !word.CompareAndSwap(old, next) {
			continue
		}
		if next == key|1 {
			if t.counts == nil {
				t.counts = new(counts)
			}
			t.counts.add(old)
		}
		return
	}
}

// add adds the count of a word.
func (c *counts) add(word uint32) {
	n := word & recentMask
	c.statuses[word>>(recentBits+bucketBits)&classMask] += uint64(n)
	c.spread[word>>recentBits&bucketMask] += n
}

// read returns the counts; false when there were no requests. A count never falls
// between two reads: both the words and counts are read under the lock of evict.
func (t *requestCounters) read() (trafficreport.Count, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sum counts
	if t.counts != nil {
		sum = *t.counts
	}
	counted := t.counts != nil
	for i := range t.recent {
		if word := t.recent[i].Load(); word != 0 {
			sum.add(word)
			counted = true
		}
	}
	if !counted {
		return trafficreport.Count{}, false
	}
	last := len(sum.spread)
	for last > 0 && sum.spread[last-1] == 0 {
		last--
	}
	return trafficreport.Count{Statuses: sum.statuses, Spread: slices.Clone(sum.spread[:last])}, true
}

// counterRegistry holds the counters of rules by their identity, so that a change
// of the table does not reset them. The map is weak: counters live as long as a
// rule that is bound to them.
type counterRegistry struct {
	// unrouted counts the requests that no rule matched.
	unrouted *requestCounters
	byRule   cache.Weak[route.ID, requestCounters]
}

// forRule returns the counters of a rule, and creates them where there are none.
func (s *counterRegistry) forRule(id route.ID) *requestCounters {
	return s.byRule.GetOrCreate(id, func() *requestCounters { return new(requestCounters) })
}

// Counts returns the counts of the rules that had requests, in no order, and of
// the requests that no rule matched.
func (p *Proxy) Counts() (routed []trafficreport.RouteCount, unrouted trafficreport.Count) {
	for id, t := range p.counters.byRule.Live() {
		if count, any := t.read(); any {
			routed = append(routed, trafficreport.RouteCount{ID: trafficreport.RouteID(id), Count: count})
		}
	}
	unrouted, _ = p.counters.unrouted.read()
	return routed, unrouted
}
