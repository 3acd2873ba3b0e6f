// Package proxy serves requests: it reads them from a client's connection, finds
// their rule in the Program, runs the rule's filters, and passes request and
// response between the client and an endpoint of a backend.
//
// Three objects are nested by how long they live. A conn is a client's
// connection, an exchange is one request on it, an attempt is one try at one
// endpoint. The phases of a request are listed in exchange.go, in the order in
// which they happen, and each is a file: route, admit, filter, buffer, pick, send,
// receive, respond, record. A connection is a task of an event loop, or one goroutine
// (decision 0087); a second one runs only while a body that has not arrived yet is
// uploaded, because a response may come before its end. A connection without requests
// rests, in a small goroutine or in none (decision 0080). A stream of HTTP/2 or HTTP/3 comes as a connection with one
// request, see [Proxy.ServeStream], and passes the same phases.
//
// Requests of the edge's own are sub-requests (subrequest.go): to authenticate a
// request, to fetch the page for an error, to mirror a request.
//
// It guarantees that a connection is used again, on either side, only after an
// exchange that ended cleanly, that the request that was matched is the one that
// is forwarded, and that a rule whose filters could not be compiled responds with
// 503. Memory for bodies, mirrors and retries are bounded over all requests;
// [Proxy.Stats] counts what did not fit. Nothing is guessed: a message that the
// codec refuses gets its status, and the connection is closed. A request that
// comes back from a backend is refused (decision 0040), and one that the canary of a
// Release failed, or did not respond to, is sent to the stable revision (decisions 0074 and 0081).
package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/connset"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/edge/workers"
	"slipway.dev/slipway/internal/route"
)

// Config holds the dependencies and limits of a Proxy.
type Config struct {
	// Pool lends the buffers of all connections.
	Pool *h1.BufferPool
	// Limits and Timeouts are for clients whose entry point sets none.
	Limits   h1.Limits
	Timeouts h1.Timeouts
	// Upstreams are the backends that rules name.
	Upstreams *upstream.Set
	// Counters hold the state of filters that count.
	Counters *filter.Counters
	// WAF compiles the rules of a web application firewall; nil refuses policies that
	// have some.
	WAF func(*route.WAF) (filter.Filter, error)
	// MaxBufferedBytes bounds the memory of all bodies that policies buffer. A
	// request whose body does not fit gets 503. Default 128 MiB.
	MaxBufferedBytes int64
	// MirrorsInFlight bounds the mirrored requests that run at one time. Beyond
	// it requests are not mirrored. Default 256.
	MirrorsInFlight int
	// Name is sent to backends as X-Forwarded-Server; empty sends none.
	Name string
	// Hop is the identity of this edge in the CDN-Loop of what it sends to backends:
	// a request that comes with it is refused. Empty detects no loops.
	Hop string
	// Admit is called for a request that has a rule, before the rule's filters
	// run. A local response ends the request; nil lets it in. A nil Admit lets
	// every request in.
	Admit func(from *Accepted, host string, rule *route.Rule) *filter.LocalResponse
	// Trace is called before the first attempt. It may read the request and append
	// to the exchange's RequestEdits. The function that it returns, unless nil, is
	// called when the exchange is over and the record complete.
	Trace func(*Record, *filter.Exchange) (finish func())
	// Observe is called with the record of every exchange when it is over; it may
	// be nil. The record is reused after the call.
	Observe func(*Record)
	// RuleRefused is called for a rule whose policies cannot be compiled, and which
	// therefore responds with 503; it may be nil.
	RuleRefused func(route.ID, error)
	// Log gets errors of the edge itself. Requests are not in it.
	Log *slog.Logger
}

// Proxy serves connections with the Program that was swapped in last. Its fields
// are safe for concurrent use; mu guards conns and resting only.
type Proxy struct {
	cfg     Config
	program atomic.Pointer[program.Program]
	date    atomic.Pointer[dateText]

	mu       sync.Mutex
	conns    connset.Set[*conn]
	resting  connset.Set[*restingConn]
	draining atomic.Bool
	pressure atomic.Int32 // an overload.Level

	pooled     sync.Pool // of *conn
	resumed    *workers.Pool[*restingConn]
	memory     memory
	encoders   *filter.Encoders
	background backgroundTasks
	budgets    budgets
	counters   counterRegistry
}

// Accepted describes a connection that a listener has accepted.
type Accepted struct {
	EntryPoint string
	// Listener is the listener that accepted it; zero for an entry point.
	Listener program.Listener
	// Hosts are the names that share the listener; nil for an entry point, and
	// without TLS.
	Hosts *ListenerHosts
	// Client and Local are the two ends, from a trusted PROXY header where there
	// is one.
	Client, Local netip.AddrPort
	// Trusted reports that the client is a proxy whose X-Forwarded headers are
	// believed; Trust decides about the proxies that it names.
	Trusted bool
	Trust   *Trust
	// Protocol is the client's: HTTP/1.1, HTTP/2 or HTTP/3. Empty is HTTP/1.1.
	Protocol string
	// TLS reports that the connection is encrypted.
	TLS bool
	// TLSVersion and CipherSuite are those of crypto/tls, for logs.
	TLSVersion, CipherSuite uint16
	// Handshake is the TLS handshake of the connection, for Admit. It is nil
	// without TLS.
	Handshake   *tlsstore.Handshake
	Certificate filter.ClientCertificate
	// Edits are made to the header of every final response of the connection,
	// before those of filters.
	Edits []h1.Edit
	// Gone ends when the client of a stream has left, which the virtual
	// connection cannot detect. It is nil for real connections.
	Gone context.Context
	// Limits and Timeouts are those of the entry point; nil means the Proxy's.
	Limits   *h1.Limits
	Timeouts *h1.Timeouts

	// clientText and portText are Client's address and Local's port, as requests
	// forward them; empty until Describe.
	clientText, portText string
}

