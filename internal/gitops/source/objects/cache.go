package objects

import (
	"container/list"
	"sync"
)

// baseCacheBytes is how much of the bases of differences is kept in memory, for
// each repository: the files of similar applications are stored as differences
// to each other.
const baseCacheBytes = 4 << 20

// baseCache keeps objects that others are differences to. The longest unused
// goes first.
type baseCache struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	byKey map[baseKey]*list.Element
	order *list.List // of baseEntry, the last used first
}

type baseKey struct {
	pack   *pack
	offset int64
}

type baseEntry struct {
	key     baseKey
	kind    Kind
	content []byte
}

func newBaseCache(limit int64) *baseCache {
	return &baseCache{limit: limit, byKey: map[baseKey]*list.Element{}, order: list.New()}
}

// get gives content that must not be changed.
func (c *baseCache) get(p *pack, offset int64) (Kind, []byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.byKey[baseKey{p, offset}]
	if !found {
		return 0, nil, false
	}
	c.order.MoveToFront(element)
	entry := element.Value.(baseEntry)
	return entry.kind, entry.content, true
}

// put takes content that is not changed any more. What would fill the cache
// alone is left out.
func (c *baseCache) put(p *pack, offset int64, kind Kind, content []byte) {
	if int64(len(content)) > c.limit/8 {
		return
	}
	key := baseKey{p, offset}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.byKey[key]; found {
		return
	}
	c.byKey[key] = c.order.PushFront(baseEntry{key: key, kind: kind, content: content})
	c.bytes += int64(len(content))
	for c.bytes > c.limit {
		oldest := c.order.Back()
		entry := c.order.Remove(oldest).(baseEntry)
		delete(c.byKey, entry.key)
		c.bytes -= int64(len(entry.content))
	}
}
