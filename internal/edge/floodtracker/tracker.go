package floodtracker

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

const (
	// floodsUntilBan is how many floods within the retention time ban a client.
	floodsUntilBan = 3
	// retention is how long a flood is remembered. It starts again when a ban
	// ends.
	retention = time.Minute
	// firstBan is the length of the first ban. Each further one is twice as
	// long as the one before.
	firstBan = time.Second
	// maxClients bounds how many clients are tracked.
	maxClients = 10_000
	// evictionSample is how many records are compared to find one to evict for
	// a new client. Comparing all of them for each flood would make floods more
	// expensive.
	evictionSample = 8
)

// DefaultMaxBan is the length of the longest ban, unless the configuration sets
// another.
const DefaultMaxBan = time.Minute

// Reputation is the record of past floods of a client.
type Reputation uint8

// The reputations, from good to bad.
const (
	// Good is a client without floods.
	Good Reputation = iota
	// Suspect is an unknown client during a distributed flood.
	Suspect
	// Limited is a client that flooded within the retention time: it has
	// reduced limits.
	Limited
	// Banned is a client that flooded again and again: its new connections are
	// refused.
	Banned
)

// Config configures a Tracker. Every field may be left out.
type Config struct {
	// MaxBan is the length of the longest ban. 0 bans no client. Addresses of
	// private networks are never banned.
	MaxBan time.Duration
	// OnBan is called when a ban begins, with its length. It must be quick, and
	// must not call the Tracker.
	OnBan func(client netip.Prefix, length time.Duration)
}

// Tracker remembers the clients that flooded within the retention time. Its
// methods may be called from any goroutine. The zero value is not usable.
type Tracker struct {
	cfg Config
	// tracked is the number of records. It is apart from them so that a lookup
	// takes no lock while there is no attack.
	tracked atomic.Int64

	mu          sync.Mutex // guards all that follows
	records     map[netip.Prefix]*record
	swept       time.Time // when expired records were last removed
	distributed distributedFlood
}

// record has the floods of one client.
type record struct {
	floods      int
	bannedUntil time.Time
	expiresAt   time.Time
}

// New returns an empty Tracker.
func New(cfg Config) *Tracker {
	return &Tracker{cfg: cfg, records: make(map[netip.Prefix]*record)}
}

// ClientOf returns the client that an address belongs to: the address itself,
// or the /64 network of an IPv6 address, because one client can use all of its
// addresses. The result is not valid if the address is not.
func ClientOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // not valid if ip is not
	return prefix
}

// Reputation returns the reputation of a client.
func (t *Tracker) Reputation(client netip.Prefix, now time.Time) Reputation {
	if t.tracked.Load() == 0 {
		return Good
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	found := t.records[client]
	switch {
	case found != nil && now.Before(found.bannedUntil):
		return Banned
	case found != nil && now.Before(found.expiresAt):
		return Limited
	}
	if t.distributed.active(now) {
		return Suspect
	}
	return Good
}

// RecordFlood counts a connection of a client that was closed because of a
// flood. A client that is not valid, because its address is not known, is not
// tracked.
func (t *Tracker) RecordFlood(client netip.Prefix, now time.Time) {
	if !client.IsValid() {
		return
	}
	if ban := t.addFlood(client, now); ban > 0 && t.cfg.OnBan != nil {
		t.cfg.OnBan(client, ban)
	}
}

// addFlood counts a flood and returns the length of the ban that begins with
// it, 0 for none.
func (t *Tracker) addFlood(client netip.Prefix, now time.Time) (ban time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	found := t.records[client]
	switch {
	case found == nil:
		t.distributed.add(now)
		t.evict()
		found = &record{}
		t.records[client] = found
		t.tracked.Store(int64(len(t.records)))
	case now.Before(found.bannedUntil):
		// The connection is older than the ban. Many connections that flood at
		// once count as one flood and do not make the ban longer.
		return 0
	case !now.Before(found.expiresAt):
		*found = record{}
		t.distributed.add(now)
	}
	found.floods++
	if bans := found.floods - floodsUntilBan; bans >= 0 && t.cfg.MaxBan > 0 && !sharedAddress(client) {
		ban = banLength(bans, t.cfg.MaxBan)
		found.bannedUntil = now.Add(ban)
	}
	found.expiresAt = now.Add(ban + retention)
	return ban
}

// Ban bans a client that another replica of the edge has banned, for no longer than
// this one bans. OnBan is not called.
func (t *Tracker) Ban(client netip.Prefix, length time.Duration, now time.Time) {
	length = min(length, t.cfg.MaxBan)
	if !client.IsValid() || length <= 0 || sharedAddress(client) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	found := t.records[client]
	if found == nil {
		t.evict()
		found = &record{}
		t.records[client] = found
		t.tracked.Store(int64(len(t.records)))
	}
	found.floods = max(found.floods, floodsUntilBan)
	if until := now.Add(length); until.After(found.bannedUntil) {
		found.bannedUntil = until
		found.expiresAt = until.Add(retention)
	}
}

// carrierNAT are the shared addresses of carriers and clouds (RFC 6598).
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

// sharedAddress reports whether an address belongs to a private network. To an
// edge that faces the internet it is the address of a node or load balancer
// that hides its clients, and banning it would do what an attacker wants.
func sharedAddress(client netip.Prefix) bool {
	ip := client.Addr()
	return ip.IsPrivate() || ip.IsLinkLocalUnicast() || carrierNAT.Contains(ip)
}

// banLength returns the length of a ban that follows a number of earlier bans.
func banLength(earlier int, longest time.Duration) time.Duration {
	return backoff.Policy{First: firstBan, Longest: longest}.Base(earlier + 1)
}

// sweep removes expired records, at most once per retention time. It is called
// with mu held.
func (t *Tracker) sweep(now time.Time) {
	if now.Sub(t.swept) < retention {
		return
	}
	t.swept = now
	for client, found := range t.records {
		if !now.Before(found.expiresAt) {
			delete(t.records, client)
		}
	}
	t.tracked.Store(int64(len(t.records)))
}

// evict removes one record when the tracker is full: of a random sample, the
// one that would expire first. Map iteration order serves as the random source.
// It is called with mu held.
func (t *Tracker) evict() {
	if len(t.records) < maxClients {
		return
	}
	var oldest netip.Prefix
	var expiresAt time.Time
	left := evictionSample
	for client, found := range t.records {
		if left == evictionSample || found.expiresAt.Before(expiresAt) {
			oldest, expiresAt = client, found.expiresAt
		}
		if left--; left == 0 {
			break
		}
	}
	delete(t.records, oldest)
}

// Len is the number of clients that are tracked.
func (t *Tracker) Len() int { return int(t.tracked.Load()) }
