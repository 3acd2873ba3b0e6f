package edge

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/floodtracker"
	"slipway.dev/slipway/internal/edge/sharedlimit"
)

// maxPendingBans bounds the bans of a lending period that are sent. An attack from
// more addresses is a distributed flood, against which bans do not help.
const maxPendingBans = 256

// sharedBans adds the bans of entry points to what replicas exchange about limits: a
// client that one of them has banned is banned by all.
type sharedBans struct {
	*filter.Counters
	hash   sharedlimit.HashKey
	server *Server

	mu      sync.Mutex
	pending []sharedlimit.Entry
}

// limitOf is the identity of the bans of an entry point. That of a policy has other
// separators.
func (b *sharedBans) limitOf(entryPoint string) uint64 {
	return b.hash.Sum([]byte("bans of " + entryPoint))
}

// The number of requests in the entry of a ban is the version of the address.
const (
	banIPv4 = 4
	banIPv6 = 6
)

// add sends a ban with the next message. The client fits the key of an entry: it is
// an IPv4 address or the first 64 bits of an IPv6 address.
func (b *sharedBans) add(entryPoint string, client netip.Prefix, length time.Duration) {
	if b == nil {
		return
	}
	entry := sharedlimit.Entry{Limit: b.limitOf(entryPoint), Spent: length, Requests: banIPv6}
	if addr := client.Addr(); addr.Is4() {
		four := addr.As4()
		entry.Key, entry.Requests = uint64(binary.BigEndian.Uint32(four[:])), banIPv4
	} else {
		sixteen := addr.As16()
		entry.Key = binary.BigEndian.Uint64(sixteen[:])
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) < maxPendingBans {
		b.pending = append(b.pending, entry)
	}
}

// Lend implements [sharedlimit.Accounting].
func (b *sharedBans) Lend(now time.Time) []sharedlimit.Entry {
	b.mu.Lock()
	bans := b.pending
	b.pending = nil
	b.mu.Unlock()
	return append(bans, b.Counters.Lend(now)...)
}

// Charge implements [sharedlimit.Accounting].
func (b *sharedBans) Charge(sender uint64, entries []sharedlimit.Entry, now time.Time) {
	b.Counters.Charge(sender, entries, now)
	for _, p := range b.server.points {
		limit := b.limitOf(p.Name)
		for i := range entries {
			if entries[i].Limit == limit {
				p.floods.Ban(bannedClient(&entries[i]), entries[i].Spent, now)
			}
		}
	}
}

// bannedClient returns the client of a ban.
func bannedClient(entry *sharedlimit.Entry) netip.Prefix {
	if entry.Requests == banIPv4 {
		var four [4]byte
		binary.BigEndian.PutUint32(four[:], uint32(entry.Key))
		return floodtracker.ClientOf(netip.AddrFrom4(four))
	}
	var sixteen [16]byte
	binary.BigEndian.PutUint64(sixteen[:], entry.Key)
	return floodtracker.ClientOf(netip.AddrFrom16(sixteen))
}
