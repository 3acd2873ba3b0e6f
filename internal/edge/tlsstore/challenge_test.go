package tlsstore_test

import (
	"crypto/tls"
	"net"
	"testing"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
)

func TestChallenge(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	certPEM, keyPEM := ca.issue(t, wanted{names: []string{"pending.example"}})
	answer, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM.Reveal()))
	must.Do(t, err)
	store := newStore(t, tlsstore.Config{Challenge: func(name string) *tls.Certificate {
		if name != "pending.example" {
			return nil
		}
		return &answer
	}})
	// A challenge succeeds even where clients need a certificate: the
	// authority has none.
	load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{hostOptions("mtls", "pending.example", clientAuth(ca))}})
	address := serve(t, store)

	acme := func(name string, protos ...string) (tls.ConnectionState, error) {
		return dial(t, address, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: protos})
	}
	for _, name := range []string{"pending.example", "Pending.EXAMPLE."} {
		state := must.Get(acme(name, "acme-tls/1"))(t)
		if state.NegotiatedProtocol != "acme-tls/1" || state.PeerCertificates[0].DNSNames[0] != "pending.example" {
			t.Errorf("%s: protocol %q, certificate for %v", name, state.NegotiatedProtocol, state.PeerCertificates[0].DNSNames)
		}
	}
	for _, name := range []string{"other.example", ""} {
		_, err := acme(name, "acme-tls/1")
		expectAlert(t, err, "unrecognized name")
	}
	// Beside other protocols it is nothing special, and not a way around the
	// client's certificate.
	if _, err := acme("pending.example", "acme-tls/1", "h2"); err == nil {
		t.Error("a host that needs a certificate was opened by offering acme-tls/1")
	}
	state := must.Get(acme("open.example", "acme-tls/1", "h2"))(t)
	if state.NegotiatedProtocol != "h2" {
		t.Errorf("protocol %q", state.NegotiatedProtocol)
	}

	bare := newStore(t, tlsstore.Config{})
	_, err = dial(t, serve(t, bare), &tls.Config{ServerName: "pending.example", InsecureSkipVerify: true, NextProtos: []string{"acme-tls/1"}})
	expectAlert(t, err, "unrecognized name")
}

// TestChallengeServesNothing: requests on a challenge's connection are never
// served, whatever the server behind it does.
func TestChallengeServesNothing(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	certPEM, keyPEM := ca.issue(t, wanted{names: []string{"a.example"}})
	answer := must.Get(tls.X509KeyPair([]byte(certPEM), []byte(keyPEM.Reveal())))(t)
	store := newStore(t, tlsstore.Config{Challenge: func(string) *tls.Certificate { return &answer }})
	far, near := net.Pipe()
	defer near.Close()
	defer far.Close()
	ctx := tlsstore.WithHandshake(t.Context())
	made := make(chan error, 1)
	go func() { made <- tls.Server(far, store.ServerConfig()).HandshakeContext(ctx) }()
	client := tls.Client(near, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, NextProtos: []string{"acme-tls/1"}})
	must.Do(t, client.Handshake())
	must.Do(t, <-made)
	record := tlsstore.HandshakeFrom(ctx)
	if !record.Challenge() {
		t.Error("the record does not say that it was a challenge")
	}
	for _, host := range []string{"a.example", "", "127.0.0.1"} {
		if got := store.Decide(record, host); got != tlsstore.Misdirected {
			t.Errorf("the verdict on %q is %s", host, got)
		}
	}
}
