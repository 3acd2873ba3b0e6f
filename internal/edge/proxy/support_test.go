package proxy_test

import (
	"bufio"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// edge is a Proxy on a loopback port.
type edge struct{ *edgetest.Proxy }

// start serves a table until the end of the test. Options change the
// configuration first.
func start(t testing.TB, table *route.Table, options ...func(*proxy.Config)) *edge {
	t.Helper()
	return startFrom(t, table, proxy.Accepted{}, options...)
}

// startFrom serves connections that came as in from; the two ends of each
// are filled in.
func startFrom(t testing.TB, table *route.Table, from proxy.Accepted, options ...func(*proxy.Config)) *edge {
	t.Helper()
	return &edge{edgetest.StartProxy(t, table, from, options...)}
}

// rest ends all connections and waits until nothing of them is left.
func (e *edge) rest() {
	e.Drain()
	for e.Clients() > 0 {
		runtime.Gosched()
	}
}

// raw serves connections on loopback with a function of the test, byte by byte, and waits for
// them at the end.
func raw(t testing.TB, handle func(conn net.Conn, read *bufio.Reader)) netip.AddrPort {
	t.Helper()
	return programs.Serve(t, "", func(conn net.Conn) {
		if conn.SetDeadline(time.Now().Add(20*time.Second)) == nil {
			handle(conn, bufio.NewReader(conn))
		}
	})
}
