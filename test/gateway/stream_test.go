package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestStreamRoutes: a TLSRoute passes connections on by server name, or decrypts them; a
// TCPRoute passes those of a port on, and a UDPRoute datagrams. One name, which belongs
// to an older route, cannot be had from another namespace.
func TestStreamRoutes(t *testing.T) {
	s := newScene(t, shared(t))
	authority := pkitest.NewAuthority(t)
	own := authority.Issue(t, "passed.example.com").TLS(t)
	serveStreams(t, own)
	s.issue(t, authority, "edge", "decrypted.example.com")
	s.Apply(t, s.namespace, fmt.Sprintf(streams, backendC))
	address := s.programmed(t, "streams").Status.Addresses[0].Value

	greeting := func(dial func() (net.Conn, error)) string {
		var got []byte
		programs.Eventually(t, func(context.Context) error {
			conn, err := dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			got, err = io.ReadAll(conn)
			if err == nil && len(got) == 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		})
		return string(got)
	}
	for name, want := range map[string]string{"passed.example.com": "encrypted\n", "decrypted.example.com": "plain\n"} {
		got := greeting(func() (net.Conn, error) {
			return tls.Dial("tcp", net.JoinHostPort(address, "443"), &tls.Config{ServerName: name, RootCAs: authority.Pool})
		})
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := greeting(func() (net.Conn, error) { return net.Dial("tcp", net.JoinHostPort(address, "53")) }); got != "plain\n" {
		t.Errorf("TCP: got %q", got)
	}
	conn := must.Get(net.Dial("udp", net.JoinHostPort(address, "53")))(t)
	defer conn.Close()
	programs.Eventually(t, func(context.Context) error {
		if _, err := io.WriteString(conn, "question"); err != nil {
			return err
		}
		must.Do(t, conn.SetReadDeadline(time.Now().Add(time.Second))) // a datagram can be lost
		buf := make([]byte, 1500)
		n, err := conn.Read(buf)
		if err == nil && string(buf[:n]) != "udp question" {
			t.Errorf("UDP: got %q", buf[:n])
		}
		return err
	})
	if other, err := tls.Dial("tcp", net.JoinHostPort(address, "443"), &tls.Config{ServerName: "other.example.com", InsecureSkipVerify: true}); err == nil {
		other.Close()
		t.Error("a name without a route is served")
	}
}

// serveStreams starts the backends of streams: one that greets, one that does so by TLS,
// and one that repeats datagrams.
func serveStreams(t *testing.T, own tls.Certificate) {
	t.Helper()
	serve := func(name, port string, wrap func(net.Conn) net.Conn) {
		listener := must.Get(net.Listen("tcp", net.JoinHostPort(backendC, port)))(t)
		programs.Background(t, func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_, _ = io.WriteString(wrap(conn), name+"\n")
				}()
			}
		}, func() { listener.Close() })
	}
	serve("plain", "8080", func(conn net.Conn) net.Conn { return conn })
	serve("encrypted", "8443", func(conn net.Conn) net.Conn {
		return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{own}})
	})
	socket := must.Get(net.ListenPacket("udp", net.JoinHostPort(backendC, "5353")))(t)
	programs.Background(t, func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(append([]byte("udp "), buf[:n]...), from)
		}
	}, func() { socket.Close() })
}

const streams = `apiVersion: v1
kind: Service
metadata: {name: streams}
spec: {ports: [{name: plain, port: 80}, {name: encrypted, port: 443}, {name: dns, port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: streams, labels: {kubernetes.io/service-name: streams}}
addressType: IPv4
ports: [{name: plain, port: 8080}, {name: encrypted, port: 8443}, {name: dns, port: 5353, protocol: UDP}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: streams}
spec:
  gatewayClassName: slipway
  listeners:
  - {name: passed, port: 443, protocol: TLS, hostname: passed.example.com, tls: {mode: Passthrough}}
  - {name: decrypted, port: 443, protocol: TLS, hostname: decrypted.example.com, tls: {mode: Terminate, certificateRefs: [{name: edge}]}}
  - {name: tcp, port: 53, protocol: TCP}
  - {name: udp, port: 53, protocol: UDP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: passed}
spec:
  parentRefs: [{name: streams}]
  hostnames: [passed.example.com]
  rules: [{backendRefs: [{name: streams, port: 443}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: decrypted}
spec:
  parentRefs: [{name: streams}]
  hostnames: [decrypted.example.com]
  rules: [{backendRefs: [{name: streams, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: tcp}
spec:
  parentRefs: [{name: streams}]
  rules: [{backendRefs: [{name: streams, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: udp}
spec:
  parentRefs: [{name: streams}]
  rules: [{backendRefs: [{name: streams, port: 53}]}]
`
