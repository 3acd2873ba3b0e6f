package h2

import (
	"net"
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/offender"
)

// probationShare is the part of the usual limits that a client on probation has.
// Who reconnects after each flood would else get the whole of them each time.
// Others behind the same address notice nothing, as long as they ask for what
// they want and take it.
const probationShare = 10

// suspicious is the config for clients that nothing is known of while many of
// those flood.
func (c Config) suspicious() Config {
	c.Guard.Control = max(1, c.Guard.Control/probationShare)
	c.Guard.Resets.Early = max(1, c.Guard.Resets.Early/probationShare)
	c.Guard.Resets.Streams = max(1, c.Guard.Resets.Streams/probationShare)
	return c
}

// strict is the config for clients on probation.
func (c Config) strict() Config {
	c = c.suspicious()
	c.openFactor = 1
	return c
}

// configFor gives the limits that a client has.
func (s *Server) configFor(client netip.Prefix) *Config {
	if !client.IsValid() {
		return &s.cfg
	}
	switch s.cfg.Offenders.Standing(client, time.Now()) {
	case offender.Good:
		return &s.cfg
	case offender.Suspect:
		return &s.suspicious
	}
	return &s.strict
}

// client is who may be put on probation for a connection: not a proxy, which
// speaks for many. It is not valid for nobody.
func (s *Server) client(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if s.cfg.Trusts != nil && s.cfg.Trusts(ip) {
		return netip.Prefix{}
	}
	return offender.Of(ip)
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
