package cache_test

import (
	"testing"

	"slipway.dev/slipway/internal/cache"
)

func TestLRUEvictsTheLeastRecentlyUsed(t *testing.T) {
	c := cache.NewLRU[string, int](cache.Limits{Bytes: 100})
	c.Add("a", 1, 40)
	c.Add("b", 2, 40)
	if got, found := c.Get("a"); !found || got != 1 {
		t.Fatalf("a: %d, %v", got, found)
	}
	c.Add("c", 3, 40)
	wantCached(t, c, map[string]bool{"a": true, "b": false, "c": true})
	// One large value evicts as many as it needs.
	c.Add("d", 4, 90)
	wantCached(t, c, map[string]bool{"a": false, "c": false, "d": true})
}

func TestLRULimits(t *testing.T) {
	c := cache.NewLRU[string, int](cache.Limits{Bytes: 100, ValueBytes: 50, Entries: 2})
	c.Add("large", 1, 51)
	wantCached(t, c, map[string]bool{"large": false})
	c.Add("a", 1, 50)
	c.Add("b", 2, 1)
	c.Add("c", 3, 1)
	wantCached(t, c, map[string]bool{"a": false, "b": true, "c": true})

	whole := cache.NewLRU[string, int](cache.Limits{Bytes: 10})
	whole.Add("a", 1, 10)
	whole.Add("b", 1, 11)
	wantCached(t, whole, map[string]bool{"a": true, "b": false})
}

func TestLRUKeepsTheFirstValueOfAKey(t *testing.T) {
	c := cache.NewLRU[string, int](cache.Limits{Bytes: 10})
	c.Add("a", 1, 6)
	c.Add("a", 2, 6)
	c.Add("b", 3, 4)
	if got, found := c.Get("a"); !found || got != 1 {
		t.Errorf("a: %d, %v; a second Add must neither replace nor count", got, found)
	}
}

func TestLRUPutReplaces(t *testing.T) {
	c := cache.NewLRU[string, int](cache.Limits{Bytes: 10, ValueBytes: 8})
	c.Put("a", 1, 8)
	c.Put("a", 2, 4)
	c.Put("b", 3, 6)
	if got, found := c.Get("a"); !found || got != 2 {
		t.Errorf("a: %d, %v; Put must replace the value and its size", got, found)
	}
	// A value that has become too large is gone, and so is the older one.
	c.Put("a", 4, 9)
	wantCached(t, c, map[string]bool{"a": false, "b": true})
}

func TestLRURemoveIf(t *testing.T) {
	c := cache.NewLRU[string, int](cache.Limits{Bytes: 10})
	c.Add("a", 1, 5)
	c.Add("b", 2, 5)
	c.RemoveIf(func(key string) bool { return key == "a" })
	wantCached(t, c, map[string]bool{"a": false, "b": true})
	// What was removed does not count.
	c.Add("c", 3, 5)
	wantCached(t, c, map[string]bool{"b": true, "c": true})
}

func wantCached(t *testing.T, c *cache.LRU[string, int], want map[string]bool) {
	t.Helper()
	for key, cached := range want {
		if _, found := c.Get(key); found != cached {
			t.Errorf("%s is cached: %v, want %v", key, found, cached)
		}
	}
}
