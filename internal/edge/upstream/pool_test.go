package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func TestConnectionIsReused(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{})
	w.serve(cart(p.address))
	h := w.Handle(shop)

	lease := pick(t, h, upstream.PickOptions{})
	conn := connect(t, &lease)
	if conn.Reused() {
		t.Error("the first connection says that it was used before")
	}
	first := get(t, conn)
	conn.Release()
	lease.Done(upstream.OK)

	lease = pick(t, h, upstream.PickOptions{})
	conn = connect(t, &lease)
	if !conn.Reused() {
		t.Error("the second request got a new connection")
	}
	if second := get(t, conn); second != first {
		t.Errorf("the second request came from %s, the first from %s", second, first)
	}
	conn.Release()
	lease.Done(upstream.OK)

	got := w.state(t, p.address)
	if got.Open != 1 || got.Idle != 1 || got.InFlight != 0 || got.Reused != 1 || got.Totals["ok"] != 2 {
		t.Errorf("state %+v; want one idle connection that was reused once, and two requests", got)
	}
}

func TestMostRecentlyUsedComesFirst(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	a, b := connect(t, &lease), connect(t, &lease)
	b.Release()
	a.Release()
	if again := connect(t, &lease); again != a {
		t.Error("the connection that was released last was not taken first")
	}
}

func TestFreshSkipsThePool(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	connect(t, &lease).Release()
	conn := must.Get(lease.Connect(t.Context(), 0, true))(t)
	defer conn.Close()
	if conn.Reused() {
		t.Error("a fresh connection was asked for, and an old one came")
	}
}

func TestReleasedTwiceIsKeptOnce(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	conn := connect(t, &lease)
	conn.Release()
	conn.Release()
	a, b := connect(t, &lease), connect(t, &lease)
	defer a.Close()
	defer b.Close()
	if a == b {
		t.Error("two requests got the same connection")
	}
}

func TestMostIdle(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{MaxIdlePerEndpoint: 2})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	var conns []*upstream.Conn
	for range 3 {
		conns = append(conns, connect(t, &lease))
	}
	for _, conn := range conns {
		conn.Release()
	}
	lease.Done(upstream.OK)
	if got := w.state(t, p.address); got.Idle != 2 || got.Open != 2 {
		t.Errorf("%d idle and %d open connections, want 2 and 2", got.Idle, got.Open)
	}
	if got := w.Stats().Overflows; got != 1 {
		t.Errorf("%d connections too many were counted, want 1", got)
	}
}

func TestIdleConnectionsExpire(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{IdleTimeout: 20 * time.Millisecond})
	w.serve(cart(p.address))
	// Twice, because the sweeper stops when nothing is idle.
	for range 2 {
		peer := roundTrip(t, w.Handle(shop))
		if got := programs.Receive(t, p.closed, "the end of the idle connection"); got != peer {
			t.Errorf("connection %s was closed, want %s", got, peer)
		}
		programs.Until(t, "the sweep", func() bool { return w.state(t, p.address).Open == 0 })
	}
	if got := w.Stats().Expired; got != 2 {
		t.Errorf("%d expired, want 2", got)
	}
}

// One sweep serves many connections, so it may be late for some. These are not
// handed out meanwhile.
func TestSweeps(t *testing.T) {
	p := newPod(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, upstream.Config{}) // 30 s, and at least an eighth of it between sweeps
		w.serve(cart(p.address))
		lease := pick(t, w.Handle(shop), upstream.PickOptions{})
		defer lease.Done(upstream.OK)
		var conns []*upstream.Conn
		for range 3 {
			conns = append(conns, connect(t, &lease))
		}
		open := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := w.state(t, p.address).Open; got != want {
				t.Errorf("%d connections are open, want %d", got, want)
			}
		}
		conns[0].Release()
		<-time.After(time.Second)
		conns[1].Release()
		<-time.After(time.Millisecond)
		conns[2].Release()
		<-time.After(28 * time.Second)
		open(3)
		<-time.After(time.Second) // 30 s
		open(2)
		<-time.After(1500 * time.Millisecond)
		conn := connect(t, &lease)
		if conn.Reused() {
			t.Error("a connection was handed out that had been idle for too long")
		}
		conn.Close()
		open(0)
		if got := w.Stats().Expired; got != 3 {
			t.Errorf("%d expired, want 3", got)
		}
		// What comes after a time without connections is swept too, and what
		// stays when a sweep comes is swept by the next.
		conns = append(conns[:0], connect(t, &lease), connect(t, &lease))
		conns[0].Release()
		<-time.After(20 * time.Second)
		conns[1].Release()
		<-time.After(20 * time.Second)
		open(1)
		<-time.After(20 * time.Second)
		open(0)
	})
}

