package listener_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/must"
)

func TestMaxConns(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{MaxConns: 2, Hooks: count.hooks()})
	connect(t, l)
	connect(t, l)
	first := accept(t, l)
	accept(t, l)
	for i := range 5 {
		expectRefused(t, l, "")
		count.awaitRefused(t, listener.RefusedLimit, i+1)
	}
	if l.Live() != 2 {
		t.Errorf("%d connections are counted", l.Live())
	}
	must.Do(t, first.Close())
	if first.Close() == nil {
		t.Error("a second Close gives no error")
	}
	client := connect(t, l)
	send(t, client, []byte("x"))
	receive(t, accept(t, l), "x")
	count.await(t, "three opened, one closed", func() bool { return count.opened == 3 && count.closed == 1 })
}

func TestMaxConnsPerSource(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{
		MaxConnsPerSource: 2, Proxy: listener.ProxyRequire, TrustedProxies: loopback, Hooks: count.hooks(),
	})
	// from connects with a header, and gives nil when it was refused.
	refused := 0
	from := func(line string, ok bool) *listener.Conn {
		t.Helper()
		client := connect(t, l)
		send(t, client, append(proxyV1(line), 'x'))
		if !ok {
			refused++
			count.awaitRefused(t, listener.RefusedSource, refused)
			expectClosed(t, client)
			return nil
		}
		c := accept(t, l)
		receive(t, c, "x")
		return c
	}
	one := from("TCP4 192.0.2.1 192.0.2.9 1 2", true)
	from("TCP4 192.0.2.1 192.0.2.9 2 2", true)
	from("TCP4 192.0.2.1 192.0.2.9 3 2", false)
	from("TCP6 ::ffff:192.0.2.1 2001:db8::9 4 2", false)
	from("TCP4 192.0.2.2 192.0.2.9 1 2", true)
	must.Do(t, one.Close())
	from("TCP4 192.0.2.1 192.0.2.9 5 2", true)

	// All addresses of an IPv6 network are one source.
	from("TCP6 2001:db8:0:1::1 2001:db8::9 1 2", true)
	from("TCP6 2001:db8:0:1::2 2001:db8::9 1 2", true)
	from("TCP6 2001:db8:0:1:ffff::3 2001:db8::9 1 2", false)
	from("TCP6 2001:db8:0:2::1 2001:db8::9 1 2", true)

	// The proxy itself is not bounded.
	for range 4 {
		from("UNKNOWN", true)
	}
}

func TestMaxConnsPerSourceWithoutProxy(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{MaxConnsPerSource: 1, Hooks: count.hooks()})
	connect(t, l)
	c := accept(t, l)
	expectRefused(t, l, "")
	count.awaitRefused(t, listener.RefusedSource, 1)
	must.Do(t, c.Close())
	client := connect(t, l)
	send(t, client, []byte("x"))
	receive(t, accept(t, l), "x")
}
