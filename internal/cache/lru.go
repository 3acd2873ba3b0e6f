package cache

import (
	"cmp"
	"container/list"
	"sync"
)

// Limits bound an LRU cache.
type Limits struct {
	// Bytes bounds the sum of the sizes of all values.
	Bytes int64
	// ValueBytes bounds the size of one value; larger ones are not cached, so
	// that a single value cannot evict all others. 0 means Bytes.
	ValueBytes int64
	// Entries bounds the number of values; 0 means no bound of its own.
	Entries int
}

// LRU is a cache that evicts the least recently used values when it exceeds its
// limits. The caller states the size of each value: the cache cannot measure
// what a value refers to.
type LRU[K comparable, V any] struct {
	limits Limits

	mu       sync.Mutex
	bytes    int64
	elements map[K]*list.Element
	order    list.List // of *lruEntry[K, V], the most recently used in front
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
	size  int64
}

// NewLRU returns an empty LRU cache.
func NewLRU[K comparable, V any](limits Limits) *LRU[K, V] {
	limits.ValueBytes = cmp.Or(limits.ValueBytes, limits.Bytes)
	return &LRU[K, V]{limits: limits, elements: map[K]*list.Element{}}
}

// Get returns the value of a key and marks it as the most recently used. The
// value is shared: the caller must not change what it refers to.
func (c *LRU[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.elements[key]
	if !found {
		var none V
		return none, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*lruEntry[K, V]).value, true
}

// Add caches the value of a key, unless the key has one already or the value is
// too large. Keeping the older value is right because keys identify content:
// two goroutines that miss at the same time add equal values.
func (c *LRU[K, V]) Add(key K, value V, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.elements[key]; !found {
		c.add(key, value, size)
	}
}

// Put caches the value of a key in the place of the one it has. It is for keys
// that identify something that changes.
func (c *LRU[K, V]) Put(key K, value V, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.elements[key]; found {
		c.remove(element)
	}
	c.add(key, value, size)
}

// RemoveIf removes the values whose keys match.
func (c *LRU[K, V]) RemoveIf(matches func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, element := range c.elements {
		if matches(key) {
			c.remove(element)
		}
	}
}

// add caches a value of a key that has none, and evicts others. The lock is
// held.
func (c *LRU[K, V]) add(key K, value V, size int64) {
	if size > c.limits.ValueBytes {
		return
	}
	c.elements[key] = c.order.PushFront(&lruEntry[K, V]{key, value, size})
	c.bytes += size
	for c.bytes > c.limits.Bytes || c.limits.Entries > 0 && c.order.Len() > c.limits.Entries {
		c.remove(c.order.Back())
	}
}

// remove drops an element. The lock is held.
func (c *LRU[K, V]) remove(element *list.Element) {
	entry := c.order.Remove(element).(*lruEntry[K, V])
	delete(c.elements, entry.key)
	c.bytes -= entry.size
}
