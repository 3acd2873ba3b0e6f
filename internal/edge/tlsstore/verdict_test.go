package tlsstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// handshake makes a connection in memory and gives the server's record of it.
func handshake(t testing.TB, store *tlsstore.Store, sni string, certificates ...tls.Certificate) *tlsstore.Handshake {
	t.Helper()
	h, err := tryHandshake(store, sni, certificates...)
	if err != nil {
		t.Fatalf("handshake for %q: %v", sni, err)
	}
	return h
}

func tryHandshake(store *tlsstore.Store, sni string, certificates ...tls.Certificate) (*tlsstore.Handshake, error) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	ctx, cancel := context.WithTimeout(tlsstore.WithHandshake(context.Background()), testTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		client := tls.Client(near, &tls.Config{ServerName: sni, InsecureSkipVerify: true, Certificates: certificates})
		err := client.HandshakeContext(ctx)
		_, _ = io.Copy(io.Discard, client)
		done <- err
	}()
	server := tls.Server(far, store.ServerConfig())
	err := server.HandshakeContext(ctx)
	far.Close()
	<-done
	return tlsstore.HandshakeFrom(ctx), err
}

func TestVerdictBySpelling(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{
		hostOptions("mtls", "mtls.example", clientAuth(ca)),
		hostOptions("wild", "*.mtls.example", clientAuth(ca)),
		hostOptions("own", "own.mtls.example", tlsstore.Options{}),
	}})
	open := handshake(t, store, "open.example")
	closed := handshake(t, store, "mtls.example", ca.client(t))
	if got := closed.ServerName(); got != "mtls.example" {
		t.Errorf("the server name is %q", got)
	}

	const open1, closed1, neither = "open", "closed", "neither"
	for _, tt := range []struct{ host, servedOn string }{
		{"open.example", open1}, {"OPEN.example.", open1}, {"open.example:443", open1},
		{"", open1}, {"127.0.0.1", open1}, {"127.0.0.1:443", open1}, {"[::1]", open1}, {"[::1]:443", open1}, {"::1", open1},
		{"0x7f.1", open1},
		{"own.mtls.example", open1}, {"a.b.mtls.example", open1}, {"*.other.example", open1},
		{"mtls.example", closed1}, {"MTLS.example", closed1}, {"mtls.example.", closed1}, {"mtls.example:443", closed1},
		{"Mtls.Example.:8443", closed1}, {"mtls.example:", closed1}, {"a.mtls.example", closed1}, {"A.MTLS.EXAMPLE.:1", closed1},
		{"*.mtls.example", closed1}, {"*.MTLS.example.", closed1},
		{"mtls.example..", neither}, {".mtls.example", neither}, {"mtls..example", neither}, {" mtls.example", neither},
		{"mtls.example\x00", neither}, {"mtls%2eexample", neither}, {"mtls.example:443:443", neither}, {"mtls.example:x", neither},
		{"mtls.example:443x", neither}, {"user@mtls.example", neither}, {"mtls.example/", neither}, {"[mtls.example]", neither},
		{"[::1]mtls.example", neither}, {"[::1", neither}, {"*.*.mtls.example", neither}, {"*", neither}, {".", neither}, {"\u212amtls.example", neither},
	} {
		for name, conn := range map[string]*tlsstore.Handshake{open1: open, closed1: closed} {
			want := tlsstore.Misdirected
			if name == tt.servedOn {
				want = tlsstore.Serve
			}
			if got := store.Decide(conn, tt.host); got != want {
				t.Errorf("host %q on the %s connection: %s, want %s", tt.host, name, got, want)
			}
		}
		if got := store.PlaintextAllowed(tt.host); got != (tt.servedOn == open1) {
			t.Errorf("host %q without TLS: %t", tt.host, got)
		}
	}
}

func TestVerdictWithoutRecord(t *testing.T) {
	t.Parallel()
	store := newStore(t, tlsstore.Config{})
	empty := tlsstore.HandshakeFrom(tlsstore.WithHandshake(context.Background()))
	for _, h := range []*tlsstore.Handshake{nil, empty} {
		if got := store.Decide(h, "a.example"); got != tlsstore.Misdirected {
			t.Errorf("the verdict without a handshake is %s", got)
		}
	}
	if tlsstore.HandshakeFrom(context.Background()) != nil {
		t.Error("a context without a handshake has one")
	}
}

// TestVerdictOnSharedRecord uses one record for two connections, which is a
// mistake of the caller; it must not let one pass for the other.
func TestVerdictOnSharedRecord(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{hostOptions("mtls", "mtls.example", clientAuth(ca))}})
	ctx := tlsstore.WithHandshake(context.Background())
	for _, sni := range []string{"open.example", "mtls.example"} {
		far, near := net.Pipe()
		failed := make(chan error, 1)
		go func() { failed <- tls.Server(far, store.ServerConfig()).HandshakeContext(ctx) }()
		client := tls.Client(near, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		_ = client.Handshake()
		near.Close()
		<-failed
		far.Close()
	}
	for _, host := range []string{"open.example", "mtls.example"} {
		if got := store.Decide(tlsstore.HandshakeFrom(ctx), host); got != tlsstore.Misdirected {
			t.Errorf("the verdict on %s is %s", host, got)
		}
	}
}

