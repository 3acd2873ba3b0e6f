// Package proxy answers requests: it takes them from a client's connection,
// asks the Program which rule they belong to, runs the rule's filters, and
// passes request and answer between the client and an endpoint.
//
// The life of a request is the order of the functions in exchange.go; one try at
// an endpoint is in attempt.go, the request's body in upload.go, the answer in
// answer.go and deliver.go. A connection is one goroutine; a second one runs
// only while a body that is not here yet is uploaded, because an answer may come
// before its end. A stream of HTTP/2 or HTTP/3 comes as a connection with one
// request, see [Proxy.ServeStream], and is served by the same functions.
//
// What the edge asks for itself (whether a request may pass, the page for an
// error, a copy for another backend) goes through side.go.
//
// It promises that a connection is used again, on either side, only after an
// exchange that ended cleanly, that what was matched is what is forwarded, and
// that a rule whose filters could not be compiled answers 503. What it keeps in
// memory, copies and repeats is bounded over all requests; [Proxy.Stats] counts
// what did not fit. It refuses to guess: what the codec refuses is answered with
// its status, and the connection is closed.
package proxy

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// Config is what a Proxy works with.
type Config struct {
	// Pool lends the buffers of all connections.
	Pool *h1.BufferPool
	// Limits and Timeouts are those for clients whose connections bring none.
	Limits   h1.Limits
	Timeouts h1.Timeouts
	// Upstreams are the backends that rules name.
	Upstreams *upstream.Set
	// Counters hold what filters count.
	Counters *filter.Counters
	// MaxBufferedBytes bounds the memory of all bodies that policies keep. What does
	// not fit is answered with 503. Default 128 MiB.
	MaxBufferedBytes int64
	// MirrorsInFlight bounds the copies of requests that run at one time. What
	// is beyond is not copied. Default 256.
	MirrorsInFlight int
	// Name is said to backends as X-Forwarded-Server; empty says nothing.
	Name string
	// Admit is asked about a request that a rule took, before the rule's filters
	// run. Its answer is given in their place; nil lets the request in. A nil
	// Admit lets everything in.
	Admit func(from *Accepted, host string, rule *route.Rule) *filter.LocalResponse
	// Trace is called before a backend is asked. It may read the request and
	// append to the exchange's RequestEdits. What it returns is called when the
	// exchange is over and the record complete, unless it is nil.
	Trace func(*Record, *filter.Exchange) (finish func())
	// Observe is told of every exchange when it is over; nil is nobody. The
	// record is reused after the call.
	Observe func(*Record)
	// RuleRefused is told of a rule whose policies cannot be compiled, and which
	// therefore answers 503; nil is nobody.
	RuleRefused func(route.ID, error)
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
	pressure atomic.Int32 // an overload.Level

	streams    sync.Pool // of *client
	memory     memory
	encoders   *filter.Encoders
	background backgroundTasks
	budgets    budgets
	counters   counterRegistry
}

// Accepted says where a connection came from.
type Accepted struct {
	EntryPoint string
	// Client and Local are the two ends, as a trusted PROXY header has them.
	Client, Local netip.AddrPort
	// Trusted says that the client is a proxy whose X-Forwarded headers count,
	// Trust which of the proxies that it names are believed too.
	Trusted bool
	Trust   *Trust
	// Protocol is what the client speaks: HTTP/1.1, HTTP/2 or HTTP/3. Empty is
	// HTTP/1.1.
	Protocol string
	// TLS says that the connection is encrypted.
	TLS bool
	// TLSVersion and CipherSuite are those of crypto/tls, for logs.
	TLSVersion, CipherSuite uint16
	// Handshake is what the connection was made with, for Admit. It is nil
	// without TLS.
	Handshake *tlsstore.Handshake
	// Certificate is the client's, verified; nil when there is none.
	Certificate *x509.Certificate
	// Edits are made to the header of every final response of the connection,
	// before those of filters.
	Edits []h1.Edit
	// Gone ends when the client of a stream has left, which its connection does
	// not show. It is nil for connections of their own.
	Gone context.Context
	// Limits and Timeouts are those of the entry point; nil means the Proxy's.
	Limits   *h1.Limits
	Timeouts *h1.Timeouts
}

// New makes a Proxy. It answers 503 until it is given a Program.
func New(cfg Config) *Proxy {
	cfg.MaxBufferedBytes = cmp.Or(cfg.MaxBufferedBytes, defaultMaxBufferedBytes)
	cfg.MirrorsInFlight = cmp.Or(cfg.MirrorsInFlight, defaultMirrors)
	p := &Proxy{cfg: cfg, clients: map[*client]struct{}{}, encoders: filter.NewEncoders()}
	p.counters.unrouted = new(requestCounters)
	p.memory.pool, p.memory.most = cfg.Pool, cfg.MaxBufferedBytes
	p.background.stop, p.background.halt = context.WithCancel(context.Background())
	return p
}

// Close stops what runs beside the exchanges, such as copies of requests, and
// waits for it. Exchanges that still run then get no answers from servers that
// decide about them.
func (p *Proxy) Close() {
	p.background.close()
}

// Stats are the limits of the Proxy at work, for metrics.
type Stats struct {
	// BufferedBytes is the memory that bodies take; HoldsRefused is how often there
	// was no room for one.
	BufferedBytes  int64
	BuffersRefused uint64
	// Mirrored and MirrorsDropped are copies of requests that were sent and not.
	Mirrored, MirrorsDropped uint64
	// RetriesRefused is how often a request was not sent again because too many
	// were.
	RetriesRefused uint64
	// EncodersRefused is how many answers were not compressed because too many
	// were.
	EncodersRefused uint64
}

// Stats gives the counts.
func (p *Proxy) Stats() Stats {
	return Stats{
		BufferedBytes: p.memory.used.Load(), BuffersRefused: p.memory.refused.Load(),
		Mirrored: p.background.sent.Load(), MirrorsDropped: p.background.dropped.Load(),
		RetriesRefused: p.budgets.refused.Load(), EncodersRefused: p.encoders.Refused(),
	}
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
