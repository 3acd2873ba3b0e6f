package h2_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a Server with a listener before it.
type server struct {
	*h2.Server
	addr    string
	reasons chan string
}

// start serves HTTP/2 on a socket until the test ends. With a certificate it
// is encrypted.
func start(t testing.TB, cfg h2.Config, certificate *tls.Certificate) *server {
	t.Helper()
	s := &server{reasons: make(chan string, 1000)}
	cfg.Hooks.Closed = func(reason string) { s.reasons <- reason }
	s.Server = must.Get(h2.New(cfg))(t)
	s.addr = programs.Serve(t, "", func(conn net.Conn) {
		if certificate != nil {
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"h2"}})
			if secure.Handshake() != nil {
				return
			}
			conn = secure
		}
		s.ServeConn(t.Context(), conn)
	}).String()
	t.Cleanup(s.Close)
	return s
}

// lasting makes a handler that sends no response. serve gets the context of each
// request.
func lasting(serve func(ctx context.Context)) *bridge.Handler {
	return &bridge.Handler{Pool: new(h1.BufferPool), Serve: func(s bridge.Stream, conn net.Conn) {
		defer conn.Close()
		serve(s.Context())
	}}
}

// quick responds at once.
func quick() *bridge.Handler {
	return bridgetest.Handler(func(x *bridgetest.Exchange) { _ = x.Respond(200, "") })
}

// client makes a client of HTTP/2 that is closed with the test.
func client(t testing.TB, roots *x509.CertPool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: time.Minute}
	transport.Protocols.SetUnencryptedHTTP2(roots == nil)
	transport.Protocols.SetHTTP2(roots != nil)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// newCertificate is one for 127.0.0.1.
func newCertificate(t testing.TB) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	authority := pkitest.NewAuthority(t)
	certificate := authority.Issue(t, "127.0.0.1").TLS(t)
	return &certificate, authority.Pool
}

func TestExchanges(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		bridgetest.Run(t, func(t *testing.T, handler *bridge.Handler) bridgetest.World {
			s := start(t, h2.Config{Handler: handler}, nil)
			return bridgetest.World{URL: "http://" + s.addr, Client: client(t, nil), Major: 2}
		})
	})
	t.Run("encrypted", func(t *testing.T) {
		certificate, roots := newCertificate(t)
		bridgetest.Run(t, func(t *testing.T, handler *bridge.Handler) bridgetest.World {
			s := start(t, h2.Config{Handler: handler}, certificate)
			return bridgetest.World{URL: "https://" + s.addr, Client: client(t, roots), Major: 2}
		})
	})
}

// The context of a connection reaches its requests, and so do its addresses.
func TestContext(t *testing.T) {
	type key struct{}
	got := make(chan [3]string, 1)
	handler := bridgetest.Handler(func(x *bridgetest.Exchange) {
		word, _ := x.Stream.Context().Value(key{}).(string)
		got <- [3]string{word, x.Conn.RemoteAddr().String(), x.Conn.LocalAddr().String()}
		_ = x.Respond(200, "")
	})
	s := must.Get(h2.New(h2.Config{Handler: handler}))(t)
	listener := programs.Listen(t, "")
	remote := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		remote <- conn.RemoteAddr().String()
		s.ServeConn(context.WithValue(context.Background(), key{}, "hello"), conn)
	}()
	c := client(t, nil)
	response := must.Get(c.Get("http://" + listener.Addr().String()))(t)
	response.Body.Close()
	want := [3]string{"hello", <-remote, listener.Addr().String()}
	if said := <-got; said != want {
		t.Errorf("got %v, want %v", said, want)
	}
	s.Close()
	bridgetest.Within(t, "the end of ServeConn", ended)
}

func TestConfig(t *testing.T) {
	for _, cfg := range []h2.Config{
		{},
		{Handler: quick(), MaxStreams: -1},
		{Handler: quick(), ConnWindow: 1000},
		{Handler: quick(), IdleTimeout: -1},
	} {
		if _, err := h2.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
