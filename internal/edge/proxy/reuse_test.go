package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/upstream"
)

// TestReuseOfClosedConnection sends requests while the pooled connection has been
// closed by the backend a moment ago: one that cannot be sent again gets a
// connection that was checked, and any other is sent again.
func TestReuseOfClosedConnection(t *testing.T) {
	for method, want := range map[string]upstream.Stats{
		http.MethodGet:  {Connects: 2},
		http.MethodPost: {Connects: 2, Stale: 1},
	} {
		t.Run(method, func(t *testing.T) {
			closed := make(chan struct{}, 2)
			backend := raw(t, func(conn net.Conn, read *bufio.Reader) {
				request, err := http.ReadRequest(read)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				conn.Close()
				closed <- struct{}{}
			})
			table := edgetest.Table([]netip.AddrPort{backend})
			upstreams := upstream.NewSet(upstream.Config{CheckAfter: time.Hour, Pool: new(h1.BufferPool)})
			t.Cleanup(upstreams.Close)
			e := start(t, table, func(c *proxy.Config) { c.Upstreams = upstreams })
			e.Upstreams.Close()
			e.Upstreams = upstreams
			e.Apply(t, table)
			w := edgetest.Dial(t, e.Address)
			for range 2 {
				w.Send(method + " / HTTP/1.1\r\nHost: x\r\n\r\n")
				if response, _ := w.Response(method); response.StatusCode != http.StatusNoContent {
					t.Fatalf("status %d", response.StatusCode)
				}
				<-closed
			}
			if got := upstreams.Stats(); got.Connects != want.Connects || got.Stale != want.Stale {
				t.Errorf("%d connections, %d stale; want %d and %d", got.Connects, got.Stale, want.Connects, want.Stale)
			}
		})
	}
}
