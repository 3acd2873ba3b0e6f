package tenancy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// backend is the server of a tenant, which responds to everything with its name: to
// requests, plain and encrypted, and to datagrams.
type backend struct {
	name string

	mu  sync.Mutex
	got []string // paths and datagrams
}

// heard records a path or a datagram.
func (b *backend) heard(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, text)
}

// ServeHTTP responds to a request.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.heard(r.URL.Path)
	_, _ = io.WriteString(w, b.name) // the client may be gone
}

// serveBackend serves a tenant at an address until the end of the test. Its certificate has
// the name of the tenant.
func serveBackend(t *testing.T, name, address string, authority *pkitest.Authority) *backend {
	t.Helper()
	b := &backend{name: name}
	serve(t, must.Get(net.Listen("tcp", net.JoinHostPort(address, "8080")))(t), b)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, name).TLS(t)}}
	serve(t, must.Get(tls.Listen("tcp", net.JoinHostPort(address, "8443"), config))(t), b)
	datagrams := must.Get(net.ListenPacket("udp", net.JoinHostPort(address, "8080")))(t)
	programs.Background(t, func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := datagrams.ReadFrom(buffer)
			if err != nil {
				return // it was closed
			}
			b.heard(string(buffer[:n]))
			_, _ = datagrams.WriteTo([]byte(b.name), from) // the client may be gone
		}
	}, func() { _ = datagrams.Close() })
	return b
}

// serviceManifest is the Service of a tenant with its one endpoint.
const serviceManifest = `apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tls, port: 443, targetPort: 8443}
  - {name: datagrams, port: 81, protocol: UDP, targetPort: 8080}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: tls, port: 8443}, {name: datagrams, port: 8080, protocol: UDP}]
endpoints: [{addresses: [%[2]s]}]
`

// unheard: bank got no request with this path, and no such datagram.
func unheard(text string) proof {
	return func(w *world) error {
		w.bank.mu.Lock()
		defer w.bank.mu.Unlock()
		if slices.Contains(w.bank.got, text) {
			return fmt.Errorf("bank got %q", text)
		}
		return nil
	}
}

// encrypted: a connection with this server name gets a response of this tenant, by a
// certificate with its name; empty is neither.
func encrypted(address, serverName, want string) proof {
	return func(*world) error {
		got, shown, err := encryptedResponse(address, serverName)
		if got != want || shown != want {
			return fmt.Errorf("%s at %s gets a response of %q with the certificate of %q, want those of %q: %w", serverName, address, got, shown, want, err)
		}
		return nil
	}
}

// encryptedResponse returns the tenant that responds to a connection with a server name, and
// the name in the certificate.
func encryptedResponse(address, serverName string) (got, shown string, err error) {
	conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: serverName, InsecureSkipVerify: true})
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	shown = conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	_ = conn.SetDeadline(time.Now().Add(programs.Timeout))
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", serverName) // it may be closed
	text, err := io.ReadAll(conn)
	if _, body, found := bytes.Cut(text, []byte("\r\n\r\n")); found {
		got = string(body)
	}
	return got, shown, err
}

// datagramServedBy: a datagram gets the response of this tenant. It is sent again until there
// is one.
func datagramServedBy(address, want string) proof {
	return func(*world) error {
		conn, err := net.Dial("udp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		buffer := make([]byte, 512)
		for until := time.Now().Add(programs.Timeout); time.Now().Before(until); {
			if err := errors.Join(write(conn, "ping"), conn.SetReadDeadline(time.Now().Add(100*time.Millisecond))); err != nil {
				return err
			}
			n, err := conn.Read(buffer)
			if got := string(buffer[:n]); err == nil && got != want {
				return fmt.Errorf("%s is served by %s, want %s", address, got, want)
			} else if err == nil {
				return nil
			}
		}
		return fmt.Errorf("%s does not respond", address)
	}
}

// write sends a text. The port of a datagram may be closed for a moment.
func write(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil && !strings.Contains(err.Error(), "connection refused") {
		return err
	}
	return nil
}

// sendsTo sends a datagram to an address, and then checks the proof: a datagram that bank
// responds to was sent later.
func sendsTo(address, text string, proven ...proof) proof {
	return func(w *world) error {
		conn, err := net.Dial("udp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		return errors.Join(write(conn, text), all(proven...)(w))
	}
}
