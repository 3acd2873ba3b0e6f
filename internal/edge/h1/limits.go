package h1

import (
	"time"

	"slipway.dev/slipway/internal/edge/normalize"
)

// Limits bounds the memory of a message, and lists the spellings that pass although
// they are refused by default.
type Limits struct {
	// HeadBytes bounds a head, from the first byte to the empty line. Default
	// 32 KiB: cookies of one site fit, and ten thousand clients fit in memory.
	HeadBytes int
	// Fields bounds the number of header lines, and of trailers. Default 100.
	Fields int
	// TargetBytes bounds the request target. Default 8 KiB, RFC 9112's least.
	TargetBytes int
	// TrailerBytes bounds the trailers of a chunked body. Default 4 KiB; a
	// line of them has to fit the read buffer.
	TrailerBytes int
	// Underscores lets header names with underscores pass. Default off: many
	// backends take X_Forwarded_For for X-Forwarded-For. Names that are such a
	// spelling of a header with a meaning are dropped even so.
	Underscores bool
	// Hazards are the spellings of paths to accept. Default none. A listener
	// allows what any of its routes allows, and checks again once the route is
	// known.
	Hazards normalize.Hazard
	// Upgrades are the protocols that a connection may be switched to, in lower case
	// with commas between them. Default websocket: a tunnel of a protocol that the
	// edge does not know could carry requests past it.
	Upgrades string
}

// DefaultLimits are safe for an edge that faces the internet.
func DefaultLimits() Limits {
	return Limits{
		HeadBytes:    32 << 10,
		Fields:       100,
		TargetBytes:  8 << 10,
		TrailerBytes: 4 << 10,
	}
}

// Timeouts bounds how long a [Reader] and a [Writer] wait. Zero means no bound;
// leave that to waits that something else bounds.
type Timeouts struct {
	// Head bounds the time from the first byte of a head, or from accepting
	// the connection, to its last. Default 10 s.
	Head time.Duration
	// Idle bounds the wait for the next head on a connection that was used.
	// Default 75 s.
	Idle time.Duration
	// Body bounds the wait for more bytes of a body. Default 30 s.
	Body time.Duration
	// Write bounds each write: 32 KiB at most, so it bounds the rate of a slow
	// reader too. Default 30 s.
	Write time.Duration
	// RateAfter and Rate cut off a body that has come slower than Rate bytes a
	// second since it began, once it has lasted RateAfter. Default 240 B/s
	// after 60 s.
	RateAfter time.Duration
	// Rate is in bytes a second.
	Rate int64
}

// DefaultTimeouts are those for clients of an edge that faces the internet.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Head:      10 * time.Second,
		Idle:      75 * time.Second,
		Body:      30 * time.Second,
		Write:     30 * time.Second,
		RateAfter: 60 * time.Second,
		Rate:      240,
	}
}
