// Package edge is the data plane: it accepts connections on entry points and
// serves their requests by a route.Table.
//
// Its parts, in the order in which a request passes them: listener (accepts),
// tlsstore (certificates and options of handshakes), h2, h3 and bridge (streams
// become HTTP/1.1 messages), h1 and normalize (parse a request into one
// canonical form), program (finds the rule), filter (the rule's policies),
// proxy (the exchange itself), upstream (pools of connections to endpoints).
//
// A new table is built completely and then becomes live by swapping one
// pointer; a table that cannot be built leaves the old one serving. New
// backends are added before the swap and removed ones are dropped after it, so
// no request finds a rule without its backend.
package edge

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/edge/waf"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// sweepPeriod is how often counters of policies that were removed are dropped.
const sweepPeriod = time.Minute

// Options configure a Server.
type Options struct {
	EntryPoints []EntryPoint
	// Listener has the limits and timeouts of the listeners of the table, and its
	// name is theirs in metrics and logs.
	Listener EntryPoint
	// MemoryLimit is the memory limit of the process, at which load is shed; 0
	// is no limit. See [overload.Limit].
	MemoryLimit uint64
	// SharedSecret is the same on all replicas, so that TLS sessions resume and
	// sticky cookies are valid on each of them. Without it every replica makes
	// its own keys.
	SharedSecret secret.Text
	// Limits make rate limits hold over all replicas. They need SharedSecret.
	Limits LimitOptions
	// Loops is how many event loops serve the connections; 0 leaves them to goroutines.
	Loops int
	// Observe is called for every exchange, besides Metrics; it may be nil.
	Observe func(*proxy.Record)
	// Trace is called before a request is sent to a backend; see
	// [proxy.Config]. Nil traces nothing.
	Trace   func(*proxy.Record, *filter.Exchange) (finish func())
	Metrics *Metrics
	Log     *slog.Logger
}

// Server serves a table on its entry points.
type Server struct {
	options      Options
	points       []*point
	proxy        *proxy.Proxy
	streams      *bridge.Handler
	upstreams    *upstream.Set
	counters     *filter.Counters
	certificates *tlsstore.Store
	monitor      *overload.Monitor
	limits       replicaLimits
	loops        *eventloop.Group // nil where goroutines serve the connections
	// lifetime is the context of connections. It ends with the Server.
	lifetime context.Context
	end      context.CancelFunc
	serving  sync.WaitGroup // what Run waits for

	mu sync.Mutex // serializes changes and guards what follows
	// book is the table that is served, with the rules of entry points.
	book *route.Index
	// applied is the part of it that came by Apply, nil before the first.
	applied *route.Table
	// parked are rules that conflict with others: they are added again when
	// they fit.
	parked map[route.ID]*route.Rule
	// tlsProblems are those that were logged.
	tlsProblems map[tlsstore.Problem]struct{}
	// refused are the rules whose policies could not be compiled in the current
	// change.
	refused []route.Problem
	// listeners are the open listeners of the table. They take connections while
	// running is set; once draining is set none is opened.
	listeners         openListeners
	relays            map[route.ListenerID]*openRelay // those for UDP
	datagrams         []datagramPoint                 // the entry points for UDP; New sets them
	running, draining bool
	// unopened are the listeners of the current change that could not be opened.
	unopened []route.Problem
}

// New opens the entry points. Connections wait in their queues until Run.
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
	hop, err := hopID(options.SharedSecret)
	if err != nil {
		return nil, err
	}
	config.Pool = pool
	config.Log = options.Log
	s := &Server{
		options: options, upstreams: upstream.NewSet(config), counters: filter.NewCounters(time.Now()),
		certificates: certificates, listeners: openListeners{byID: map[route.ListenerID]*openListener{}}, relays: map[route.ListenerID]*openRelay{},
		book: route.NewIndex(), parked: map[route.ID]*route.Rule{},
	}
	if options.Loops > 0 {
		if s.loops, err = eventloop.New(options.Loops); err != nil {
			return nil, err
		}
	}
	if err := s.setTicketKeys(time.Now()); err != nil {
		return nil, err
	}
	if err := s.shareLimits(ctx); err != nil {
		return nil, err
	}
	s.lifetime, s.end = context.WithCancel(context.WithoutCancel(ctx))
	firewall := waf.New(waf.Options{Log: options.Log, Observe: options.Metrics.observeInspection})
	s.proxy = proxy.New(proxy.Config{
		Pool:        pool,
		Upstreams:   s.upstreams,
		Counters:    s.counters,
		WAF:         firewall.Compile,
		Hop:         hop,
		Admit:       s.admit,
		Trace:       options.Trace,
		Observe:     s.observe,
		RuleRefused: s.noteRefused,
		Log:         options.Log,
	})
	s.monitor = overload.NewMonitor(options.MemoryLimit, s.setPressure)
	s.streams = &bridge.Handler{Serve: s.serveStream, Pool: pool, Limits: h1.DefaultLimits()}
	for i := range options.EntryPoints {
		open := s.open
		if options.EntryPoints[i].UDP {
			open = s.openDatagrams
		}
		if err := open(options.EntryPoints[i]); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.listeners.own = s.listening()
	s.upstreams.SetOwn(slices.Clone(s.listeners.own))
	if err := s.serveOptions(); err != nil {
		s.Close()
		return nil, err
	}
	options.Metrics.collect(s)
	return s, nil
}

