package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
)

// restingEdge is a Proxy behind a listener, whose connections can rest.
type restingEdge struct {
	*edge
	address string
	client  *tls.Config // nil without TLS
}

// startListening serves responses with the target of the request, with or without
// TLS.
func startListening(t *testing.T, secure bool, options ...func(*proxy.Config)) *restingEdge {
	t.Helper()
	backend := edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	e := &restingEdge{edge: start(t, edgetest.Table([]netip.AddrPort{backend}), options...)}
	var server *tls.Config
	if secure {
		authority := pkitest.NewAuthority(t)
		server = &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "app.test").TLS(t)}}
		e.client = &tls.Config{ServerName: "app.test", RootCAs: authority.Pool}
	}
	l := must.Get(listener.Listen(t.Context(), listener.Config{Address: "127.0.0.1:0"}))(t)
	e.address = l.Addr().String()
	go func() {
		for conn, err := l.AcceptConn(); err == nil; conn, err = l.AcceptConn() {
			go e.serve(conn, server)
		}
	}()
	t.Cleanup(func() {
		e.Drain()
		l.Drain(context.Background(), nil)
	})
	return e
}

func (e *restingEdge) serve(conn *listener.Conn, config *tls.Config) {
	from := edgetest.Accepted(conn, proxy.Accepted{TLS: config != nil})
	if config == nil {
		e.ServeHTTP1(conn, from)
		return
	}
	secured := tls.Server(conn, config)
	if secured.Handshake() != nil || secured.SetDeadline(time.Time{}) != nil {
		conn.Close()
		return
	}
	e.ServeHTTP1(secured, from)
}

// dial connects, and returns the connection below TLS too.
func (e *restingEdge) dial(t *testing.T) (conn, below net.Conn) {
	t.Helper()
	below = must.Get(net.Dial("tcp", e.address))(t)
	t.Cleanup(func() { below.Close() })
	if e.client == nil {
		return below, below
	}
	return tls.Client(below, e.client), below
}

// requireResting waits until so many connections rest.
func (e *restingEdge) requireResting(t *testing.T, want int) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); e.Resting() != want; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatalf("%d connections rest, want %d", e.Resting(), want)
		}
	}
}

// TestRest leaves connections alone until they rest: they serve later requests as
// before, also those that come together, and a drain closes them.
func TestRest(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startListening(t, secure)
			conn, _ := e.dial(t)
			w := edgetest.NewWire(t, conn)
			for i := range 3 {
				path := fmt.Sprintf("/%d", i)
				if _, body := w.Get(path); body != path {
					t.Fatalf("got %q, want %q", body, path)
				}
				if i == 0 {
					e.requireResting(t, 1)
				}
			}
			// Its client sent one request after the other, so it rests only after a while.
			e.requireResting(t, 1)
			const request = "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
			w.Send(fmt.Sprintf(request+request+request, 1, 2, 3))
			for i := range 3 {
				if _, body := w.Response("GET"); body != fmt.Sprintf("/%d", i+1) {
					t.Errorf("got %q as response %d", body, i+1)
				}
			}
			e.requireResting(t, 1)
			w.Send("GET /1 HTTP/1.1\r\n")
			e.requireResting(t, 0)
			w.Send("Host: x\r\n\r\n")
			if _, body := w.Response("GET"); body != "/1" {
				t.Errorf("got %q for a request in two parts", body)
			}
			e.requireResting(t, 1)
			e.Drain()
			w.RequireClosed()
			e.requireResting(t, 0)
		})
	}
}

// TestRestEndsWithTheIdleTimeout closes a connection that rests for too long, and one
// whose client is gone.
func TestRestEndsWithTheIdleTimeout(t *testing.T) {
	e := startListening(t, true, func(c *proxy.Config) { c.Timeouts.Idle = 20 * time.Millisecond })
	conn, _ := e.dial(t)
	w := edgetest.NewWire(t, conn)
	w.Get("/")
	w.RequireClosed()
	e.requireResting(t, 0)

	e = startListening(t, true)
	conn, below := e.dial(t)
	edgetest.NewWire(t, conn).Get("/")
	e.requireResting(t, 1)
	below.Close()
	e.requireResting(t, 0)
}

// TestRestingMemory bounds the memory of a connection that rests, with the socket of
// its client, which is in the same process.
func TestRestingMemory(t *testing.T) {
	const clients = 200
	for name, test := range map[string]struct {
		secure bool
		most   int64
	}{"plain": {false, 8 << 10}, "TLS": {true, 24 << 10}} {
		t.Run(name, func(t *testing.T) {
			e := startListening(t, test.secure)
			open := func(n int) {
				for range n {
					conn, _ := e.dial(t)
					must.Get(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
					response := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
					must.Get(io.Copy(io.Discard, response.Body))(t)
				}
			}
			open(10)
			before := memoryInUse()
			open(clients)
			e.requireResting(t, clients+10)
			if each := (memoryInUse() - before) / clients; each > test.most {
				t.Errorf("a resting connection takes %d bytes, more than %d", each, test.most)
			} else {
				t.Logf("%d bytes", each)
			}
		})
	}
}

// memoryInUse is the memory of objects and of goroutines.
func memoryInUse() int64 {
	for range 3 { // pools are emptied, and stacks shrink
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}