// Describe formats the addresses that requests forward. A connection with many
// streams does that once for all of them.
func (a *Accepted) Describe() {
	if a.clientText == "" {
		a.clientText, a.portText = a.Client.Addr().Unmap().String(), strconv.Itoa(int(a.Local.Port()))
	}
}

// New returns a Proxy. It responds with 503 until a Program is swapped in.
func New(cfg Config) *Proxy {
	cfg.MaxBufferedBytes = cmp.Or(cfg.MaxBufferedBytes, defaultMaxBufferedBytes)
	cfg.MirrorsInFlight = cmp.Or(cfg.MirrorsInFlight, defaultMirrors)
	p := &Proxy{cfg: cfg, encoders: filter.NewEncoders()}
	p.resumed = workers.New((*restingConn).resume)
	p.counters.unrouted = new(requestCounters)
	p.memory.pool, p.memory.limit = cfg.Pool, cfg.MaxBufferedBytes
	p.background.stop, p.background.cancel = context.WithCancel(context.Background())
	return p
}

// Close cancels mirrored requests and other sub-requests, and waits for the
// mirrors. Call it after the connections have drained: an exchange that still
// runs gets no response from its authentication server after it.
func (p *Proxy) Close() {
	p.background.close()
}

// Stats are the counters of the Proxy's limits, for metrics.
type Stats struct {
	// BufferedBytes is the memory that bodies take; HoldsRefused is how often there
	// was no room for one.
	BufferedBytes  int64
	BuffersRefused uint64
	// Mirrored and MirrorsDropped count the mirrored requests that were sent and
	// those that were not.
	Mirrored, MirrorsDropped uint64
	// RetriesRefused is how often the budget of a rule refused a retry.
	RetriesRefused uint64
	// EncodersRefused is how many responses were not compressed because too many
	// others were.
	EncodersRefused uint64
}

// Stats returns the current values.
func (p *Proxy) Stats() Stats {
	return Stats{
		BufferedBytes: p.memory.used.Load(), BuffersRefused: p.memory.refused.Load(),
		Mirrored: p.background.sent.Load(), MirrorsDropped: p.background.dropped.Load(),
		RetriesRefused: p.budgets.refused.Load(), EncodersRefused: p.encoders.Refused(),
	}
}

// Compiler returns the compiler of Programs for this Proxy.
func (p *Proxy) Compiler() program.Compiler {
	return program.Compiler{Bind: p.bind, BindTCP: p.bindTCP}
}

// Swap replaces the Program by one atomic store. Exchanges that have begun keep
// their rule.
func (p *Proxy) Swap(next *program.Program) { p.program.Store(next) }

// Program returns the current one, nil before the first Swap.
func (p *Proxy) Program() *program.Program { return p.program.Load() }

// ServeHTTP1 serves a connection until it ends, and closes it. It returns before
// that if the connection waits for a request without a goroutine of the caller.
func (p *Proxy) ServeHTTP1(connection net.Conn, from Accepted) {
	c := newConn(p, connection, &from, false)
	if fresh, ok := connection.(interface{ HeaderDeadline() time.Time }); ok {
		c.reader.InheritDeadline(fresh.HeaderDeadline())
	}
	p.serveConn(c)
}

// serveConn serves a connection until it ends or rests.
func (p *Proxy) serveConn(c *conn) {
	rest := p.serveRegistered(c)
	c.release()
	if rest != nil {
		rest.begin()
	}
}

// serveRegistered serves a connection that Drain can interrupt.
func (p *Proxy) serveRegistered(c *conn) (rest *restingConn) {
	p.add(c)
	defer p.remove(c)
	return c.serve()
}

// Drain closes idle connections now and the others after their current exchange.
// Connections that come later serve one request.
func (p *Proxy) Drain() {
	p.draining.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.reader.Interrupt()
	}
	for _, r := range p.resting {
		// Best effort: the connection may be gone already.
		_ = r.net.SetReadDeadline(time.Unix(1, 0))
	}
}

func (p *Proxy) add(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns.Add(c)
}

func (p *Proxy) remove(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns.Remove(c)
}

// dateText is the Date header of one second.
type dateText struct {
	second int64
	text   string
}

// dateHeader returns the Date header of a moment. It is formatted once a second.
func (p *Proxy) dateHeader(now time.Time) string {
	second := now.Unix()
	if d := p.date.Load(); d != nil && d.second == second {
		return d.text
	}
	d := &dateText{second: second, text: now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")}
	p.date.Store(d)
	return d.text
}
