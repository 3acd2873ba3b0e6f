package upstream

import (
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"

	"slipway.dev/slipway/internal/route"
)

// location is the identity of an endpoint: where it listens. Its weight, zone
// and state may change.
type location struct {
	address netip.AddrPort
	host    string
	port    uint16
}

func locationOf(e *route.Endpoint) location {
	return location{address: e.Address, host: e.Host, port: e.Port}
}

func (p location) String() string {
	if p.host != "" {
		return net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
	}
	return p.address.String()
}

// portNumber is the port on which the endpoint listens.
func (p location) portNumber() uint16 {
	if p.host != "" {
		return p.port
	}
	return p.address.Port()
}

// atPort returns the same host with another port.
func (p location) atPort(port uint16) location {
	if p.host != "" {
		p.port = port
	} else {
		p.address = netip.AddrPortFrom(p.address.Addr(), port)
	}
	return p
}

// serverName is the name that the certificate of the endpoint has to have,
// unless the backend sets another.
func (p location) serverName() string {
	if p.host != "" {
		return p.host
	}
	return p.address.Addr().Unmap().WithZone("").String()
}

// Endpoint is one address of a backend, with its connections, counters and
// health. It stays the same through changes of the table, until it is removed.
// The fields that every request reads or counts come first, so that they share
// few cache lines.
type Endpoint struct {
	handle   *Handle
	address  string
	inFlight atomic.Int64
	health   health
	// checkFailure is why the endpoint fails its health checks; nil when it
	// passes them. Handle.healthMu guards it for writing.
	checkFailure atomic.Pointer[string]
	reused       atomic.Uint64
	ended        [outcomes]atomic.Uint64
	pool         pool

	location location
	// hashSeed distinguishes endpoints in consistent hashing. It is the same on
	// every replica.
	hashSeed uint64
	// addedAt is when the endpoint was added to a running backend, for slow
	// start. It is 0 for one that was there from the beginning.
	addedAt int64
	removed atomic.Bool
	// fastPathSet is the last endpoint set in which this endpoint was on the
	// fast path.
	fastPathSet atomic.Pointer[endpointSet]

	openConns atomic.Int64 // connections, in use and idle

	// revision counts its requests; nil for an endpoint of no revision.
	revision atomic.Pointer[Revision]

	latency  atomic.Int64 // average, in nanoseconds; 0 when there is none
	measured atomic.Int64 // when latency was last set

	probe *probe // guarded by checker.mu; nil when it is not checked

	smoothWeight int64 // for smoothRoundRobin; guarded by Handle.smoothMu
}

func newEndpoint(h *Handle, at location) *Endpoint {
	address := at.String()
	sum := sha256.Sum256([]byte(address))
	return &Endpoint{
		handle:   h,
		location: at,
		address:  address,
		hashSeed: binary.BigEndian.Uint64(sum[:8]),
	}
}

// Address is host and port, for the Host header and for logs.
func (e *Endpoint) Address() string { return e.address }

// The average latency moves by an eighth with each measurement, and halves with
// each latencyHalf without one: an endpoint that was slow once has to get
// another chance.
const (
	latencyShift = 3
	latencyHalf  = int64(10e9)
)

// observeLatency adds a measurement to the average. A measurement that is lost
// to another goroutine does no harm.
func (e *Endpoint) observeLatency(took, now int64) {
	average := e.latency.Load()
	if average == 0 {
		average = took
	} else {
		average += (took - average) >> latencyShift
	}
	e.latency.Store(max(average, 1))
	e.measured.Store(now)
}

// expectedLatency is the expected time of a response; 0 is unknown.
func (e *Endpoint) expectedLatency(now int64) int64 {
	age := max(now-e.measured.Load(), 0)
	return e.latency.Load() >> min(age/latencyHalf, 62)
}
