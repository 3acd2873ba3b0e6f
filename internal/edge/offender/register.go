package offender

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

const (
	// strikes is how many floods within the memory make a client one whose new
	// connections are refused.
	strikes = 3
	// memory is how long a flood is remembered; the end of a hold begins it anew.
	memory = time.Minute
	// firstHold is the length of the first hold. Each further one is twice as long
	// as the one before.
	firstHold = time.Second
	// maxClients bounds how many clients are remembered.
	maxClients = 10_000
	// tries is how many of those that are remembered are looked at for one to be
	// forgotten in favour of a new one. To look at all of them for each flood would
	// be worth an attack of its own.
	tries = 8
)

// DefaultMostHold is the longest hold unless another is asked for.
const DefaultMostHold = time.Minute

// Standing is what is known of a client.
type Standing uint8

// The standings, from good to bad.
const (
	// Good is a client of which nothing is known.
	Good Standing = iota
	// Suspect is a client that nothing is known of, at a time at which many of
	// those turn out to flood.
	Suspect
	// Probation is a client that has flooded of late.
	Probation
	// Held is a client that went on with that: its new connections are refused.
	Held
)

// Config is what a Register works with. Everything may be left out.
type Config struct {
	// MostHold is the longest time for which a client is held off. 0 holds nobody
	// off. Addresses of private networks never are.
	MostHold time.Duration
	// Held is called when a hold begins, with its length. It must be quick, and
	// must not call the Register.
	Held func(client netip.Prefix, hold time.Duration)
}

// Register remembers the clients that have flooded of late. Its methods may be
// called from any goroutine. The zero value is not usable.
type Register struct {
	cfg Config
	// known is how many records there are, so that nobody takes the lock while
	// there is no attack.
	known atomic.Int64

	mu      sync.Mutex
	records map[netip.Prefix]*record
	swept   time.Time // when all were last looked at
	crowd   crowd
}

// record is what is known of one client.
type record struct {
	strikes int
	held    time.Time // until when its connections are refused
	forget  time.Time
}

// New makes a Register.
func New(cfg Config) *Register {
	return &Register{cfg: cfg, records: make(map[netip.Prefix]*record)}
}

// Of is who an address belongs to: itself, or with IPv6 a network of 64 bits,
// because a client has that many addresses. It is not valid for what is no
// address.
func Of(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // not valid if ip is not
	return prefix
}

// Standing says what is known of a client.
func (r *Register) Standing(client netip.Prefix, now time.Time) Standing {
	if r.known.Load() == 0 {
		return Good
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	known := r.records[client]
	switch {
	case known != nil && now.Before(known.held):
		return Held
	case known != nil && now.Before(known.forget):
		return Probation
	}
	if r.crowd.here(now) {
		return Suspect
	}
	return Good
}

// Flooded notes that a connection of a client was ended for a flood. One without
// an address, which is not valid, is nobody's.
func (r *Register) Flooded(client netip.Prefix, now time.Time) {
	if !client.IsValid() {
		return
	}
	if hold := r.strike(client, now); hold > 0 && r.cfg.Held != nil {
		r.cfg.Held(client, hold)
	}
}

// strike counts a flood, and gives the length of the hold that begins with it; 0
// is none.
func (r *Register) strike(client netip.Prefix, now time.Time) (hold time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	known := r.records[client]
	switch {
	case known == nil:
		r.crowd.add(now)
		r.makeRoom()
		known = &record{}
		r.records[client] = known
		r.known.Store(int64(len(r.records)))
	case now.Before(known.held):
		// It is a connection from before the hold. What many of them do at once is
		// one thing, and no reason for a longer hold.
		return 0
	case !now.Before(known.forget):
		*known = record{}
		r.crowd.add(now)
	}
	known.strikes++
	if over := known.strikes - strikes; over >= 0 && r.cfg.MostHold > 0 && !shared(client) {
		hold = holdTime(over, r.cfg.MostHold)
		known.held = now.Add(hold)
	}
	known.forget = now.Add(hold + memory)
	return hold
}

// carrier are the addresses that providers and clouds use inside (RFC 6598).
var carrier = netip.MustParsePrefix("100.64.0.0/10")

// shared reports whether an address is one of a private network. To an edge that
// faces the internet it is that of a node or load balancer that hides its
// clients, and to hold it off would be what an attacker wants.
func shared(client netip.Prefix) bool {
	ip := client.Addr()
	return ip.IsPrivate() || ip.IsLinkLocalUnicast() || carrier.Contains(ip)
}

// holdTime is the length of a hold after so many others.
func holdTime(before int, most time.Duration) time.Duration {
	return backoff.Policy{First: firstHold, Longest: most}.Base(before + 1)
}

// sweep forgets everybody whose time is over, once in a while.
func (r *Register) sweep(now time.Time) {
	if now.Sub(r.swept) < memory {
		return
	}
	r.swept = now
	for client, known := range r.records {
		if !now.Before(known.forget) {
			delete(r.records, client)
		}
	}
	r.known.Store(int64(len(r.records)))
}

// makeRoom forgets a client if there are as many as there may be: of a few that
// chance picks, the one that would be forgotten first.
func (r *Register) makeRoom() {
	if len(r.records) < maxClients {
		return
	}
	var first netip.Prefix
	var least time.Time
	left := tries
	for client, known := range r.records {
		if left == tries || known.forget.Before(least) {
			first, least = client, known.forget
		}
		if left--; left == 0 {
			break
		}
	}
	delete(r.records, first)
}

// Len is the number of clients that are remembered.
func (r *Register) Len() int { return int(r.known.Load()) }
