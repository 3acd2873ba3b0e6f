package upstream_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every wait of a test. It is never waited for when the code
// is right.
const testTimeout = 30 * time.Second

// shop is the backend of most tests.
var shop = route.BackendID{Namespace: "shop", Name: "cart", Port: 80}

// world is a table and the Set that follows it.
type world struct {
	*upstream.Set
	table *route.Table
}

func newWorld(t testing.TB, cfg upstream.Config) *world {
	t.Helper()
	w := &world{Set: upstream.NewSet(cfg), table: &route.Table{}}
	t.Cleanup(w.Close)
	return w
}

// become makes another table the current one.
func (w *world) become(table *route.Table) {
	change := route.Diff(w.table, table)
	w.table = table
	w.Apply(&change)
}

// serve makes a table with one backend the current one.
func (w *world) serve(backend *route.Backend) {
	w.become(&route.Table{Backends: []*route.Backend{backend}})
}

// cart is the backend shop with endpoints at addresses.
func cart(addresses ...string) *route.Backend {
	b := &route.Backend{ID: shop}
	for _, address := range addresses {
		b.Endpoints = append(b.Endpoints, route.Endpoint{Address: netip.MustParseAddrPort(address)})
	}
	return b
}

// pods are addresses that no test connects to.
func pods(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("10.0.%d.%d:8080", i/250, i%250+1)
	}
	return list
}

// pick fails the test when there is nothing to pick.
func pick(t testing.TB, h *upstream.Handle, choice upstream.PickOptions) upstream.Lease {
	t.Helper()
	lease, err := h.Pick(choice)
	if err != nil {
		t.Fatalf("pick: %v", err)
	}
	return lease
}

// connect fails the test when there is no connection.
func connect(t testing.TB, lease *upstream.Lease) *upstream.Conn {
	t.Helper()
	conn, err := lease.Connect(t.Context(), testTimeout, false)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return conn
}

// get makes one request on a connection and returns the header Peer of the
// response: the connection as its other end sees it.
func get(t testing.TB, conn *upstream.Conn) string {
	t.Helper()
	if _, err := conn.Writer.Write([]byte("GET / HTTP/1.1\r\nHost: cart\r\n\r\n")); err != nil {
		t.Fatalf("write: %v", err)
	}
	var head h1.ResponseHead
	if err := conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits); err != nil {
		t.Fatalf("read: %v", err)
	}
	if head.Status != http.StatusNoContent || !head.Reusable {
		t.Fatalf("status %d, reusable %v; want 204 and true", head.Status, head.Reusable)
	}
	peer, ok := head.Find("peer")
	if !ok {
		t.Fatal("the answer has no header Peer")
	}
	return string(peer)
}

// roundTrip is a whole request. It returns what get returns.
func roundTrip(t testing.TB, h *upstream.Handle) string {
	t.Helper()
	lease := pick(t, h, upstream.PickOptions{})
	conn := connect(t, &lease)
	peer := get(t, conn)
	conn.Release()
	lease.Done(upstream.OK)
	return peer
}

// pod is a backend that responds with 204 and reports its closed connections.
type pod struct {
	address string
	closed  chan string // what get returned for it
	server  *http.Server
	running sync.WaitGroup
}

// runPod serves on a loopback address, until the end of the test or stop.
func runPod(t testing.TB, listener net.Listener) *pod {
	t.Helper()
	p := &pod{address: listener.Addr().String(), closed: make(chan string, 64)}
	p.server = &http.Server{
		ErrorLog: log.New(io.Discard, "", 0), // handshakes that should fail do
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Peer", r.RemoteAddr)
			w.WriteHeader(http.StatusNoContent)
		}),
		ConnState: func(conn net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				p.running.Add(1)
			case http.StateClosed:
				select {
				case p.closed <- conn.RemoteAddr().String():
				default:
				}
				p.running.Done()
			}
		},
	}
	p.running.Go(func() { _ = p.server.Serve(listener) })
	t.Cleanup(p.stop)
	return p
}

func (p *pod) stop() {
	_ = p.server.Close()
	p.running.Wait()
}

func newPod(t testing.TB) *pod {
	t.Helper()
	return runPod(t, listen(t, "127.0.0.1:0"))
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	return must.Get(net.Listen("tcp", address))(t)
}

// script is a backend that plays one function for each connection, in order.
func script(t testing.TB, plays ...func(net.Conn)) string {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	var running sync.WaitGroup
	running.Go(func() {
		for _, play := range plays {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(testTimeout))
			running.Go(func() {
				defer conn.Close()
				play(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// state is what the Set reports about the only backend's endpoint.
func (w *world) state(t testing.TB, address string) upstream.EndpointState {
	t.Helper()
	for _, backend := range w.Snapshot() {
		for _, endpoint := range backend.Endpoints {
			if endpoint.Address == address {
				return endpoint
			}
		}
	}
	t.Fatalf("no endpoint %s", address)
	panic("not reached")
}
