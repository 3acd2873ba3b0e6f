// Package proxy answers requests: it takes them from a client's connection,
// asks the Program which rule they belong to, runs the rule's filters, and
// passes request and answer between the client and an endpoint.
//
// The life of a request is the order of the functions in exchange.go. A
// connection is one goroutine; a second one runs only while a body that is not
// here yet is uploaded, because an answer may come before its end.
//
// It promises that a connection is used again, on either side, only after an
// exchange that ended cleanly, that what was matched is what is forwarded, and
// that a rule whose filters could not be compiled answers 503. It refuses to
// guess: what the codec refuses is answered with its status, and the connection
// is closed.
package proxy

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
)

// Config is what a Proxy works with.
type Config struct {
	// Pool lends the buffers of all connections.
	Pool *h1.BufferPool
	// Limits and Timeouts are those for clients.
	Limits   h1.Limits
	Timeouts h1.Timeouts
	// Upstreams are the backends that rules name.
	Upstreams *upstream.Set
	// Counters hold what filters count.
	Counters *filter.Counters
	// Name is said to backends as X-Forwarded-Server; empty says nothing.
	Name string
	// Observe is told of every exchange when it is over; nil is nobody. The
	// record is reused after the call.
	Observe func(*Record)
	// Log gets what is wrong with the edge itself. Requests are not in it.
	Log *slog.Logger
}

// Proxy serves connections by the Program that it was last given.
type Proxy struct {
	cfg     Config
	program atomic.Pointer[program.Program]
	date    atomic.Pointer[dateText]

	mu       sync.Mutex
	clients  map[*client]struct{}
	draining atomic.Bool
}

// Accepted says where a connection came from.
type Accepted struct {
	EntryPoint string
	// Client and Local are the two ends, as a trusted PROXY header has them.
	Client, Local netip.AddrPort
	// Trusted says that the client is a proxy whose X-Forwarded headers count.
	Trusted bool
	// TLS says that the connection is encrypted.
	TLS bool
}

// New makes a Proxy. It answers 404 until it is given a Program.
func New(cfg Config) *Proxy {
	return &Proxy{cfg: cfg, clients: map[*client]struct{}{}}
}

// Compiler makes the Programs for this Proxy.
func (p *Proxy) Compiler() program.Compiler {
	return program.Compiler{Bind: p.bind, BindTCP: p.bindTCP}
}

// Swap puts a Program in place. Exchanges that have begun keep the rule they
// were given.
func (p *Proxy) Swap(next *program.Program) { p.program.Store(next) }

// Program is the one in place, nil before the first.
func (p *Proxy) Program() *program.Program { return p.program.Load() }

// ServeHTTP1 serves a connection until it ends, and closes it.
func (p *Proxy) ServeHTTP1(conn net.Conn, from Accepted) {
	c := newClient(p, conn, from)
	p.add(c)
	defer p.remove(c)
	c.serve()
}

// Clients is the number of connections.
func (p *Proxy) Clients() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.clients)
}

// Drain asks every client to go: idle connections are closed, the others after
// the exchange that runs. Connections that come later serve one request.
func (p *Proxy) Drain() {
	p.draining.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		c.reader.Interrupt()
	}
}

func (p *Proxy) add(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c] = struct{}{}
}

func (p *Proxy) remove(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, c)
}

// dateText is the Date header of one second.
type dateText struct {
	second int64
	text   string
}

// dateHeader is the Date header of this moment; it is written once a second.
func (p *Proxy) dateHeader(now time.Time) string {
	second := now.Unix()
	if d := p.date.Load(); d != nil && d.second == second {
		return d.text
	}
	d := &dateText{second: second, text: now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")}
	p.date.Store(d)
	return d.text
}
