package h2

import (
	"net"
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/floodtracker"
)

// reducedShare is the divisor of the limits of a client with reduced limits.
// Without it a client that reconnects after each flood would get all of them
// each time. Other clients behind the same address notice nothing, as long as
// they send requests and read the responses.
const reducedShare = 10

// suspect returns the configuration for unknown clients during a distributed
// flood.
func (c Config) suspect() Config {
	c.Guard.Control = max(1, c.Guard.Control/reducedShare)
	c.Guard.Resets.Early = max(1, c.Guard.Resets.Early/reducedShare)
	c.Guard.Resets.Streams = max(1, c.Guard.Resets.Streams/reducedShare)
	return c
}

// reduced returns the configuration for clients that flooded of late. They may
// not open more streams than they were granted, not even by what is on the
// wire.
func (c Config) reduced() Config {
	c = c.suspect()
	c.openFactor = 1
	return c
}

// configFor returns the configuration for a client, by its reputation.
func (s *Server) configFor(client netip.Prefix) *Config {
	if !client.IsValid() {
		return &s.cfg
	}
	switch s.cfg.Floods.Reputation(client, time.Now()) {
	case floodtracker.Good:
		return &s.cfg
	case floodtracker.Suspect:
		return &s.suspect
	}
	return &s.reduced
}

// client returns whom a flood of a connection is recorded for. It is not valid
// for a trusted proxy, which carries the requests of many clients.
func (s *Server) client(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if s.cfg.TrustedProxy != nil && s.cfg.TrustedProxy(ip) {
		return netip.Prefix{}
	}
	return floodtracker.ClientOf(ip)
}

// isFlood reports whether a connection was closed for what its client did, and
// not for a timeout or a regular end.
func isFlood(reason string) bool {
	switch reason {
	case ReasonEnded, ReasonFirst, ReasonSlowHeaders, ReasonPreface:
		return false
	}
	return true
}
