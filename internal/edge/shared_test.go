package edge_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// TestSessionsOnReplicas: a TLS session of one replica resumes on another that
// has the same secret, and on no other.
func TestSessionsOnReplicas(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	table.Certificates = []*route.Certificate{certificate(t, authority, "a", "a.example")}
	replica := func(shared byte) string {
		options := edge.Options{SharedSecret: secret.New(string(bytes.Repeat([]byte{shared}, 32)))}
		return startWith(t, table, options, secure("websecure")).address
	}
	first, second, other := replica('a'), replica('a'), replica('b')
	config := &tls.Config{ServerName: "a.example", RootCAs: authority.Pool, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	resumed := func(address string) bool {
		conn := must.Get(tls.Dial("tcp", address, config))(t)
		w := edgetest.NewWire(t, conn)
		defer conn.Close()
		// The ticket comes with the first bytes of a response.
		w.Send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		w.Response("GET")
		return conn.ConnectionState().DidResume
	}
	if resumed(first) {
		t.Error("the first connection resumes a session")
	}
	if !resumed(first) || !resumed(second) {
		t.Error("a session does not resume where the secret is known")
	}
	if resumed(other) {
		t.Error("a session resumes where the secret is not known")
	}
}

// TestShortSecret: a secret that can be guessed is refused.
func TestShortSecret(t *testing.T) {
	points := []edge.EntryPoint{edge.DefaultEntryPoint("web", "127.0.0.1:0")}
	_, err := edge.New(t.Context(), edge.Options{
		EntryPoints: points, SharedSecret: secret.New("short"),
		Metrics: edge.NewMetrics(prometheus.NewRegistry(), points), Log: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		t.Error("it was taken")
	}
}
