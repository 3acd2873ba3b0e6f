package listener_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/must"
)

// acceptAll takes connections until there are none, and gives them to a
// channel that is closed then.
func acceptAll(l *listener.Listener, room int) <-chan *listener.Conn {
	out := make(chan *listener.Conn, room)
	go func() {
		defer close(out)
		for {
			c, err := l.AcceptConn()
			if err != nil {
				return
			}
			out <- c
		}
	}()
	return out
}

func TestDrainWaits(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{Hooks: count.hooks()})
	conns := acceptAll(l, 8)
	clients := []*net.TCPConn{connect(t, l), connect(t, l), connect(t, l)}
	count.await(t, "all accepted", func() bool { return count.opened == len(clients) })

	told := make(chan *listener.Conn, 8)
	report := make(chan listener.DrainReport, 1)
	go func() { report <- l.Drain(context.Background(), func(c *listener.Conn) { told <- c }) }()
	seen := make(map[*listener.Conn]bool)
	for range clients {
		seen[<-told] = true
	}
	if len(seen) != len(clients) {
		t.Errorf("%d connections were told", len(seen))
	}
	// The connections still work while the port is closed.
	for c := range conns {
		if !seen[c] {
			t.Error("a connection was not told")
		}
		select {
		case r := <-report:
			t.Fatalf("Drain did not wait: %+v", r)
		default:
		}
		must.Do(t, c.Close())
	}
	if got := <-report; got != (listener.DrainReport{Closed: len(clients)}) {
		t.Errorf("the report is %+v", got)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port is still open")
	}
	count.await(t, "all closed", func() bool { return count.closed == len(clients) })
}

func TestDrainForces(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{})
	quiet, busy := connect(t, l), connect(t, l)
	first, second := accept(t, l), accept(t, l)
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan *listener.Conn, 2)
	report := make(chan listener.DrainReport, 1)
	go func() { report <- l.Drain(ctx, func(c *listener.Conn) { told <- c }) }()
	<-told
	<-told
	must.Do(t, first.Close())
	cancel()
	if got := <-report; got != (listener.DrainReport{Closed: 1, Forced: 1}) {
		t.Errorf("the report is %+v", got)
	}
	if err := second.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second connection was not closed: %v", err)
	}
	expectClosed(t, quiet)
	expectClosed(t, busy)
	if l.Live() != 0 {
		t.Errorf("%d connections are left", l.Live())
	}
}

// TestDrainServesQueue connects while nothing accepts: the kernel has the
// connections, and closing the socket would reset them.
func TestDrainServesQueue(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{})
	const clients = 50
	var waiting []*net.TCPConn
	for range clients {
		client := connect(t, l)
		send(t, client, []byte("x"))
		waiting = append(waiting, client)
	}
	report := make(chan listener.DrainReport, 1)
	go func() { report <- l.Drain(context.Background(), nil) }()
	served := 0
	for c := range acceptAll(l, clients) {
		receive(t, c, "x")
		send(t, c, []byte("y"))
		must.Do(t, c.Close())
		served++
	}
	for _, client := range waiting {
		receive(t, client, "y")
	}
	if got := <-report; served != clients || got.Forced != 0 {
		t.Errorf("%d of %d were served, the report is %+v", served, clients, got)
	}
}

// TestDrainCountsHijacked hijacks a connection from an http.Server, which then
// forgets it. The listener does not.
func TestDrainCountsHijacked(t *testing.T) {
	t.Parallel()
	l := open(t, listener.Config{})
	hijacked := make(chan net.Conn, 1)
	server := &http.Server{
		ReadHeaderTimeout: testTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			hijacked <- conn
		}),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(l)
	}()
	client := connect(t, l)
	send(t, client, []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	conn := <-hijacked
	told := make(chan struct{}, 1)
	report := make(chan listener.DrainReport, 1)
	go func() { report <- l.Drain(context.Background(), func(*listener.Conn) { told <- struct{}{} }) }()
	<-told
	must.Do(t, server.Shutdown(context.Background()))
	select {
	case r := <-report:
		t.Fatalf("Drain did not wait for the hijacked connection: %+v", r)
	default:
	}
	send(t, conn, []byte("still here"))
	receive(t, client, "still here")
	must.Do(t, conn.Close())
	if got := <-report; got != (listener.DrainReport{Closed: 1}) {
		t.Errorf("the report is %+v", got)
	}
	<-stopped
}

