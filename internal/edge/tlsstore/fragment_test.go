package tlsstore_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/tlsstore"
)

// TestFragmentedClientHello splits the ClientHello at every byte, between TCP
// segments and between TLS records, and expects the same options each time.
// A proxy that chose options from the first record only was opened that way
// (CVE-2026-32305).
func TestFragmentedClientHello(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	cert := ca.certificate(t, "mtls", wanted{names: []string{"mtls.example"}})
	load(t, store, tlsstore.Input{
		Certificates: []tlsstore.Certificate{cert},
		Options:      []tlsstore.HostOptions{hostOptions("mtls", "mtls.example", clientAuth(ca))},
	})
	good := ca.client(t)
	hello := len(pkitest.ClientHello(t, helloConfig())) - recordHeader

	// Without a certificate it must fail, whatever the pieces; with one it must
	// not, which a few places show.
	try := func(split func([]byte) [][]byte, what string, at int) {
		clients := [][]tls.Certificate{nil}
		if at%16 == 1 {
			clients = append(clients, []tls.Certificate{good})
		}
		for _, certificates := range clients {
			record, err := fragmented(store, split, certificates...)
			if served := err == nil; served != (certificates != nil) {
				t.Fatalf("%s at %d, %d certificates: %v", what, at, len(certificates), err)
			}
			if name := record.ServerName(); name != "mtls.example" || store.Decide(record, name) != tlsstore.Serve {
				t.Fatalf("%s at %d: the options are not those of the host, the name is %q", what, at, name)
			}
		}
	}
	for at := 1; at < hello+recordHeader; at++ {
		try(func(flight []byte) [][]byte { return [][]byte{flight[:at], flight[at:]} }, "segments", at)
	}
	for at := 1; at < hello; at++ {
		try(func(flight []byte) [][]byte { return records(flight, at, hello) }, "records", at)
	}
	try(func(flight []byte) [][]byte { return records(flight, 1, 1) }, "records of one byte", 1)
}

const recordHeader = 5

// helloConfig makes a small ClientHello whose size does not vary.
func helloConfig(certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{
		ServerName: "mtls.example", InsecureSkipVerify: true, Certificates: certificates,
		CurvePreferences: []tls.CurveID{tls.X25519}, MinVersion: tls.VersionTLS13,
	}
}

// records cuts the message of one record into records: the first has first
// bytes, the others at most rest. Each is written by itself.
func records(flight []byte, first, rest int) [][]byte {
	message := flight[recordHeader:]
	var out [][]byte
	for size := first; len(message) > 0; size = rest {
		size = min(size, len(message))
		record := append([]byte{flight[0], flight[1], flight[2], byte(size >> 8), byte(size)}, message[:size]...)
		out, message = append(out, record), message[size:]
	}
	return out
}

// splitConn writes the first flight in pieces.
type splitConn struct {
	net.Conn
	split func([]byte) [][]byte
}

func (c *splitConn) Write(b []byte) (int, error) {
	if c.split == nil {
		return c.Conn.Write(b)
	}
	split := c.split
	c.split = nil
	for _, piece := range split(b) {
		if _, err := c.Conn.Write(piece); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func fragmented(store *tlsstore.Store, split func([]byte) [][]byte, certificates ...tls.Certificate) (*tlsstore.Handshake, error) {
	near, far := net.Pipe()
	deadline := time.Now().Add(testTimeout)
	_, _ = near.SetDeadline(deadline), far.SetDeadline(deadline)
	ctx := tlsstore.WithHandshake(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		client := tls.Client(&splitConn{Conn: near, split: split}, helloConfig(certificates...))
		if client.Handshake() == nil {
			_, _ = io.Copy(io.Discard, client)
		}
		near.Close()
	}()
	err := tls.Server(far, store.ServerConfig()).HandshakeContext(ctx)
	far.Close()
	<-stopped
	return tlsstore.HandshakeFrom(ctx), err
}
