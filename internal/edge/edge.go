// Package edge is the data plane: it takes connections on entry points and
// answers their requests by a route.Table.
//
// Its parts, in the order in which a request meets them: listener (accepts),
// tlsstore (certificates and conditions of handshakes), h2, h3 and bridge
// (streams become HTTP/1.1 messages), h1 and normalize (read a request in one
// spelling), program (finds the rule), filter (the rule's policies), proxy (the
// exchange itself), upstream (pools of connections to endpoints).
//
// A new table is built completely and then put in place by swapping one
// pointer; a table that cannot be built leaves the old one serving. Backends
// that come are made before the swap and those that go are dropped after it,
// so no request finds a rule without its backend.
package edge

import (
	"context"
	"crypto/tls"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// sweepPeriod is how often counts that nobody declares any more are looked for.
const sweepPeriod = time.Minute

// Options are what a Server needs.
type Options struct {
	EntryPoints []EntryPoint
	// MemoryLimit is how much memory the process may have before load is shed;
	// 0 is no limit. See [overload.Limit].
	MemoryLimit uint64
	// SharedSecret is the same on all replicas, so that TLS sessions resume and
	// sticky cookies hold on each of them. Empty lets every replica choose its own.
	SharedSecret secret.Text
	// Observe is told of every exchange, besides Metrics; nil is nobody.
	Observe func(*proxy.Record)
	// Trace is called before a backend is asked; see [proxy.Config]. Nil traces
	// nothing.
	Trace   func(*proxy.Record, *filter.Exchange) (finish func())
	Metrics *Metrics
	Log     *slog.Logger
}

// Server serves tables.
type Server struct {
	options      Options
	points       []*point
	proxy        *proxy.Proxy
	streams      *bridge.Handler
	upstreams    *upstream.Set
	counters     *filter.Counters
	certificates *tlsstore.Store
	tls          *tls.Config
	monitor      *overload.Monitor
	// lifetime is the context of connections. It ends with the Server.
	lifetime context.Context
	end      context.CancelFunc

	mu sync.Mutex // one change at a time
	// book is everything that is served.
	book *route.Book
	// applied is the part of it that came by Apply, nil before the first.
	applied *route.Table
	// parked are rules that have no place: they come back when there is one.
	parked map[route.ID]*route.Rule
	// tlsProblems are those that the log has.
	tlsProblems map[tlsstore.Problem]struct{}
	// refused are the rules whose policies could not be compiled, since it was
	// emptied last.
	refused []route.Problem
}

// New opens the entry points. Connections wait there until Run.
func New(ctx context.Context, options Options) (*Server, error) {
	certificates, err := tlsstore.New(tlsstore.Config{})
	if err != nil {
		return nil, fmt.Errorf("make the default certificate: %w", err)
	}
	pool := &h1.BufferPool{}
	config := upstream.DefaultConfig()
	if config.StickyKey, err = stickyKey(options.SharedSecret); err != nil {
		return nil, err
	}
	config.Pool = pool
	config.Log = options.Log
	s := &Server{
		options: options, upstreams: upstream.NewSet(config), counters: filter.NewCounters(time.Now()),
		certificates: certificates, tls: certificates.ServerConfig(),
		book: route.NewBook(), parked: map[route.ID]*route.Rule{},
	}
	if err := s.setTicketKeys(time.Now()); err != nil {
		return nil, err
	}
	s.lifetime, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.proxy = proxy.New(proxy.Config{
		Pool:        pool,
		Upstreams:   s.upstreams,
		Counters:    s.counters,
		Admit:       s.admit,
		Trace:       options.Trace,
		Observe:     s.observe,
		RuleRefused: s.noteRefused,
		Log:         options.Log,
	})
	s.monitor = overload.NewMonitor(options.MemoryLimit, s.setPressure)
	s.streams = &bridge.Handler{Serve: s.serveStream, Pool: pool, Limits: h1.DefaultLimits()}
	for i := range options.EntryPoints {
		if err := s.open(options.EntryPoints[i]); err != nil {
			s.Close()
			return nil, err
		}
	}
	if err := s.serveOptions(); err != nil {
		s.Close()
		return nil, err
	}
	options.Metrics.collect(s)
	return s, nil
}

// serveStream answers one request of HTTP/2 or HTTP/3.
func (s *Server) serveStream(stream bridge.Stream, conn net.Conn) {
	from, ok := acceptedFrom(stream.Context())
	from.Protocol = "HTTP/2"
	if !ok {
		from, ok = acceptedHTTP3(stream, conn)
		from.Protocol = "HTTP/3"
		ok = ok && !cutOff(stream.Context())
	}
	if !ok {
		conn.Close() // cut off; a stream without a connection is a mistake of the program
		return
	}
	from.Gone = stream.Context()
	s.proxy.ServeStream(conn, from)
}

// yieldRounds is how often a request of a stream lets others go first.
const yieldRounds = 3

// cutOff reports whether a request of HTTP/3 was cut off right behind its head,
// as in a flood of resets. It costs a backend nothing then, if the connection
// gets to read that far before the request is served. That of HTTP/2 reads ahead
// by itself.
func cutOff(ctx context.Context) bool {
	for range yieldRounds {
		runtime.Gosched()
		if ctx.Err() != nil {
			return true
		}
	}
	return false
}

// observe tells of an exchange that is over.
func (s *Server) observe(r *proxy.Record) {
	s.options.Metrics.observe(r)
	if s.options.Observe != nil {
		s.options.Observe(r)
	}
}

// setPressure acts on how little memory is left.
func (s *Server) setPressure(level overload.Level) {
	s.options.Log.Warn("memory pressure changed", "level", level.String(), "limit", s.options.MemoryLimit)
	s.options.Metrics.pressure.Set(float64(level))
	s.proxy.SetPressure(level)
}

// Addresses are those of the entry points, in the order of the options.
func (s *Server) Addresses() []net.Addr {
	addresses := make([]net.Addr, len(s.points))
	for i, p := range s.points {
		addresses[i] = p.listener.Addr()
	}
	return addresses
}

// Run serves until ctx is done, and then drains: for a while everything goes
// on, then no connection is taken any more and those that are open end after
// the exchange they are in, and what is left after a while more is cut.
func (s *Server) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	for _, p := range s.points {
		serving.Go(p.accept)
		if p.h3 != nil {
			serving.Go(p.serveHTTP3)
		}
	}
	serving.Go(func() { s.monitor.Run(s.lifetime) })
	serving.Go(func() { s.rotateTickets(s.lifetime) })
	s.sweep(ctx)
	s.drain()
	s.end()
	serving.Wait()
	s.proxy.Close()
	s.upstreams.Close()
	return nil
}

