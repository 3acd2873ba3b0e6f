// Package edge is the data plane: it takes connections on entry points and
// answers their requests by a route.Table.
//
// Its parts, in the order in which a request meets them: listener (accepts),
// h1 and normalize (read a request in one spelling), program (finds the rule),
// filter (the rule's policies), proxy (the exchange itself), upstream (pools of
// connections to endpoints).
//
// A new table is built completely and then put in place by swapping one
// pointer; a table that cannot be built leaves the old one serving. Backends
// that come are made before the swap and those that go are dropped after it,
// so no request finds a rule without its backend.
package edge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// sweepPeriod is how often counts that nobody declares any more are looked for.
const sweepPeriod = time.Minute

// EntryPoint is an address that takes traffic.
type EntryPoint struct {
	Name    string
	Address string
}

// Options are what a Server needs.
type Options struct {
	EntryPoints []EntryPoint
	// AcceptGrace is how long connections are still taken after the stop began,
	// until load balancers have noticed. Default 5 s.
	AcceptGrace time.Duration
	// DrainTimeout is how long exchanges may then run on. Default 30 s.
	DrainTimeout time.Duration
	Metrics      *Metrics
	Log          *slog.Logger
}

// Defaults are safe without tuning. EntryPoints, Metrics and Log have none.
func Defaults() Options {
	return Options{AcceptGrace: 5 * time.Second, DrainTimeout: 30 * time.Second}
}

// Server serves tables.
type Server struct {
	options   Options
	listeners []*listener.Listener
	proxy     *proxy.Proxy
	upstreams *upstream.Set
	counters  *filter.Counters

	mu    sync.Mutex // one Apply at a time
	table *route.Table
}

// New opens the entry points. Connections wait there until Run.
func New(ctx context.Context, options Options) (*Server, error) {
	pool := &h1.BufferPool{}
	config := upstream.DefaultConfig()
	config.Pool = pool
	config.Log = options.Log
	s := &Server{options: options, upstreams: upstream.NewSet(config), counters: filter.NewCounters(time.Now())}
	s.proxy = proxy.New(proxy.Config{
		Pool:      pool,
		Limits:    h1.DefaultLimits(),
		Timeouts:  h1.DefaultTimeouts(),
		Upstreams: s.upstreams,
		Counters:  s.counters,
		Observe:   options.Metrics.observe,
		Log:       options.Log,
	})
	for _, point := range options.EntryPoints {
		opened, err := listener.Listen(context.WithoutCancel(ctx), listener.Config{
			Address: point.Address, Hooks: options.Metrics.hooks(point.Name),
		})
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("entry point %s: %w: choose another address with --entryPoints.%s.address", point.Name, err, point.Name)
		}
		s.listeners = append(s.listeners, opened)
	}
	return s, nil
}

// Addresses are those of the entry points, in the order of the options.
func (s *Server) Addresses() []net.Addr {
	addresses := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addresses[i] = l.Addr()
	}
	return addresses
}

// Apply puts a table in place. The table must not be changed afterwards. After
// an error the table before it goes on serving.
func (s *Server) Apply(table *route.Table) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	defer func() { s.options.Metrics.applied(time.Since(began), err) }()
	named := *table
	named.EntryPoints = s.entryPointNames()
	// A change says nothing about what it was made from: that no identity comes
	// twice, and that every reference leads somewhere, only the whole table shows.
	if problems := named.Validate(); len(problems) > 0 {
		return &route.InvalidError{Problems: problems}
	}
	change := route.Diff(s.table, &named)
	if s.table != nil && change.Empty() {
		return nil
	}
	// Compiling comes first: it may fail, and touches nothing that serves.
	next := s.proxy.Program()
	if next == nil {
		next, err = s.proxy.Compiler().Compile(&named)
	} else {
		next, err = next.Apply(&change)
	}
	if err != nil {
		return err
	}
	arriving := change
	arriving.Backends.Removed = nil
	s.upstreams.Apply(&arriving)
	s.proxy.Swap(next)
	s.table = &named
	leaving := route.Change{}
	leaving.Backends.Removed = change.Backends.Removed
	s.upstreams.Apply(&leaving)
	return nil
}

func (s *Server) entryPointNames() []string {
	names := make([]string, len(s.options.EntryPoints))
	for i, point := range s.options.EntryPoints {
		names[i] = point.Name
	}
	slices.Sort(names)
	return names
}

// Run serves until ctx is done, and then drains: for AcceptGrace everything
// goes on, then no connection is taken any more and those that are open end
// after the exchange they are in, and what is left after DrainTimeout is cut.
func (s *Server) Run(ctx context.Context) error {
	var accepting sync.WaitGroup
	for i, l := range s.listeners {
		accepting.Go(func() { s.accept(l, s.options.EntryPoints[i].Name) })
	}
	s.sweep(ctx)
	s.options.Log.Info("draining", "acceptGrace", s.options.AcceptGrace, "timeout", s.options.DrainTimeout)
	if s.options.AcceptGrace > 0 {
		<-time.After(s.options.AcceptGrace)
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.DrainTimeout)
	defer cancel()
	s.proxy.Drain()
	var draining sync.WaitGroup
	for i, l := range s.listeners {
		draining.Go(func() {
			report := l.Drain(deadline, nil)
			s.options.Log.Info("entry point is drained", "entryPoint", s.options.EntryPoints[i].Name, "closed", report.Closed, "cut", report.Forced)
		})
	}
	draining.Wait()
	accepting.Wait()
	s.upstreams.Close()
	return nil
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
			s.mu.Lock()
			table := s.table
			s.mu.Unlock()
			s.counters.Keep(policyIDs(table), now)
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
	}
}

// accept serves each connection in a goroutine of its own.
func (s *Server) accept(l *listener.Listener, entryPoint string) {
	for {
		conn, err := l.AcceptConn()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.options.Log.Error("an entry point stopped accepting", "entryPoint", entryPoint, "error", err)
			}
			return
		}
		from := proxy.Accepted{EntryPoint: entryPoint, Client: addrPort(conn.RemoteAddr()), Local: addrPort(conn.LocalAddr())}
		go s.proxy.ServeHTTP1(conn, from)
	}
}

// Close gives up a Server that is not run.
func (s *Server) Close() {
	for _, l := range s.listeners {
		l.Close()
	}
	s.upstreams.Close()
}

func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort()
	}
	return netip.AddrPort{}
}
