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

// requestCounters counts the requests of a rule. Most of them are counted in one of a few
// words, which fill two lines of a cache that lie together: each has the requests
// of one class of statuses and one bucket of times, and neighbouring buckets have
// different words. When a word is needed for others, what it has goes to the
// counts, which are made then, so that rules without traffic have none.
type requestCounters struct {
	mu     sync.Mutex // guards counts, and the keys of words that have one
	counts *counts
	// recent are keyed words; 0 is a word without any.
	recent [recentWords]atomic.Uint32
}

const (
	// recentWords are for buckets from the shortest time to one 128 times as long.
	recentWords = 28
	// recentBits are those of the requests in a word; above is the key: a bit that
	// says that it is one, the class and the bucket.
	recentBits = 21
	recentMask = 1<<recentBits - 1
	bucketBits = 7
	bucketMask = 1<<bucketBits - 1
	classMask  = 1<<3 - 1
)

type counts struct {
	statuses [6]uint64
	spread   [trafficreport.Buckets]uint32
}

// recentKey is what a word has for a class and a bucket. It is not 0.
func recentKey(class, bucket int) uint32 {
	return ((classMask+1|uint32(class))<<bucketBits | uint32(bucket)) << recentBits
}

// room reports whether a word can count one more of a key.
func room(word, key uint32) bool { return word&^recentMask == key && word&recentMask < recentMask }

// prefetch asks for both lines, long before note needs one of them.
func (t *requestCounters) prefetch() {
	if t != nil {
		prefetch.ForWriting(&t.recent[0])
		prefetch.ForWriting(&t.recent[recentWords-1])
	}
}

// observe counts one request.
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
			next = key | 1 // nobody's yet: there is nothing to bring to the counts
		case !room(old, key):
			t.evict(word, key)
			return
		}
		if word.CompareAndSwap(old, next) {
			return
		}
	}
}

// evict counts a request in a word that had others, or as many as it can.
func (t *requestCounters) evict(word *atomic.Uint32, key uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		old := word.Load()
		next := key | 1
		if room(old, key) {
			next = old + 1 // somebody else has turned it
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

// add takes in a word.
func (c *counts) add(word uint32) {
	n := word & recentMask
	c.statuses[word>>(recentBits+bucketBits)&classMask] += uint64(n)
	c.spread[word>>recentBits&bucketMask] += n
}

// read gives the counts; false when there were no requests.
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

// counterRegistry keeps the counts of rules by their identity, so that a change of the
// table does not begin them anew. Only the rules that are bound keep them alive.
type counterRegistry struct {
	// unrouted has the requests that no rule took.
	unrouted *requestCounters
	byRule   cache.Weak[route.ID, requestCounters]
}

// forRule gives the tally of a rule.
func (s *counterRegistry) forRule(id route.ID) *requestCounters {
	return s.byRule.GetOrCreate(id, func() *requestCounters { return new(requestCounters) })
}

// Counts are those of the rules that had requests, in no order, and of the
// requests that no rule took.
func (p *Proxy) Counts() (routed []trafficreport.RouteCount, unrouted trafficreport.Count) {
	for id, t := range p.counters.byRule.Live() {
		if count, any := t.read(); any {
			routed = append(routed, trafficreport.RouteCount{ID: trafficreport.RouteID(id), Count: count})
		}
	}
	unrouted, _ = p.counters.unrouted.read()
	return routed, unrouted
}
