package token

import (
	"sync"
	"time"

	"slipway.dev/slipway/internal/wire"
)

const (
	// window is how long a token can be valid, with both clocks off.
	window = wire.RequestTokenLifetime + 2*leeway
	// maxUsed bounds the tokens of a generation. Above it the older generation is
	// forgotten early: at more than 500 requests a second the protection is
	// shorter than a token's life.
	maxUsed = 1 << 16
)

// usedTokens holds the IDs of used tokens, in two generations: an ID is known for at
// least a window after its use.
type usedTokens struct {
	mu              sync.Mutex
	current, before map[string]struct{}
	since           time.Time // when the current generation began
}

// add reports whether the ID is new, and remembers it.
func (u *usedTokens) add(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current == nil || now.Sub(u.since) >= window || len(u.current) >= maxUsed {
		u.before, u.current, u.since = u.current, map[string]struct{}{}, now
	}
	if _, used := u.before[id]; used {
		return false
	}
	if _, used := u.current[id]; used {
		return false
	}
	u.current[id] = struct{}{}
	return true
}
