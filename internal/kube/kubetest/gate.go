package kubetest

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

// Connect opens a connection of its own to the cluster, as a program does that
// gets the kubeconfig. It is closed at the end of the test.
func (c *Cluster) Connect(t testing.TB, options ...kube.Option) *kube.Cluster {
	t.Helper()
	connected := must.Get(kube.ConnectAs(kube.ConnectOptions{Environ: func(name string) string {
		return map[string]string{"KUBECONFIG": c.Kubeconfig}[name]
	}}, options...))(t)
	t.Cleanup(connected.Close)
	return connected
}

// Send sends a request to the API server.
type Send func(*http.Request) (*http.Response, error)

// Gate is between a connection and the API server. It records the requests,
// lets a test respond to them, and can cut the connection. The zero value
// lets everything pass. mu guards the fields.
type Gate struct {
	mu     sync.Mutex
	sent   []string
	handle func(*http.Request, Send) (*http.Response, error)
	closed bool
	conns  []net.Conn
}

// Option puts the gate before the API server.
func (g *Gate) Option(config *rest.Config) {
	config.Dial = g.dial
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return gated{g, next} })
}

// dial connects unless the gate is closed.
func (g *Gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		g.conns = append(g.conns, conn)
	}
	return conn, err
}

// Close cuts every connection and refuses new ones: to the API server that is
// a client that was killed, and to the client a server that is away.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, conn := range g.conns {
		_ = conn.Close() // it may be closed already
	}
	g.conns = nil
}

// Open lets connections pass again.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}

// Handle has a function respond to every request, which can send it on; nil
// sends all.
func (g *Gate) Handle(handle func(*http.Request, Send) (*http.Response, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handle = handle
}

// Requests returns the requests that contain all parts, as method and URI.
func (g *Gate) Requests(parts ...string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []string
	for _, line := range g.sent {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			found = append(found, line)
		}
	}
	return found
}

// Take returns all requests since the last call.
func (g *Gate) Take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.sent
	g.sent = nil
	return taken
}

// gated is the transport of a connection with a gate.
type gated struct {
	*Gate
	next http.RoundTripper
}

// RoundTrip records a request and passes it on.
func (g gated) RoundTrip(request *http.Request) (*http.Response, error) {
	g.mu.Lock()
	g.sent = append(g.sent, request.Method+" "+request.URL.RequestURI())
	handle := g.handle
	g.mu.Unlock()
	if handle != nil {
		return handle(request, g.next.RoundTrip)
	}
	return g.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go close idle connections.
func (g gated) WrappedRoundTripper() http.RoundTripper { return g.next }
