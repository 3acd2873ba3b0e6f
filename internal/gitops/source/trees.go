package source

import (
	"container/list"
	"sync"

	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/tree"
)

// treeCacheBytes is how much of folders is kept in memory: a thousand
// applications of one repository all go through its root.
const treeCacheBytes = 8 << 20

// treeCache keeps decoded folders. The longest unused goes first.
type treeCache struct {
	limit int

	mu    sync.Mutex
	size  int
	byKey map[treeKey]*list.Element
	order *list.List // of cachedTree, the last used first
}

// treeKey has the repository in it: who guesses an id must not see the folder
// of another repository.
type treeKey struct {
	owner string
	id    objects.ID
}

type cachedTree struct {
	key     treeKey
	entries []tree.Entry
	size    int
}

func newTreeCache(limit int) *treeCache {
	return &treeCache{limit: limit, byKey: map[treeKey]*list.Element{}, order: list.New()}
}

// get gives entries that must not be changed.
func (c *treeCache) get(owner string, id objects.ID) ([]tree.Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.byKey[treeKey{owner, id}]
	if !found {
		return nil, false
	}
	c.order.MoveToFront(element)
	return element.Value.(cachedTree).entries, true
}

func (c *treeCache) put(owner string, id objects.ID, entries []tree.Entry) {
	size := 128
	for _, entry := range entries {
		// The strings of name, kind and hash, and their headers.
		size += len(entry.Name) + len(entry.Hash) + 64
	}
	if size > c.limit/2 {
		return
	}
	key := treeKey{owner, id}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.byKey[key]; found {
		return
	}
	c.byKey[key] = c.order.PushFront(cachedTree{key: key, entries: entries, size: size})
	c.size += size
	for c.size > c.limit {
		oldest := c.order.Remove(c.order.Back()).(cachedTree)
		delete(c.byKey, oldest.key)
		c.size -= oldest.size
	}
}
