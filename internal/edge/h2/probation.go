package h2

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// probationTime is how long a client is remembered whose connection was
	// ended for a flood.
	probationTime = time.Minute
	// maxProbation bounds how many are; beyond it nobody is added.
	maxProbation = 10_000
	// probationShare is the part of the usual limits that such a client has.
	// Who reconnects after each flood would else get the whole of them each time.
	// Others behind the same address notice nothing, as long as they ask for
	// what they want and take it.
	probationShare = 10
)

// probation knows the clients that have flooded of late.
type probation struct {
	mu    sync.Mutex
	until map[netip.Prefix]time.Time
}

// add puts a client on probation.
func (p *probation) add(client netip.Prefix, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = make(map[netip.Prefix]time.Time)
	}
	if len(p.until) >= maxProbation {
		for known, until := range p.until {
			if now.After(until) {
				delete(p.until, known)
			}
		}
	}
	if _, known := p.until[client]; known || len(p.until) < maxProbation {
		p.until[client] = now.Add(probationTime)
	}
}

// has reports whether a client is on probation.
func (p *probation) has(client netip.Prefix, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, known := p.until[client]
	if known && now.After(until) {
		delete(p.until, client)
		return false
	}
	return known
}

// clientOf is who a connection comes from: an address, or with IPv6 a network
// of 64 bits, because a client has that many addresses.
func clientOf(addr net.Addr) (netip.Prefix, bool) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, err := ip.Prefix(bits)
	return prefix, err == nil
}

// strict is the config for clients on probation.
func (c Config) strict() Config {
	c.Guard.Control = max(1, c.Guard.Control/probationShare)
	c.Guard.Resets.Early = max(1, c.Guard.Resets.Early/probationShare)
	c.Guard.Resets.Streams = max(1, c.Guard.Resets.Streams/probationShare)
	c.openFactor = 1
	return c
}

// flood reports whether a connection was ended for what its client did, and not
// for what it left undone.
func flood(reason string) bool {
	switch reason {
	case ReasonEnded, ReasonFirst, ReasonSlowHeaders, ReasonPreface:
		return false
	}
	return true
}