func TestUsedConnectionsDoNotExpire(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{IdleTimeout: 10 * time.Millisecond})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	// A sweep happens while one is in use, because another one is idle.
	used, idle := connect(t, &lease), connect(t, &lease)
	idle.Release()
	programs.Receive(t, p.closed, "the end of the idle connection")
	get(t, used)
	used.Close()
}

// until204 responds to one request with 204, and then sends after.
func until204(conn net.Conn, after string) {
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	_ = request.Body.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nPeer: "+conn.RemoteAddr().String()+"\r\n\r\n"+after)
}

// awaitReadable returns when there is something to read, or the end.
func awaitReadable(t *testing.T, conn net.Conn) {
	t.Helper()
	raw := must.Get(conn.(syscall.Conn).SyscallConn())(t)
	var one [1]byte
	must.Do(t, raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err != syscall.EAGAIN
	}))
}

// always is a CheckAfter that looks at every connection.
const always = time.Nanosecond

func TestDeadConnectionIsNotHandedOut(t *testing.T) {
	for _, test := range []struct {
		name  string
		after func(net.Conn) // what the backend does once it has answered
		want  upstream.Stats
	}{
		{"closed", func(conn net.Conn) { conn.Close() }, upstream.Stats{Stale: 1}},
		{"reset", func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); conn.Close() }, upstream.Stats{Stale: 1}},
		{"halfClosed", func(conn net.Conn) { _ = conn.(*net.TCPConn).CloseWrite(); _, _ = io.Copy(io.Discard, conn) }, upstream.Stats{Stale: 1}},
		{"polluted", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			_, _ = io.Copy(io.Discard, conn)
		}, upstream.Stats{Polluted: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			goOn := make(chan struct{})
			address := script(t,
				func(conn net.Conn) { until204(conn, ""); <-goOn; test.after(conn) },
				func(conn net.Conn) { until204(conn, "") },
			)
			w := newWorld(t, upstream.Config{CheckAfter: always})
			w.serve(cart(address))
			lease := pick(t, w.Handle(shop), upstream.PickOptions{})
			defer lease.Done(upstream.OK)
			conn := connect(t, &lease)
			get(t, conn)
			below := conn.NetConn()
			conn.Release()
			close(goOn)
			awaitReadable(t, below)

			conn = connect(t, &lease)
			if conn.Reused() {
				t.Fatal("the dead connection was handed out")
			}
			get(t, conn)
			conn.Close()
			got := w.Stats()
			if got.Stale != test.want.Stale || got.Polluted != test.want.Polluted {
				t.Errorf("stale %d, polluted %d; want %d and %d", got.Stale, got.Polluted, test.want.Stale, test.want.Polluted)
			}
			if open := w.state(t, address).Open; open != 0 {
				t.Errorf("%d connections are open, want none", open)
			}
		})
	}
}

// A look at a connection must not depend on the deadline of its last read.
func TestLiveConnectionPassesTheLook(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{CheckAfter: always})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	conn := connect(t, &lease)
	get(t, conn)
	must.Do(t, conn.NetConn().SetReadDeadline(time.Unix(1, 0)))
	conn.Release()
	again := connect(t, &lease)
	defer again.Close()
	if again != conn {
		t.Error("a connection that is fine was not used again")
	}
}

