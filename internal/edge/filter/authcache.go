package filter

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxDecisions bounds the cached decisions of all filters, and maxDecisionBytes the
	// texts of one: 32 MiB in all.
	maxDecisions     = 16384
	maxDecisionBytes = 2048
)

// authCache has decisions of authentication servers. At its bound the oldest one is
// dropped, which costs its clients one sub-request. It is safe for concurrent use.
type authCache struct {
	// salts counts the filters that have used the cache.
	salts atomic.Uint64

	mu      sync.Mutex
	entries map[[sha256.Size]byte]cachedDecision
	// order is a ring of the keys by age, once it is full; next is its oldest key.
	order [][sha256.Size]byte
	next  int
}

type cachedDecision struct {
	decision *authDecision
	until    time.Time
}

// get returns a decision that is valid, nil without one.
func (c *authCache) get(key [sha256.Size]byte, now time.Time) *authDecision {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, cached := c.entries[key]
	if !cached || !now.Before(found.until) {
		return nil
	}
	return found.decision
}

// put stores a decision. An expired one of the same key keeps its place in the order.
func (c *authCache) put(key [sha256.Size]byte, decision *authDecision, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[[sha256.Size]byte]cachedDecision{}
	}
	_, replaced := c.entries[key]
	c.entries[key] = cachedDecision{decision, until}
	switch {
	case replaced:
	case len(c.order) < maxDecisions:
		c.order = append(c.order, key)
	default:
		delete(c.entries, c.order[c.next])
		c.order[c.next] = key
		c.next = (c.next + 1) % maxDecisions
	}
}
