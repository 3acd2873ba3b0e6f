package filter

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"
)

// TestAuthCache: the cache is bounded, drops the oldest decision first, and returns none
// that has expired.
func TestAuthCache(t *testing.T) {
	var cache authCache
	now := time.Unix(1000, 0)
	key := func(n int) (key [sha256.Size]byte) {
		binary.BigEndian.PutUint64(key[:], uint64(n))
		return key
	}
	for n := range maxDecisions + 10 {
		cache.put(key(n), &authDecision{status: n}, now.Add(time.Second))
		cache.put(key(n), &authDecision{status: n}, now.Add(time.Minute))
	}
	if len(cache.entries) != maxDecisions || len(cache.order) != maxDecisions {
		t.Errorf("there are %d decisions and %d keys, want %d", len(cache.entries), len(cache.order), maxDecisions)
	}
	if cache.get(key(9), now) != nil {
		t.Error("the oldest decision is kept")
	}
	for _, n := range []int{10, maxDecisions + 9} {
		if found := cache.get(key(n), now.Add(59*time.Second)); found == nil || found.status != n {
			t.Errorf("decision %d is %+v", n, found)
		}
		if cache.get(key(n), now.Add(time.Minute)) != nil {
			t.Errorf("decision %d has expired and counts", n)
		}
	}
}
