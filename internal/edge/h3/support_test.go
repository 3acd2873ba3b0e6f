package h3_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h3"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a Server that serves until the test ends.
type server struct {
	*h3.Server
	url     string
	roots   *x509.CertPool
	reasons chan string
	refused chan string
	opened  chan struct{}
	served  chan error
}

// start serves HTTP/3 on a socket. The config needs no address and no TLS.
func start(t testing.TB, cfg h3.Config) *server {
	t.Helper()
	certificate, roots := newCertificate(t)
	s := &server{roots: roots, reasons: make(chan string, 1000), refused: make(chan string, 1000), served: make(chan error, 1)}
	s.opened = make(chan struct{}, 1000)
	cfg.Hooks.Opened = func() { s.opened <- struct{}{} }
	cfg.Address = "127.0.0.1:0"
	if cfg.TLS == nil {
		cfg.TLS = &tls.Config{}
	}
	cfg.TLS.Certificates = []tls.Certificate{*certificate}
	cfg.Hooks.Closed = func(reason string) { s.reasons <- reason }
	cfg.Hooks.Refused = func(reason string) { s.refused <- reason }
	s.Server = must.Get(h3.Listen(cfg))(t)
	s.url = "https://" + s.Addr().String()
	go func() { s.served <- s.Serve() }()
	t.Cleanup(func() {
		s.Close()
		if err := bridgetest.Within(t, "the end of Serve", s.served); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client makes a client of HTTP/3 that is closed with the test.
func client(t testing.TB, s *server) *http.Client {
	t.Helper()
	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}, QUICConfig: &quic.Config{}}
	t.Cleanup(func() { transport.Close() })
	return &http.Client{Transport: transport}
}

// dial opens a connection of QUIC, for a client that does what it likes.
func dial(t testing.TB, s *server) (*quic.Conn, error) {
	t.Helper()
	conn, err := quic.DialAddr(t.Context(), s.Addr().String(), &tls.Config{RootCAs: s.roots, NextProtos: []string{"h3"}}, nil)
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	}
	return conn, err
}

// newCertificate is one for 127.0.0.1.
func newCertificate(t testing.TB) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	authority := pkitest.NewAuthority(t)
	certificate := authority.Issue(t, "127.0.0.1").TLS(t)
	return &certificate, authority.Pool
}

func TestExchanges(t *testing.T) {
	bridgetest.Run(t, func(t *testing.T, handler *bridge.Handler) bridgetest.World {
		s := start(t, h3.Config{Handler: handler})
		return bridgetest.World{URL: s.url, Client: client(t, s), Major: 3}
	})
}

// ok responds with 200 to every request.
func ok() *bridge.Handler {
	return bridgetest.Handler(func(x *bridgetest.Exchange) { _ = x.Respond(200, "ok") })
}

func get(t testing.TB, c *http.Client, url string) error {
	t.Helper()
	response, err := c.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %d", response.StatusCode)
	}
	return nil
}

func tlsConfig(t testing.TB) *tls.Config {
	t.Helper()
	certificate, _ := newCertificate(t)
	return &tls.Config{Certificates: []tls.Certificate{*certificate}}
}
