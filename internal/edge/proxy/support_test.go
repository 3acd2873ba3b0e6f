package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// edge is a Proxy on a loopback port.
type edge struct {
	*proxy.Proxy
	address   string
	upstreams *upstream.Set
	accepted  sync.WaitGroup
}

// start serves a table until the end of the test. Options change the
// configuration first.
func start(t testing.TB, table *route.Table, options ...func(*proxy.Config)) *edge {
	t.Helper()
	return startFrom(t, table, proxy.Accepted{}, options...)
}

// startFrom serves connections that came as from says; the two ends of each
// are filled in.
func startFrom(t testing.TB, table *route.Table, from proxy.Accepted, options ...func(*proxy.Config)) *edge {
	t.Helper()
	if problems := table.Validate(); len(problems) > 0 {
		t.Fatal(&route.InvalidError{Problems: problems})
	}
	pool := &h1.BufferPool{}
	upstreams := upstream.DefaultConfig()
	upstreams.Pool = pool
	e := &edge{upstreams: upstream.NewSet(upstreams)}
	config := proxy.Config{
		Pool: pool, Limits: h1.DefaultLimits(), Timeouts: h1.DefaultTimeouts(),
		Upstreams: e.upstreams, Counters: filter.NewCounters(time.Now()), Log: slog.New(slog.DiscardHandler),
	}
	for _, option := range options {
		option(&config)
	}
	e.Proxy = proxy.New(config)
	e.apply(t, table)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.address = listener.Addr().String()
	e.accepted.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			from := from
			from.EntryPoint = "web"
			from.Client, from.Local = conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort()
			e.accepted.Go(func() { e.ServeHTTP1(conn, from) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		e.Drain()
		e.accepted.Wait()
		e.Close()
		e.upstreams.Close()
	})
	return e
}

// rest ends all connections and waits until nothing of them is left.
func (e *edge) rest() {
	e.Drain()
	for e.Clients() > 0 {
		runtime.Gosched()
	}
}

// apply compiles a table and puts it in place.
func (e *edge) apply(t testing.TB, table *route.Table) {
	t.Helper()
	named := *table
	named.EntryPoints = []string{"web"}
	change := route.Diff(nil, &named)
	e.upstreams.Apply(&change)
	compiled, err := e.Compiler().Compile(&named)
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(compiled)
}

// serve runs a handler on loopback and gives its address.
func serve(t testing.TB, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).AddrPort()
}

// raw serves connections on loopback as a test says, byte by byte, and waits for
// them at the end.
func raw(t testing.TB, handle func(conn net.Conn, read *bufio.Reader)) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				if conn.SetDeadline(time.Now().Add(20*time.Second)) == nil {
					handle(conn, bufio.NewReader(conn))
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

// nobody is an address where nothing listens.
func nobody(t testing.TB) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

func backendID(name string) route.BackendID { return route.BackendID{Name: name, Port: 80} }

// tableOf sends everything to the backend app, by the policies. The endpoints
// of other backends follow by name.
func tableOf(endpoints []netip.AddrPort, policies ...route.Policy) *route.Table {
	table := &route.Table{Rules: []*route.Rule{{
		ID: route.ID{Name: "app"}, Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}},
		Backends: []route.BackendRef{{Backend: backendID("app")}}, Policies: policies,
	}}}
	return with(table, "app", endpoints...)
}

// with adds a backend to a table.
func with(table *route.Table, name string, endpoints ...netip.AddrPort) *route.Table {
	b := &route.Backend{ID: backendID(name)}
	for _, address := range endpoints {
		b.Endpoints = append(b.Endpoints, route.Endpoint{Address: address})
	}
	table.Backends = append(table.Backends, b)
	return table
}

// wire is a connection on which a test says exactly what it wants to say.
type wire struct {
	net.Conn
	t    testing.TB
	read *bufio.Reader
}

func dial(t testing.TB, address string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &wire{Conn: conn, t: t, read: bufio.NewReader(conn)}
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		w.t.Fatal(err)
	}
}

// answer reads a response to a request with the method.
func (w *wire) answer(method string) (*http.Response, string) {
	w.t.Helper()
	response, err := http.ReadResponse(w.read, &http.Request{Method: method})
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response, string(body)
}

// get asks for a path, with more header lines.
func (w *wire) get(path string, lines ...string) (*http.Response, string) {
	w.t.Helper()
	w.send("GET " + path + " HTTP/1.1\r\nHost: shop.example\r\n" + strings.Join(append(lines, "", ""), "\r\n"))
	return w.answer("GET")
}

// post sends a body of known length, with more header lines.
func (w *wire) post(path, body string, lines ...string) (*http.Response, string) {
	w.t.Helper()
	lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)), "", body)
	w.send("POST " + path + " HTTP/1.1\r\nHost: shop.example\r\n" + strings.Join(lines, "\r\n"))
	return w.answer("POST")
}

// closed fails the test unless the other side has closed the connection.
func (w *wire) closed() {
	w.t.Helper()
	if b, err := w.read.ReadByte(); err != io.EOF {
		w.t.Errorf("got byte %q and %v, want a closed connection", b, err)
	}
}

// echo answers with what arrived: method, target, body, headers and trailers.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\nHost: %s\nLength: %d\n", r.Method, r.RequestURI, body, r.Host, r.ContentLength)
	for name, values := range r.Header {
		for _, value := range values {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	for name, values := range r.Trailer {
		for _, value := range values {
			fmt.Fprintf(&b, "trailer %s: %s\n", name, value)
		}
	}
	_, _ = io.WriteString(w, b.String())
}
