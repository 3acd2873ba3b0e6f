package edge_test

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"testing"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
)

// manyPings are more than any client may send, with what comes before them.
func manyPings(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	must.Do(t, framer.WriteSettings())
	for range 2000 {
		must.Do(t, framer.WritePing(false, [8]byte{}))
	}
	return out.Bytes()
}

// TestBans: a client that floods again and again is banned, by the address that
// a PROXY header names, and no other client is.
func TestBans(t *testing.T) {
	flood := manyPings(t)
	const attempts = 8 // a busy machine may take longer than the first bans last
	for _, c := range []struct {
		name   string
		change func(p *edge.EntryPoint)
		banned bool
	}{
		{"by default", func(*edge.EntryPoint) {}, true},
		{"without bans", func(p *edge.EntryPoint) { p.MaxBan = 0 }, false},
		{"a trusted proxy", func(p *edge.EntryPoint) {
			p.ForwardTrusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			point := edge.DefaultEntryPoint("web", "127.0.0.1:0")
			point.ProxyTrusted = loopback
			c.change(&point)
			s := startAt(t, tableFor(edgetest.Backend(t, edgetest.Echo)), point)
			from := func(client string) *edgetest.Wire {
				w := edgetest.Dial(t, s.address)
				w.Send(fmt.Sprintf("PROXY TCP4 %s 192.0.2.9 1000 80\r\n", client))
				return w
			}
			// An honest exchange.
			served := func(w *edgetest.Wire) bool {
				_, _ = io.WriteString(w, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") // it may be closed already
				first, err := w.Reader.Peek(12)
				return err == nil && string(first) == "HTTP/1.1 200"
			}
			early := from("192.0.2.1")
			banned := false
			for n := 0; n < attempts && !banned; n++ {
				w := from("192.0.2.1")
				_, _ = w.Write(flood)         // it is closed on the way
				_, _ = io.Copy(io.Discard, w) // until it is
				banned = !served(from("192.0.2.1"))
				if banned && n < 2 {
					t.Errorf("the client is banned after %d floods", n+1)
				}
			}
			if banned != c.banned {
				t.Errorf("banned: %v", banned)
			}
			if !served(from("192.0.2.2")) {
				t.Error("another client is not served")
			}
			if !served(early) {
				t.Error("a connection from before the ban is not served")
			}
		})
	}
}