// TestDrainWithPending drains while a peer has not sent its PROXY header.
func TestDrainWithPending(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{Proxy: listener.ProxyRequire, TrustedProxies: loopback, Hooks: count.hooks()})
	late, never := connect(t, l), connect(t, l)
	// Drain takes what the kernel has for a moment only, and a busy machine may
	// need longer to get to these two.
	for l.Live() < 2 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan *listener.Conn, 1)
	report := make(chan listener.DrainReport, 1)
	go func() { report <- l.Drain(ctx, func(c *listener.Conn) { told <- c }) }()
	send(t, late, append(proxyV1("TCP4 192.0.2.1 192.0.2.2 1 2"), 'x'))
	c := accept(t, l)
	if <-told != c {
		t.Error("another connection was told")
	}
	receive(t, c, "x")
	must.Do(t, c.Close())
	cancel()
	<-report
	expectClosed(t, never)
	if l.Live() != 0 {
		t.Errorf("%d connections are left", l.Live())
	}
}

func TestCloseAndCancel(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"close", "cancel"} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		count := newCounters()
		l := must.Get(listener.Listen(ctx, listener.Config{
			Address: "127.0.0.1:0", Proxy: listener.ProxyOptional, TrustedProxies: loopback, Hooks: count.hooks(),
			HeaderTimeout: 10 * testTimeout, // so that it is not what closes the pending one
		}))(t)
		given, pending := connect(t, l), connect(t, l)
		send(t, given, []byte("x"))
		c := accept(t, l)
		if by == "close" {
			must.Do(t, l.Close())
		} else {
			cancel()
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: Accept ended with %v", by, err)
		}
		expectClosed(t, pending)
		// What was given out is not touched.
		receive(t, c, "x")
		send(t, c, []byte("y"))
		receive(t, given, "y")
		must.Do(t, c.Close())
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: a second Close gives %v", by, err)
		}
		if l.Live() != 0 {
			t.Errorf("%s: %d connections are left", by, l.Live())
		}
	}
}

// TestChurn opens and closes many connections from many sides while the
// listener drains, for the race detector and the count.
func TestChurn(t *testing.T) {
	t.Parallel()
	count := newCounters()
	l := open(t, listener.Config{Proxy: listener.ProxyOptional, TrustedProxies: loopback, MaxConns: 64, MaxConnsPerSource: 16, Hooks: count.hooks()})
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for {
				c, err := l.AcceptConn()
				if err != nil {
					return
				}
				running.Go(func() {
					_, _ = c.Peek()
					_, _ = bufio.NewReader(c).ReadString('\n')
					_, _ = io.WriteString(c, "done\n")
					_ = c.Close()
				})
			}
		})
	}
	for range 8 {
		running.Go(func() {
			for range 50 {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					continue
				}
				_, _ = conn.Write(append(proxyV1("TCP4 192.0.2.1 192.0.2.2 1 2"), "GET\n"...))
				_, _ = bufio.NewReader(conn).ReadString('\n')
				_ = conn.Close()
			}
		})
	}
	count.await(t, "some connections", func() bool { return count.closed > 50 })
	var told sync.Map
	report := l.Drain(context.Background(), func(c *listener.Conn) {
		if _, twice := told.LoadOrStore(c, true); twice {
			t.Error("a connection was told twice")
		}
	})
	if report.Forced != 0 || l.Live() != 0 {
		t.Errorf("the report is %+v, %d are left", report, l.Live())
	}
	running.Wait()
	if count.opened != count.closed {
		t.Errorf("%d opened, %d closed", count.opened, count.closed)
	}
}