// serveHTTP runs an HTTP server that calls Decide as the proxy does.
func serveHTTP(t testing.TB, store *tlsstore.Store) string {
	t.Helper()
	listener := programs.Listen(t, "")
	server := &http.Server{
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return tlsstore.WithHandshake(ctx) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch store.Decide(tlsstore.HandshakeFrom(r.Context()), r.Host) {
			case tlsstore.Serve:
				fmt.Fprint(w, r.Proto)
			case tlsstore.Refused:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				w.WriteHeader(http.StatusMisdirectedRequest)
			}
		}),
		ReadHeaderTimeout: testTimeout,
	}
	stopped := make(chan struct{})
	go func() {
		_ = server.Serve(tls.NewListener(listener, store.ServerConfig()))
		close(stopped)
	}()
	t.Cleanup(func() {
		server.Close()
		<-stopped
	})
	return listener.Addr().String()
}

// TestHTTP crosses SNI and Host over HTTP/1.1 and HTTP/2.
func TestHTTP(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{hostOptions("mtls", "mtls.example", clientAuth(ca))}})
	address := serveHTTP(t, store)

	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, sni := range []string{"open.example", "mtls.example"} {
			client := httpClient(t, address, sni, proto == "HTTP/2.0", ca.client(t))
			for _, tt := range []struct {
				host string
				sni  string // of the connection that serves it
			}{
				{"open.example", "open.example"}, {"OPEN.example.", "open.example"}, {"other.example", "open.example"},
				{"mtls.example", "mtls.example"}, {"MTLS.example", "mtls.example"}, {"mtls.example.", "mtls.example"},
				{"mtls.example:443", "mtls.example"}, {"Mtls.Example.:8443", "mtls.example"},
			} {
				want := http.StatusMisdirectedRequest
				if tt.sni == sni {
					want = http.StatusOK
				}
				if got, body := get(t, client, tt.host); got != want || (got == http.StatusOK && body != proto) {
					t.Errorf("%s, SNI %s, host %s: %d %q, want %d", proto, sni, tt.host, got, body, want)
				}
			}
		}
	}
}

// TestOptionsChangeUnderConnection: a connection that is older than its host's
// client authentication does not serve the host any longer.
func TestOptionsChangeUnderConnection(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	address := serveHTTP(t, store)
	old := httpClient(t, address, "a.example", false)
	if got, _ := get(t, old, "a.example"); got != http.StatusOK {
		t.Fatalf("before the change: %d", got)
	}
	in := tlsstore.Input{Options: []tlsstore.HostOptions{hostOptions("mtls", "a.example", clientAuth(ca))}}
	load(t, store, in)
	if got, _ := get(t, old, "a.example"); got != http.StatusMisdirectedRequest {
		t.Errorf("after the change, on the old connection: %d", got)
	}
	if got, _ := get(t, httpClient(t, address, "a.example", false, ca.client(t)), "a.example"); got != http.StatusOK {
		t.Errorf("after the change, on a new connection: %d", got)
	}
	if _, err := tryHandshake(store, "a.example"); err == nil {
		t.Error("after the change, a connection without a certificate is made")
	}
}

// requester sends requests on one connection.
type requester interface {
	RoundTrip(*http.Request) (*http.Response, error)
}

// h1Conn writes requests with their host as it is; net/http's transport would
// clean it.
type h1Conn struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (c *h1Conn) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := fmt.Fprintf(c.conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", r.Host); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.reader, r)
}

func httpClient(t testing.TB, address, sni string, h2 bool, certificates ...tls.Certificate) requester {
	t.Helper()
	config := &tls.Config{ServerName: sni, InsecureSkipVerify: true, Certificates: certificates}
	if h2 {
		transport := &http.Transport{
			ForceAttemptHTTP2: true,
			TLSClientConfig:   config,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			},
		}
		t.Cleanup(transport.CloseIdleConnections)
		return transport
	}
	conn := must.Get(tls.Dial("tcp", address, config))(t)
	t.Cleanup(func() { conn.Close() })
	return newH1(conn)
}

func newH1(conn net.Conn) *h1Conn {
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	return &h1Conn{conn: conn, reader: bufio.NewReader(conn)}
}

func get(t testing.TB, client requester, host string) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://fixed.example/", nil))(t)
	request.Host = host
	response, err := client.RoundTrip(request)
	if err != nil {
		t.Fatalf("host %s: %v", host, err)
	}
	defer response.Body.Close()
	body := must.Get(io.ReadAll(io.LimitReader(response.Body, 1<<10)))(t)
	return response.StatusCode, string(body)
}