// serveStream serves one request of HTTP/2 or HTTP/3.
func (s *Server) serveStream(stream bridge.Stream, conn net.Conn) {
	from, ok := acceptedFrom(stream.Context())
	from.Protocol = "HTTP/2"
	if !ok {
		from, ok = acceptedHTTP3(stream, conn)
		from.Protocol = "HTTP/3"
		ok = ok && !cutOff(stream.Context())
	}
	if !ok {
		conn.Close() // it was reset; a stream without a connection would be an internal error
		return
	}
	from.Gone = stream.Context()
	s.proxy.ServeStream(conn, from)
}

// yieldRounds is how often a request of HTTP/3 yields to other goroutines
// before it starts.
const yieldRounds = 3

// cutOff reports whether a request of HTTP/3 was reset right behind its head,
// as in a rapid-reset flood. It costs a backend nothing then, if the connection
// is read that far before the request is served. The server of HTTP/2 reads
// ahead by itself.
func cutOff(ctx context.Context) bool {
	for range yieldRounds {
		runtime.Gosched()
		if ctx.Err() != nil {
			return true
		}
	}
	return false
}

// observe reports an exchange that has ended to the metrics and to the
// observer.
func (s *Server) observe(r *proxy.Record) {
	s.options.Metrics.observe(r)
	if s.options.Observe != nil {
		s.options.Observe(r)
	}
}

// setPressure reacts to a change of the memory pressure.
func (s *Server) setPressure(level overload.Level) {
	s.options.Log.Warn("memory pressure changed", "level", level.String(), "limit", s.options.MemoryLimit)
	s.options.Metrics.pressure.Set(float64(level))
	s.proxy.SetPressure(level)
}

// Addresses are the addresses of the entry points for connections, in the order of the
// options.
func (s *Server) Addresses() []net.Addr {
	addresses := make([]net.Addr, len(s.points))
	for i, p := range s.points {
		addresses[i] = p.listener.Addr()
	}
	return addresses
}

// listening are the same addresses as values.
func (s *Server) listening() []netip.AddrPort {
	var own []netip.AddrPort
	for _, address := range s.Addresses() {
		if tcp, ok := address.(*net.TCPAddr); ok {
			own = append(own, tcp.AddrPort())
		}
	}
	return own
}

// Run serves until ctx is done, and then drains: for AcceptGrace everything
// goes on, then no more connections are accepted and open ones end after their
// current exchange, and after DrainTimeout the rest is closed.
func (s *Server) Run(ctx context.Context) error {
	for _, p := range s.points {
		s.serving.Go(p.accept)
		if p.h3 != nil {
			s.serving.Go(p.serveHTTP3)
		}
	}
	s.runListeners()
	s.serving.Go(func() { s.monitor.Run(s.lifetime) })
	s.serving.Go(func() { s.rotateTickets(s.lifetime) })
	s.serving.Go(s.exchangeLimits)
	s.sweep(ctx)
	s.drain()
	s.end()
	s.serving.Wait()
	s.proxy.Close()
	s.upstreams.Close()
	s.closeLoops()
	return nil
}

// closeLoops ends the event loops, whose connections have ended.
func (s *Server) closeLoops() {
	if s.loops != nil {
		s.loops.Close()
	}
}

// drain drains all entry points. The longest grace of them holds for all: a
// client that uses two of them must not lose one.
func (s *Server) drain() {
	points := append(slices.Clip(s.points), s.drainListeners()...)
	grace := time.Duration(0)
	for _, p := range points {
		grace = max(grace, p.AcceptGrace)
	}
	s.options.Log.Info("draining", "acceptGrace", grace)
	if grace > 0 {
		<-time.After(grace)
	}
	s.proxy.Drain()
	s.closeRelays()
	var draining sync.WaitGroup
	for _, p := range points {
		draining.Go(p.drain)
	}
	draining.Wait()
}

// sweep drops the counters of policies that have left the table, until ctx is
// done.
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

// policyIDs returns the identities of all policies of a table that have
// counters.
func policyIDs(table *route.Table) iter.Seq[route.PolicyID] {
	var ids []route.PolicyID
	if table != nil {
		for _, rule := range table.Rules {
			ids = slices.AppendSeq(ids, filter.PolicyIDs(rule.Policies))
		}
		for _, tcp := range table.TCPRoutes {
			ids = slices.AppendSeq(ids, filter.PolicyIDs(tcp.Policies))
		}
	}
	return slices.Values(ids)
}

// Close closes a Server that was not run.
func (s *Server) Close() {
	for _, p := range append(slices.Clip(s.points), s.drainListeners()...) {
		p.close()
	}
	s.closeRelays()
	if s.limits.exchange != nil {
		s.limits.exchange.Close()
	}
	s.end()
	s.proxy.Close()
	s.upstreams.Close()
	s.closeLoops()
}
