// Package edgetest serves tables to tests of the edge: a proxy on a port,
// backends, and connections on which a test sends exactly the bytes it wants.
// It may be imported from _test.go files only.
package edgetest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// EntryPoint is the entry point of every connection.
const EntryPoint = "web"

// Proxy is a proxy on a loopback port, without listeners and TLS.
type Proxy struct {
	*proxy.Proxy
	Address   string
	Upstreams *upstream.Set
}

// StartProxy serves a table until the end of the test. Options change the
// configuration first. Connections are as in from; the two ends of each are
// filled in.
func StartProxy(t testing.TB, table *route.Table, from proxy.Accepted, options ...func(*proxy.Config)) *Proxy {
	t.Helper()
	if problems := table.Validate(); len(problems) > 0 {
		t.Fatal(&route.InvalidError{Problems: problems})
	}
	pool := &h1.BufferPool{}
	upstreams := upstream.DefaultConfig()
	upstreams.Pool = pool
	p := &Proxy{Upstreams: upstream.NewSet(upstreams)}
	config := proxy.Config{
		Pool: pool, Limits: h1.DefaultLimits(), Timeouts: h1.DefaultTimeouts(),
		Upstreams: p.Upstreams, Counters: filter.NewCounters(time.Now()), Log: slog.New(slog.DiscardHandler),
	}
	for _, option := range options {
		option(&config)
	}
	p.Proxy = proxy.New(config)
	p.Apply(t, table)
	// Cleanups run in reverse: the proxy drains, its connections end, and only
	// then is it closed. The loops end after that: connections to endpoints are theirs.
	var loops *eventloop.Group
	if count := Loops(); count > 0 {
		loops = startLoops(t, count)
	}
	t.Cleanup(func() {
		p.Close()
		p.Upstreams.Close()
	})
	serve := func(conn net.Conn) { p.ServeHTTP1(conn, Accepted(conn, from)) }
	if loops != nil {
		p.Address = serveOn(t, loops, config.Timeouts.Head, serve)
	} else {
		p.Address = programs.Serve(t, "", serve).String()
	}
	t.Cleanup(p.Drain)
	return p
}

// Loops is the number of event loops of the edges of tests. EDGE_LOOPS=0 tests goroutines.
func Loops() int {
	if count, err := strconv.Atoi(os.Getenv("EDGE_LOOPS")); err == nil {
		return count
	}
	return 2
}

// ServeOnLoops serves connections by event loops as the edge does, until the end of the test, and
// returns the address.
func ServeOnLoops(t testing.TB, count int, headTimeout time.Duration, serve func(net.Conn)) string {
	t.Helper()
	return serveOn(t, startLoops(t, count), headTimeout, serve)
}

// startLoops starts event loops that end with the test.
func startLoops(t testing.TB, count int) *eventloop.Group {
	t.Helper()
	loops := must.Get(eventloop.New(count))(t)
	t.Cleanup(loops.Close)
	return loops
}

func serveOn(t testing.TB, loops *eventloop.Group, headTimeout time.Duration, serve func(net.Conn)) string {
	t.Helper()
	l := must.Get(listener.Listen(context.Background(), listener.Config{
		Address: "127.0.0.1:0", Loops: loops, HeaderTimeout: headTimeout,
	}))(t)
	var serving sync.WaitGroup
	serving.Go(func() { l.Serve(func(conn *listener.Conn) { serve(conn) }) })
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel() // the proxy has drained
		l.Drain(over, nil)
		serving.Wait()
	})
	return l.Addr().String()
}

// Accepted describes a connection to the entry point.
func Accepted(conn net.Conn, from proxy.Accepted) proxy.Accepted {
	from.EntryPoint = EntryPoint
	from.Client, from.Local = conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort()
	return from
}

// Apply compiles a table and puts it in place.
func (p *Proxy) Apply(t testing.TB, table *route.Table) {
	t.Helper()
	named := *table
	named.EntryPoints = []string{EntryPoint}
	change := route.Diff(nil, &named)
	p.Upstreams.Apply(&change)
	compiled := must.Get(p.Compiler().Compile(&named))(t)
	p.Swap(compiled)
}

// Backend runs a handler on loopback and returns its address.
func Backend(t testing.TB, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).AddrPort()
}

// Table sends everything to the backend app at the endpoints, by the policies.
func Table(endpoints []netip.AddrPort, policies ...route.Policy) *route.Table {
	table := &route.Table{Rules: []*route.Rule{{
		ID: route.ID{Name: "app"}, Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}},
		Backends: []route.BackendRef{{Backend: BackendID("app")}}, Policies: policies,
	}}}
	return AddBackend(table, "app", endpoints...)
}

// BackendID is the identity of a backend by its name.
func BackendID(name string) route.BackendID { return route.BackendID{Name: name, Port: 80} }

// AddBackend adds a backend to a table, and returns the table.
func AddBackend(table *route.Table, name string, endpoints ...netip.AddrPort) *route.Table {
	backend := &route.Backend{ID: BackendID(name)}
	for _, address := range endpoints {
		backend.Endpoints = append(backend.Endpoints, route.Endpoint{Address: address})
	}
	table.Backends = append(table.Backends, backend)
	return table
}

// Echo responds with what arrived: method, target, body, headers and trailers.
func Echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %s %s\nHost: %s\nLength: %d\n", r.Method, r.RequestURI, body, r.Host, r.ContentLength)
	for prefix, fields := range map[string]http.Header{"": r.Header, "trailer ": r.Trailer} {
		for name, values := range fields {
			for _, value := range values {
				fmt.Fprintf(w, "%s%s: %s\n", prefix, name, value)
			}
		}
	}
}