func TestUnreadBytesEndTheConnection(t *testing.T) {
	address := script(t, func(conn net.Conn) {
		until204(conn, "HTTP/1.1 200 OK\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	w := newWorld(t, upstream.Config{})
	w.serve(cart(address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	conn := connect(t, &lease)
	get(t, conn)
	if len(conn.Reader.Unread()) == 0 {
		t.Fatal("the bytes did not come together")
	}
	conn.Release()
	if got := w.state(t, address); got.Idle != 0 || got.Open != 0 {
		t.Errorf("%d idle, %d open connections; want none", got.Idle, got.Open)
	}
}

func TestConnectFailures(t *testing.T) {
	nobody := listen(t, "127.0.0.1:0")
	refused := nobody.Addr().String()
	must.Do(t, nobody.Close())
	w := newWorld(t, upstream.Config{})
	w.serve(cart(refused))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.ConnectFailed)

	t.Run("refused", func(t *testing.T) {
		_, err := lease.Connect(t.Context(), 0, false)
		var failure *upstream.ConnectError
		if !errors.As(err, &failure) || !errors.Is(err, syscall.ECONNREFUSED) || failure.Timeout() {
			t.Fatalf("error %v, want a ConnectError that says refused", err)
		}
		if want := "cannot connect to " + refused + ": connect: connection refused"; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := lease.Connect(ctx, 0, false); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
	t.Run("ended", func(t *testing.T) {
		ended := pick(t, w.Handle(shop), upstream.PickOptions{})
		ended.Done(upstream.Cancelled)
		ended.Done(upstream.OK)
		if conn, err := ended.Connect(t.Context(), 0, false); err == nil || conn != nil {
			t.Error("a lease that has ended gave a connection")
		}
		if got := w.state(t, refused); got.InFlight != 1 || got.Totals["ok"] != 0 || got.Totals["cancelled"] != 1 {
			t.Errorf("state %+v; want one request in flight, and one cancelled", got)
		}
	})
}

func TestHandshakeTimeout(t *testing.T) {
	address := script(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	w := newWorld(t, upstream.Config{})
	b := cart(address)
	b.Transport = route.Transport{Protocol: route.ProtocolTLS}
	w.serve(b)
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.ConnectFailed)
	_, err := lease.Connect(t.Context(), time.Second, false)
	var failure *upstream.ConnectError
	if !errors.As(err, &failure) || !failure.Timeout() || !failure.TLS {
		t.Errorf("error %v, want a ConnectError of TLS that timed out", err)
	}
	if got := w.Stats(); got.ConnectFailures != 1 || got.Connects != 0 {
		t.Errorf("%d failures and %d connections, want 1 and 0", got.ConnectFailures, got.Connects)
	}
}

func TestHostNames(t *testing.T) {
	p := newPod(t)
	port := netip.MustParseAddrPort(p.address).Port()
	named := &route.Backend{ID: shop, Endpoints: []route.Endpoint{{Host: "localhost", Port: port}}}
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t, upstream.Config{})
		w.serve(named)
		lease := pick(t, w.Handle(shop), upstream.PickOptions{})
		defer lease.Done(upstream.ConnectFailed)
		if _, err := lease.Connect(t.Context(), testTimeout, false); !errors.Is(err, upstream.ErrLocalAddress) {
			t.Errorf("error %v, want ErrLocalAddress", err)
		}
	})
	t.Run("allowed", func(t *testing.T) {
		w := newWorld(t, upstream.Config{LocalNames: true})
		w.serve(named)
		roundTrip(t, w.Handle(shop))
	})
}

func TestClosedSet(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{})
	w.serve(cart(p.address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	used, idle := connect(t, &lease), connect(t, &lease)
	idlePeer := get(t, idle)
	idle.Release()
	w.Close()
	if got := programs.Receive(t, p.closed, "the end of the idle connection"); got != idlePeer {
		t.Errorf("connection %s was closed, want the idle one, %s", got, idlePeer)
	}
	usedPeer := get(t, used)
	used.Release()
	if got := programs.Receive(t, p.closed, "the end of the used connection"); got != usedPeer {
		t.Errorf("connection %s was closed, want %s", got, usedPeer)
	}
	if _, err := lease.Connect(t.Context(), 0, false); !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
	lease.Done(upstream.OK)
	w.Close()
}

func TestParallelUse(t *testing.T) {
	p := newPod(t)
	w := newWorld(t, upstream.Config{MaxIdlePerEndpoint: 3, IdleTimeout: time.Millisecond})
	w.serve(cart(p.address))
	h := w.Handle(shop)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 50 {
				lease, err := h.Pick(upstream.PickOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				conn, err := lease.Connect(t.Context(), testTimeout, false)
				if err != nil {
					t.Error(err)
					return
				}
				conn.Release()
				lease.Done(upstream.OK)
			}
		})
	}
	running.Wait()
	programs.Until(t, "the last sweep", func() bool { return w.state(t, p.address).Open == 0 })
	if got := w.state(t, p.address); got.Totals["ok"] != 400 || got.InFlight != 0 {
		t.Errorf("%d requests ended and %d in flight, want 400 and 0", got.Totals["ok"], got.InFlight)
	}
}
