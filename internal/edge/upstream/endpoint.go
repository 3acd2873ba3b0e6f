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

// location is what makes an endpoint the same one: where it listens. Its weight,
// zone and state may change.
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

// portNumber is where the endpoint listens.
func (p location) portNumber() uint16 {
	if p.host != "" {
		return p.port
	}
	return p.address.Port()
}

// atPort is the same host at another port.
func (p location) atPort(port uint16) location {
	if p.host != "" {
		p.port = port
	} else {
		p.address = netip.AddrPortFrom(p.address.Addr(), port)
	}
	return p
}

// serverName is the name that the endpoint has to prove to be, where none is
// given.
func (p location) serverName() string {
	if p.host != "" {
		return p.host
	}
	return p.address.Addr().Unmap().WithZone("").String()
}

// Endpoint is one address of a backend, with all that is known of it. It stays
// the same through changes of the table, until it leaves it. What every request
// reads or counts comes first, so that it fills few lines of a cache.
type Endpoint struct {
	handle   *Handle
	address  string
	inFlight atomic.Int64
	health   health
	// checkFailure says why the endpoint fails its health checks; nil when it does
	// not. Handle.judging guards it for writing.
	checkFailure atomic.Pointer[string]
	reused       atomic.Uint64
	ended        [outcomes]atomic.Uint64
	pool         pool

	location location
	// hashSeed tells endpoints apart in consistent hashing; it is the same on every
	// replica.
	hashSeed uint64
	// addedAt is when a running backend got the endpoint, for slow start. It is 0
	// for one that was there from the beginning.
	addedAt int64
	removed atomic.Bool
	// fastPathSet is the last roster that left nothing to think about but this endpoint.
	fastPathSet atomic.Pointer[endpointSet]

	openConns atomic.Int64 // connections, in use and idle

	latency  atomic.Int64 // average, in nanoseconds; 0 when there is none
	measured atomic.Int64 // when latency was last set

	probe *probe // guarded by checker.mu; nil when it is not checked

	smoothWeight int64 // of the smooth round robin; guarded by Handle.turning
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

// The average latency moves by an eighth with each measurement, and halves
// with each latencyHalf without one: an endpoint that was slow once has to get
// another chance.
const (
	latencyShift = 3
	latencyHalf  = int64(10e9)
)

// observeLatency takes in how long an answer took. A measurement that is lost to
// another goroutine does no harm.
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

// expectedLatency is how long an answer takes, as far as is known; 0 is unknown.
func (e *Endpoint) expectedLatency(now int64) int64 {
	age := max(now-e.measured.Load(), 0)
	return e.latency.Load() >> min(age/latencyHalf, 62)
}
