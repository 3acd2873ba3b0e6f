package preflight_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
)

const (
	testHost    = "prod.example.com"
	testRuntime = "prod"
)

// frontAddress is where the load balancer of a test listens: an address of the
// private network that no cluster has.
func frontAddress() netip.Addr {
	bytes := kubetest.PodNetwork().Addr().As4()
	bytes[2], bytes[3] = 250, 10
	return netip.AddrFrom4(bytes)
}

// issued is a certificate for a name that ends after a time; without an
// authority it signs itself.
func issued(t testing.TB, by *pkitest.Authority, name string, life time.Duration) tls.Certificate {
	t.Helper()
	pair, err := pkitest.Make(pkitest.Certificate{Names: []string{name}, From: time.Now().Add(-90 * 24 * time.Hour), Until: time.Now().Add(life)}, by)
	must.Do(t, err)
	return pair.TLS(t)
}

// router responds as the runtime's router does: errors, with its header.
func router(runtime string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(wire.RouterHeader, runtime)
		http.Error(w, "no token", http.StatusUnauthorized)
	})
}

// serveTLS serves https at the front until the test ends.
func serveTLS(t testing.TB, certificate tls.Certificate, handler http.Handler) {
	t.Helper()
	listener, err := tls.Listen("tcp", netip.AddrPortFrom(frontAddress(), 443).String(), &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}})
	must.Do(t, err)
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
	programs.Background(t, func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}, func() { _ = server.Close() })
}

// nameServer is a DNS server on a UDP socket.
type nameServer struct {
	conn    net.PacketConn
	records map[string]netip.Addr
}

// serveDNS resolves the names; others do not exist.
func serveDNS(t testing.TB, records map[string]netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.Do(t, err)
	server := &nameServer{conn, records}
	programs.Background(t, server.serve, func() { _ = conn.Close() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	buffer := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if response, err := s.response(buffer[:n]); err == nil {
			_, _ = s.conn.WriteTo(response, from)
		}
	}
}

func (s *nameServer) response(question []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil {
		return nil, err
	}
	message.Response, message.Additionals = true, nil
	requestedMode := message.Questions[0]
	address, found := s.records[requestedMode.Name.String()]
	if !found {
		message.RCode = dnsmessage.RCodeNameError
	}
	if found && requestedMode.Type == dnsmessage.TypeA {
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: requestedMode.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return message.Pack()
}