// drain ends all entry points. The grace of the one that needs the longest
// counts for all: a client of two of them must not see one go.
func (s *Server) drain() {
	grace := time.Duration(0)
	for _, p := range s.points {
		grace = max(grace, p.AcceptGrace)
	}
	s.options.Log.Info("draining", "acceptGrace", grace)
	if grace > 0 {
		<-time.After(grace)
	}
	s.proxy.Drain()
	var draining sync.WaitGroup
	for _, p := range s.points {
		draining.Go(p.drain)
	}
	draining.Wait()
}

// sweep drops now and then what filters count for declarations that have left
// the table, until ctx is done.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.counters.Keep(policyIDs(s.Table()), now)
		}
	}
}

// policyIDs are the identities of all policies of a table that count.
func policyIDs(table *route.Table) iter.Seq[route.PolicyID] {
	return func(yield func(route.PolicyID) bool) {
		if table == nil {
			return
		}
		for _, rule := range table.Rules {
			for id := range filter.PolicyIDs(rule.Policies) {
				if !yield(id) {
					return
				}
			}
		}
		for _, tcp := range table.TCPRoutes {
			for id := range filter.PolicyIDs(tcp.Policies) {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// Close gives up a Server that is not run.
func (s *Server) Close() {
	for _, p := range s.points {
		p.close()
	}
	s.end()
	s.proxy.Close()
	s.upstreams.Close()
}
