package edge_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// TestSharedBans: a client that floods one replica is banned by another, too.
func TestSharedBans(t *testing.T) {
	flood := manyPings(t)
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	peers := []string{freeAddress(t), freeAddress(t)}
	var replicas []*running
	for _, address := range peers {
		point := edge.DefaultEntryPoint("web", "127.0.0.1:0")
		point.ProxyTrusted = loopback
		replicas = append(replicas, startWith(t, table, edge.Options{
			SharedSecret: secret.New(strings.Repeat("s", edge.MinSharedSecret)), Limits: edge.LimitOptions{Address: address, Peers: peers},
		}, point))
	}
	from := func(s *running, client string) *edgetest.Wire {
		w := edgetest.Dial(t, s.address)
		w.Send(fmt.Sprintf("PROXY TCP4 %s 192.0.2.9 1000 80\r\n", client))
		return w
	}
	served := func(s *running, client string) bool {
		w := from(s, client)
		_, _ = io.WriteString(w, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") // it may be closed already
		first, err := w.Reader.Peek(12)
		return err == nil && string(first) == "HTTP/1.1 200"
	}
	const attempts = 9 // bans become longer, so that a busy machine sees one in the end
	for range attempts {
		w := from(replicas[0], "192.0.2.1")
		_, _ = w.Write(flood)
		_, _ = io.Copy(io.Discard, w)
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			if served(replicas[1], "192.0.2.1") {
				<-time.After(20 * time.Millisecond)
				continue
			}
			if !served(replicas[1], "192.0.2.2") {
				t.Error("another client is not served")
			}
			return
		}
	}
	t.Error("the other replica does not ban the client")
}

// freeAddress returns an address that is free on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}
