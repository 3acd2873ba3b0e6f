package listener_test

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/edge/listener"
)

// TestBanned: the connections of a banned client are refused, and open ones stay open.
func TestBanned(t *testing.T) {
	t.Parallel()
	var banned atomic.Bool
	count := newCounters()
	l := open(t, listener.Config{Hooks: count.hooks(), Banned: func(client netip.Addr) bool {
		if client != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("it is called with %v", client)
		}
		return banned.Load()
	}})
	before := connect(t, l)
	c := accept(t, l)
	banned.Store(true)
	for i := range 3 {
		expectRefused(t, l, "")
		count.awaitRefused(t, listener.RefusedBanned, i+1)
	}
	send(t, before, []byte("x"))
	receive(t, c, "x")
	banned.Store(false)
	again := connect(t, l)
	send(t, again, []byte("y"))
	receive(t, accept(t, l), "y")
}

// TestBannedBehindProxy: Banned is called with the client that a PROXY header names, and never
// with the proxy.
func TestBannedBehindProxy(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{
		Proxy: listener.ProxyOptional, TrustedProxies: loopback, Hooks: count.hooks(),
		Banned: func(client netip.Addr) bool { return client != netip.MustParseAddr("192.0.2.2") },
	})
	bad := connect(t, l)
	send(t, bad, proxyV1("TCP4 192.0.2.1 192.0.2.9 1 2"))
	count.awaitRefused(t, listener.RefusedBanned, 1)
	expectClosed(t, bad)
	for _, line := range []string{"TCP4 192.0.2.2 192.0.2.9 1 2", "UNKNOWN"} {
		good := connect(t, l)
		send(t, good, append(proxyV1(line), 'x'))
		receive(t, accept(t, l), "x")
	}
	plain := connect(t, l)
	send(t, plain, []byte("x"))
	receive(t, accept(t, l), "x")
}
