package tracing_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tracing"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// tracedProxy serves connections of a listener with a Tracer until the end of
// the test, and gives its address.
func tracedProxy(t *testing.T, table *route.Table, tracer *tracing.Tracer) string {
	t.Helper()
	pool := &h1.BufferPool{}
	upstreams := upstream.NewSet(upstream.Config{Pool: pool})
	change := route.Diff(nil, table)
	upstreams.Apply(&change)
	p := proxy.New(proxy.Config{
		Pool: pool, Limits: h1.DefaultLimits(), Timeouts: h1.DefaultTimeouts(), Upstreams: upstreams,
		Counters: filter.NewCounters(time.Now()), Log: slog.New(slog.DiscardHandler),
		Trace: tracer.Trace, Observe: tracer.Observe,
	})
	var compiled *program.Program
	compiled, err := p.Compiler().Compile(table)
	if err != nil {
		t.Fatal(err)
	}
	p.Swap(compiled)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			from := proxy.Accepted{EntryPoint: "web", Client: conn.RemoteAddr().(*net.TCPAddr).AddrPort(), Local: conn.LocalAddr().(*net.TCPAddr).AddrPort()}
			serving.Go(func() { p.ServeHTTP1(conn, from) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.Drain()
		serving.Wait()
		upstreams.Close()
	})
	return listener.Addr().String()
}

// get asks for a path on a connection and gives the status.
func get(t *testing.T, conn net.Conn, answers *bufio.Reader, path string) int {
	t.Helper()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n"+sampled+"\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// TestThroughProxy: requests over real connections, to a backend that answers,
// to one that is not there, and to no rule.
func TestThroughProxy(t *testing.T) {
	parents := make(chan string, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		parents <- strings.Join(r.Header.Values("Traceparent"), " and ")
	}))
	defer backend.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	rule := func(path string, address net.Addr) (*route.Rule, *route.Backend) {
		id := route.BackendID{Name: path[1:], Port: 80}
		return &route.Rule{
			ID: route.ID{Name: path[1:]}, Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: path}}, Backends: []route.BackendRef{{Backend: id}},
		}, &route.Backend{ID: id, Endpoints: []route.Endpoint{{Address: netip.MustParseAddrPort(address.String())}}}
	}
	fine, fineBackend := rule("/fine", backend.Listener.Addr())
	dead, deadBackend := rule("/dead", gone.Addr())
	r := newReceiver(t)
	o := options(r)
	o.Continue = tracing.ContinueEveryone
	tracer := newTracer(t, o)
	address := tracedProxy(t, &route.Table{Rules: []*route.Rule{fine, dead}, Backends: []*route.Backend{fineBackend, deadBackend}}, tracer)

	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for _, c := range []struct {
		path   string
		status int
	}{{"/fine", 200}, {"/dead", 502}, {"/none", 404}} {
		if got := get(t, conn, answers, c.path); got != c.status {
			t.Errorf("%s: %d", c.path, got)
		}
	}
	// The last exchange is over when the next request has been refused.
	if _, err := io.WriteString(conn, "BAD\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, answers); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	closeTracer(t, tracer)

	statuses := map[string]string{}
	for _, span := range r.of(server) {
		got := texts(span.Attributes)
		statuses[got["url.path"]] = got["http.response.status_code"]
		if got["url.path"] != "" && (hexID(span.TraceId) != traceID || hexID(span.ParentSpanId) != spanID) {
			t.Errorf("%s is not part of the trace", got["url.path"])
		}
	}
	if len(statuses) != 4 || statuses["/fine"] != "200" || statuses["/dead"] != "502" || statuses["/none"] != "404" || statuses[""] != "400" {
		t.Errorf("server spans: %v", statuses)
	}
	clients := r.of(client)
	if len(clients) != 2 {
		t.Fatalf("%d client spans", len(clients))
	}
	if got, want := <-parents, "00-"+traceID+"-"+hexID(clients[0].SpanId)+"-01"; got != want {
		t.Errorf("the backend got %s, want %s", got, want)
	}
	if got := texts(clients[1].Attributes); got["error.type"] != "no_response" || got["slipway.backend"] != "dead:80" {
		t.Errorf("the backend that is gone: %v", got)
	}
}
