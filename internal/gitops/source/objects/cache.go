package objects

import "slipway.dev/slipway/internal/cache"

// baseCacheBytes is how much of the bases of differences is kept in memory, for
// each repository: the files of similar applications are stored as differences
// to each other.
const baseCacheBytes = 4 << 20

// baseCache caches objects that others are differences to, the least recently
// used are evicted first.
type baseCache struct {
	lru *cache.LRU[baseKey, baseObject]
}

// baseKey is the place of an object: the same object in two packs is cached
// twice, which is rare and harmless.
type baseKey struct {
	pack   *pack
	offset int64
}

// baseObject is an object after its deltas were applied.
type baseObject struct {
	kind    Kind
	content []byte
}

// newBaseCache does not cache an object of more than an eighth of the limit: the
// bases of one chain of differences should fit together.
func newBaseCache(limit int64) *baseCache {
	return &baseCache{cache.NewLRU[baseKey, baseObject](cache.Limits{Bytes: limit, ValueBytes: limit / 8})}
}

// get gives content that must not be changed. It is safe for concurrent use,
// and so is put: the LRU has a lock of its own.
func (c *baseCache) get(p *pack, offset int64) (Kind, []byte, bool) {
	base, found := c.lru.Get(baseKey{p, offset})
	return base.kind, base.content, found
}

// put takes content that is not changed any more.
func (c *baseCache) put(p *pack, offset int64, kind Kind, content []byte) {
	c.lru.Add(baseKey{p, offset}, baseObject{kind, content}, int64(len(content)))
}
