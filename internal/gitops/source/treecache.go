package source

import (
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/tree"
)

// treeCacheBytes is how much of folders is kept in memory: a thousand
// applications of one repository all go through its root.
const treeCacheBytes = 8 << 20

// treeCache caches decoded folders, the least recently used are evicted first.
type treeCache struct {
	lru *cache.LRU[treeKey, []tree.Entry]
}

// treeKey includes the repository: a crafted commit that names the id of
// another repository's folder must not read it from the cache.
type treeKey struct {
	owner string
	id    objects.ID
}

// newTreeCache does not cache a folder of more than half of the limit: it would
// evict nearly all others.
func newTreeCache(limit int64) *treeCache {
	return &treeCache{cache.NewLRU[treeKey, []tree.Entry](cache.Limits{Bytes: limit, ValueBytes: limit / 2})}
}

// get gives entries that must not be changed.
func (c *treeCache) get(owner string, id objects.ID) ([]tree.Entry, bool) {
	return c.lru.Get(treeKey{owner, id})
}

// put adds the entries of a folder. Their size is estimated: exact accounting
// would cost more than it saves.
func (c *treeCache) put(owner string, id objects.ID, entries []tree.Entry) {
	size := 128
	for _, entry := range entries {
		// The strings of name, kind and hash, and their headers.
		size += len(entry.Name) + len(entry.Hash) + 64
	}
	c.lru.Add(treeKey{owner, id}, entries, int64(size))
}
