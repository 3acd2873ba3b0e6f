package edge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a Server that serves until the end of the test.
type running struct {
	*edge.Server
	address string
	stop    func() // drains, and returns when nothing is left
}

// start serves a table on a free port. A stop begins to drain at once.
func start(t *testing.T, table *route.Table) *running {
	t.Helper()
	return startAt(t, table, edge.DefaultEntryPoint("web", "127.0.0.1:0"))
}

// startAt serves a table on entry points.
func startAt(t *testing.T, table *route.Table, points ...edge.EntryPoint) *running {
	t.Helper()
	return startWith(t, table, edge.Options{}, points...)
}

// startWith is startAt with options of its own.
func startWith(t *testing.T, table *route.Table, options edge.Options, points ...edge.EntryPoint) *running {
	t.Helper()
	for i := range points {
		points[i].AcceptGrace = 0
	}
	options.EntryPoints = points
	options.Metrics = edge.NewMetrics(prometheus.NewRegistry(), points)
	options.Log = slog.New(slog.DiscardHandler)
	server, err := edge.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Apply(table); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	done := false
	stop := func() {
		if done {
			return
		}
		done = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	return &running{Server: server, address: server.Addresses()[0].String(), stop: stop}
}

// backend serves a handler on loopback and gives its address.
func backend(t *testing.T, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).AddrPort()
}

// tableFor sends everything to the endpoints.
func tableFor(endpoints ...netip.AddrPort) *route.Table {
	id := route.BackendID{Name: "app", Port: 80}
	b := &route.Backend{ID: id}
	for _, address := range endpoints {
		b.Endpoints = append(b.Endpoints, route.Endpoint{Address: address})
	}
	return &route.Table{
		Backends: []*route.Backend{b},
		Rules: []*route.Rule{{
			ID: route.ID{Name: "app"}, Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}},
			Backends: []route.BackendRef{{Backend: id}},
		}},
	}
}

// wire is a connection on which a test says exactly what it wants to say.
type wire struct {
	net.Conn
	t    *testing.T
	read *bufio.Reader
}

func dial(t *testing.T, address string) *wire {
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

// closed fails the test unless the other side has closed the connection.
func (w *wire) closed() {
	w.t.Helper()
	if b, err := w.read.ReadByte(); err != io.EOF {
		w.t.Errorf("got byte %q and %v, want a closed connection", b, err)
	}
}

// echo answers with what arrived: method, target, body and headers.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", r.Method, r.RequestURI, body)
	for name, values := range r.Header {
		for _, value := range values {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	_, _ = io.WriteString(w, b.String())
}
