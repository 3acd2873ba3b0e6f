package tlsstore_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every exchange of a test. It is never waited for when
// the code is right.
const testTimeout = 30 * time.Second

// issuer is a certificate authority.
type issuer struct{ *pkitest.Authority }

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	return &issuer{pkitest.NewAuthority(t)}
}

// wanted describes a certificate. Zero times mean valid from an hour ago for
// 90 days; a nil key means a new ECDSA key.
type wanted struct {
	names    []string
	from, to time.Time
	key      crypto.Signer
}

// issue makes a certificate and its key as PEM.
func (a *issuer) issue(t testing.TB, w wanted) (string, secret.Text) {
	t.Helper()
	if w.to.IsZero() {
		w.to = time.Now().Add(90 * 24 * time.Hour)
	}
	pair := a.Sign(t, pkitest.Certificate{Names: w.names, Subject: "test", From: w.from, Until: w.to, Key: w.key})
	return pair.Chain, secret.New(pair.Key)
}

// certificate is a tlsstore.Certificate for all its names.
func (a *issuer) certificate(t testing.TB, name string, w wanted) tlsstore.Certificate {
	t.Helper()
	certPEM, keyPEM := a.issue(t, w)
	return tlsstore.Certificate{ID: tlsstore.ID{Namespace: "shop", Name: name}, CertPEM: certPEM, KeyPEM: keyPEM, Owner: "shop"}
}

// client is a certificate for a client to show.
func (a *issuer) client(t testing.TB) tls.Certificate {
	t.Helper()
	return a.Issue(t).TLS(t)
}

func ecdsaKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// rsaKey is made once: it takes a second under the race detector.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newStore(t testing.TB, config tlsstore.Config) *tlsstore.Store {
	t.Helper()
	return must.Get(tlsstore.New(config))(t)
}

// load builds and swaps, and fails on problems.
func load(t testing.TB, store *tlsstore.Store, in tlsstore.Input) {
	t.Helper()
	if problems := loadWith(store, in); len(problems) > 0 {
		t.Fatalf("unexpected problems: %v", problems)
	}
}

// loadWith builds and swaps.
func loadWith(store *tlsstore.Store, in tlsstore.Input) []tlsstore.Problem {
	index, problems := tlsstore.Build(in, store.Index())
	store.Swap(index)
	return problems
}

// serve runs TLS servers on a loopback port. Each connection gets
// one byte after its handshake, so that clients also get their tickets.
func serve(t testing.TB, store *tlsstore.Store) string {
	t.Helper()
	return programs.Serve(t, "", func(conn net.Conn) { answer(conn, store) }).String()
}

func answer(conn net.Conn, store *tlsstore.Store) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	server := tls.Server(conn, store.ServerConfig())
	if err := server.HandshakeContext(tlsstore.WithHandshake(context.Background())); err != nil {
		return
	}
	_, _ = server.Write([]byte("."))
	_ = server.Close()
}

// dial makes a handshake and reads the response.
func dial(t testing.TB, address string, config *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	raw := must.Get(net.DialTimeout("tcp", address, testTimeout))(t)
	return exchange(raw, config)
}

func exchange(raw net.Conn, config *tls.Config) (tls.ConnectionState, error) {
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(testTimeout))
	client := tls.Client(raw, config)
	if err := client.Handshake(); err != nil {
		return tls.ConnectionState{}, err
	}
	// With TLS 1.3 the client is done before the server has judged its
	// certificate; the first read shows it.
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		return tls.ConnectionState{}, err
	}
	return client.ConnectionState(), nil
}

// shown is the certificate that a client sees for a name.
func shown(t testing.TB, address, name string) *x509.Certificate {
	t.Helper()
	state, err := dial(t, address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatalf("handshake for %q: %v", name, err)
	}
	return state.PeerCertificates[0]
}

// expect fails unless a client sees one certificate for a name.
func expect(t testing.TB, address, name string, want tlsstore.Certificate) {
	t.Helper()
	block, _ := pem.Decode([]byte(want.CertPEM))
	if got := shown(t, address, name); string(got.Raw) != string(block.Bytes) {
		t.Errorf("name %q got the certificate for %v (%s), want %s", name, got.DNSNames, got.Subject.CommonName, want.ID)
	}
}

// expectDefault fails unless a client sees the store's own certificate.
func expectDefault(t testing.TB, address, name string) {
	t.Helper()
	if got := shown(t, address, name); got.Subject.CommonName != "Slipway default certificate" {
		t.Errorf("name %q got the certificate for %v, want the default one", name, got.DNSNames)
	}
}

// expectAlert fails unless the server ended the handshake with an alert.
func expectAlert(t testing.TB, err error, want string) {
	t.Helper()
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" || remote.Err.Error() != "tls: "+want {
		t.Errorf("handshake ended with %v, want the alert %q", err, want)
	}
}
