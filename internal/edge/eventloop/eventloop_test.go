//go:build linux

package eventloop_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for what must happen.
const patience = 20 * time.Second

// group is a Group that ends with the test, and must be able to.
func group(t *testing.T, loops int) *eventloop.Group {
	t.Helper()
	g := must.Get(eventloop.New(loops))(t)
	t.Cleanup(g.Close)
	return g
}

// listen accepts connections on a group, serves each by a task, and closes them afterwards.
func listen(t *testing.T, g *eventloop.Group, serve func(*eventloop.Task, *eventloop.Conn)) netip.AddrPort {
	t.Helper()
	fd, at := socket(t)
	admit := func(c *eventloop.Conn) {
		c.Serve(func(task *eventloop.Task) {
			defer c.Close()
			serve(task, c)
		})
	}
	failed := func(err error) time.Duration { t.Errorf("accept: %v", err); return time.Second }
	acceptor := must.Get(g.Accept(fd, nil, admit, failed))(t)
	t.Cleanup(acceptor.Stop)
	return at
}

// dial connects to an address as a client.
func dial(t *testing.T, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", to.String(), patience))(t).(*net.TCPConn)
	t.Cleanup(func() { conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func echo(_ *eventloop.Task, c *eventloop.Conn) {
	_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
}

// TestEcho moves more than fits the buffers of sockets through many connections, in pieces of
// all sizes.
func TestEcho(t *testing.T) {
	to := listen(t, group(t, 2), echo)
	var clients sync.WaitGroup
	for size := range 20 {
		conn := dial(t, to)
		sent := bytes.Repeat([]byte{byte(size), 7, 9}, 1+size*size*5000)
		clients.Go(func() {
			_, _ = conn.Write(sent)
			_ = conn.CloseWrite()
		})
		clients.Go(func() {
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes came back of %d: %v", len(got), len(sent), err)
			}
		})
	}
	clients.Wait()
}

// TestWriteNow sends several pieces, of which the last ones do not fit the socket.
func TestWriteNow(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 8<<20)
	short := make(chan bool, 1)
	to := listen(t, group(t, 1), func(_ *eventloop.Task, c *eventloop.Conn) {
		n, err := c.WriteNow([][]byte{[]byte("a"), nil, []byte("b"), large})
		short <- err == nil && n > 2 && n < len(large)
		_, _ = c.Write(large[n-2:])
	})
	got := must.Get(io.ReadAll(dial(t, to)))(t)
	if !<-short || len(got) != len(large)+2 || string(got[:3]) != "abx" {
		t.Errorf("got %d bytes: %q", len(got), got[:3])
	}
}

// TestDeadlines ends reads and writes that wait, of tasks and of goroutines.
func TestDeadlines(t *testing.T) {
	for _, away := range []bool{false, true} {
		results := make(chan error, 3)
		to := listen(t, group(t, 1), func(task *eventloop.Task, c *eventloop.Conn) {
			if away {
				task.Leave()
			}
			_ = c.SetReadDeadline(time.Now().Add(40 * time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			results <- err
			_ = c.SetWriteDeadline(time.Now().Add(40 * time.Millisecond))
			_, err = c.Write(make([]byte, 64<<20))
			results <- err
			_ = c.SetDeadline(time.Time{})
			_, err = c.Read(make([]byte, 1))
			results <- err
		})
		conn := dial(t, to)
		for range 2 {
			if err := <-results; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("away %v: got %v", away, err)
			}
		}
		_ = must.Get(conn.Write([]byte("x")))(t)
		if err := <-results; err != nil {
			t.Errorf("away %v: after the deadline was cleared: %v", away, err)
		}
	}
}

// TestMovedDeadline keeps a wait alive by moving its deadline, and ends it by one in the past, from
// another goroutine.
func TestMovedDeadline(t *testing.T) {
	conns, result := make(chan *eventloop.Conn, 1), make(chan error, 1)
	to := listen(t, group(t, 1), func(_ *eventloop.Task, c *eventloop.Conn) {
		_ = c.SetReadDeadline(time.Now().Add(time.Hour))
		conns <- c
		_, err := c.Read(make([]byte, 1))
		result <- err
	})
	dial(t, to)
	c := <-conns
	must.Do(t, c.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	must.Do(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
	select {
	case err := <-result:
		t.Fatalf("the deadline was moved, but the read ended: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	must.Do(t, c.SetReadDeadline(time.Unix(1, 0)))
	if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestLongDeadline waits longer than a revolution of the wheel.
func TestLongDeadline(t *testing.T) {
	if testing.Short() {
		t.Skip("takes nine seconds")
	}
	took := make(chan time.Duration, 1)
	to := listen(t, group(t, 1), func(_ *eventloop.Task, c *eventloop.Conn) {
		began := time.Now()
		_ = c.SetReadDeadline(began.Add(9 * time.Second))
		_, _ = c.Read(make([]byte, 1))
		took <- time.Since(began)
	})
	dial(t, to)
	if wait := <-took; wait < 9*time.Second {
		t.Errorf("the read ended after %v", wait)
	}
}

// TestClose ends waits from another goroutine, and closes the socket once.
func TestClose(t *testing.T) {
	for _, away := range []bool{false, true} {
		conns, result := make(chan *eventloop.Conn, 1), make(chan error, 1)
		to := listen(t, group(t, 1), func(task *eventloop.Task, c *eventloop.Conn) {
			if away {
				task.Leave()
			}
			conns <- c
			_, err := c.Read(make([]byte, 1))
			result <- err
		})
		conn := dial(t, to)
		c := <-conns
		must.Do(t, c.Close())
		if err := <-result; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the read ended with %v", err)
		}
		if err := c.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed again: %v", err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client got %v", err)
		}
	}
}

// TestLeave runs a task as a goroutine, which may block its thread, and back.
func TestLeave(t *testing.T) {
	g := group(t, 1)
	release := make(chan struct{})
	to := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
		one := make([]byte, 1)
		for range 3 {
			if _, err := c.Read(one); err != nil {
				return
			}
			if one[0] == 'b' {
				task.Leave()
				<-release // the loop serves the other client meanwhile
			}
			_, _ = c.Write(one)
			task.Rejoin()
		}
	})
	blocked, other := dial(t, to), dial(t, to)
	_ = must.Get(blocked.Write([]byte("b")))(t)
	exchange(t, other, "x")
	exchange(t, other, "y")
	close(release)
	must.Get(io.ReadFull(blocked, make([]byte, 1)))(t)
	exchange(t, blocked, "z")
}

// exchange sends a byte and gets it back.
func exchange(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_ = must.Get(conn.Write([]byte(text)))(t)
	got := make([]byte, len(text))
	must.Get(io.ReadFull(conn, got))(t)
	if string(got) != text {
		t.Errorf("got %q for %q", got, text)
	}
}

// TestDetach makes connections those of package net, with their deadline.
func TestDetach(t *testing.T) {
	expired := make(chan error, 1)
	to := listen(t, group(t, 1), func(task *eventloop.Task, c *eventloop.Conn) {
		one := make([]byte, 1)
		_, _ = c.Read(one)
		task.Leave()
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		conn, err := c.Detach()
		if err != nil {
			expired <- err
			return
		}
		defer conn.Close()
		_, _ = conn.Write(one)
		_, err = conn.Read(one)
		expired <- err
		if c.Close() == nil {
			t.Error("a connection that was detached is not closed")
		}
	})
	conn := dial(t, to)
	exchange(t, conn, "d")
	if err := <-expired; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the close: %v", err)
	}
}

// TestServeNext has no task between two requests.
func TestServeNext(t *testing.T) {
	over := make(chan error, 3)
	g := must.Get(eventloop.New(1))(t)
	defer g.Close()
	var next func(c *eventloop.Conn) func(*eventloop.Task)
	next = func(c *eventloop.Conn) func(*eventloop.Task) {
		return func(*eventloop.Task) {
			if err := c.ReadOver(); err != nil {
				over <- err
				c.Close()
				return
			}
			one := make([]byte, 1)
			if _, err := c.Read(one); err != nil {
				over <- err
				c.Close()
				return
			}
			_, _ = c.Write(one)
			if one[0] == 't' {
				_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			}
			c.ServeNext(next(c))
		}
	}
	fd, to := socket(t)
	acceptor := must.Get(g.Accept(fd, nil, func(c *eventloop.Conn) { c.Serve(next(c)) }, func(error) time.Duration { return 0 }))(t)
	defer acceptor.Stop()
	idle, gone := dial(t, to), dial(t, to)
	for _, text := range []string{"a", "b", "c"} {
		exchange(t, idle, text)
		exchange(t, gone, text)
	}
	exchange(t, idle, "t")
	if err := <-over; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the idle one ended with %v", err)
	}
	must.Do(t, gone.Close())
	if err := <-over; err != io.EOF {
		t.Errorf("the one whose client left ended with %v", err)
	}
}

// socket is a listening socket.
func socket(t *testing.T) (int, netip.AddrPort) {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.Do(t, unix.Listen(fd, 128))
	bound := must.Get(unix.Getsockname(fd))(t).(*unix.SockaddrInet4)
	return fd, netip.AddrPortFrom(netip.AddrFrom4(bound.Addr), uint16(bound.Port))
}

// TestDial connects on a loop, and reports why it cannot.
func TestDial(t *testing.T) {
	g := group(t, 2)
	backend := listen(t, g, echo)
	fd, closed := socket(t)
	must.Do(t, unix.Close(fd))
	result := make(chan error, 1)
	front := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
		_, err := task.Dial(closed, time.Now().Add(patience))
		result <- err
		remote, err := task.Dial(backend, time.Now().Add(patience))
		if err != nil {
			result <- err
			return
		}
		defer remote.Close()
		if remote.Source().Addr() != backend.Addr() {
			t.Errorf("connected from %v", remote.Source())
		}
		buf := make([]byte, 100)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			_, _ = remote.Write(buf[:n])
			must.Get(io.ReadFull(remote, buf[:n]))(t)
			_, _ = c.Write(buf[:n])
		}
	})
	conn := dial(t, front)
	if err := <-result; !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a closed port gave %v", err)
	}
	exchange(t, conn, "through a loop")
	exchange(t, conn, "and again")
}

// TestMove lends connections to the tasks of two loops in turn, and looks whether their peer
// is quiet.
func TestMove(t *testing.T) {
	g := group(t, 2)
	backend := listen(t, g, echo)
	var pool sync.Mutex
	var kept *eventloop.Conn
	var moved, dialed atomic.Int32
	front := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
		one := make([]byte, 1)
		for {
			if _, err := c.Read(one); err != nil {
				return
			}
			pool.Lock()
			remote := kept
			kept = nil
			pool.Unlock()
			if remote == nil {
				dialed.Add(1)
				remote = must.Get(task.Dial(backend, time.Now().Add(patience)))(t)
			}
			if remote.Loop() != task.Loop() {
				moved.Add(1)
				must.Do(t, remote.Move(task.Loop()))
			}
			remote.Bind(task)
			_, _ = remote.Write(one)
			must.Get(io.ReadFull(remote, one))(t)
			remote.Bind(nil)
			pool.Lock()
			kept = remote
			pool.Unlock()
			_, _ = c.Write(one)
		}
	})
	clients := make([]*net.TCPConn, 8)
	for i := range clients {
		clients[i] = dial(t, front)
	}
	for range 20 {
		for _, conn := range clients {
			exchange(t, conn, "m")
		}
	}
	pool.Lock()
	must.Do(t, kept.Close())
	pool.Unlock()
	if dialed.Load() != 1 {
		t.Errorf("%d connections for one request at a time", dialed.Load())
	}
	if moved.Load() == 0 {
		t.Error("all clients are on one loop")
	}
}

// TestQuiet distinguishes a peer that sent nothing since an exchange.
func TestQuiet(t *testing.T) {
	g := group(t, 1)
	type state struct{ before, after bool }
	states := make(chan state, 1)
	speak := make(chan struct{})
	to := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
		first := make([]byte, 10)
		if _, _ = c.Read(first); first[0] != 'q' {
			_, _ = c.Write(first[:1])
			echo(task, c)
			return
		}
		waits := c.Loop().Waits()
		task.Leave()
		for c.Loop().Waits() <= waits {
			runtime.Gosched()
		}
		before := c.Quiet(waits)
		speak <- struct{}{}
		for c.Quiet(waits) {
			runtime.Gosched()
		}
		states <- state{before, c.Quiet(waits)}
	})
	conn := dial(t, to)
	_ = must.Get(conn.Write([]byte("q")))(t)
	other := dial(t, to)
	for quiet := false; !quiet; { // a loop looks at events when there are some
		exchange(t, other, "x")
		select {
		case <-speak:
			quiet = true
		default:
		}
	}
	_ = must.Get(conn.Write([]byte("unexpected")))(t)
	if got := <-states; !got.before || got.after {
		t.Errorf("quiet before: %v, after: %v", got.before, got.after)
	}
}

// TestFairness serves a client beside one that never waits.
func TestFairness(t *testing.T) {
	g := group(t, 1)
	to := listen(t, g, func(task *eventloop.Task, c *eventloop.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if n == 1 {
				_, _ = c.Write(buf[:1])
			}
		}
	})
	busy, other := dial(t, to), dial(t, to)
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		piece := make([]byte, 1<<20)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = busy.Write(piece)
			}
		}
	})
	for range 200 {
		exchange(t, other, "f")
	}
	close(stop)
	sending.Wait()
}

// TestStopAccepting leaves connections that were accepted alone.
func TestStopAccepting(t *testing.T) {
	g := group(t, 2)
	fd, to := socket(t)
	serve := func(c *eventloop.Conn) {
		c.Serve(func(task *eventloop.Task) {
			defer c.Close()
			echo(task, c)
		})
	}
	acceptor := must.Get(g.Accept(fd, nil, serve, func(error) time.Duration { return 0 }))(t)
	conn := dial(t, to)
	exchange(t, conn, "before")
	acceptor.Stop()
	exchange(t, conn, "after")
	late := dial(t, to) // the kernel's queue takes it
	must.Do(t, late.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_ = must.Get(late.Write([]byte("x")))(t)
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection was accepted after Stop: %v", err)
	}
	again := must.Get(g.Accept(fd, nil, serve, func(error) time.Duration { return 0 }))(t)
	defer again.Stop()
	must.Do(t, late.SetReadDeadline(time.Now().Add(patience)))
	must.Get(io.ReadFull(late, make([]byte, 1)))(t)
}

// TestIdleTasks keeps no coroutines that are not needed.
func TestIdleTasks(t *testing.T) {
	before := runtime.NumGoroutine()
	to := listen(t, group(t, 1), echo)
	var conns []*net.TCPConn
	for range 100 {
		conns = append(conns, dial(t, to))
	}
	for _, conn := range conns {
		exchange(t, conn, "x")
	}
	if most := runtime.NumGoroutine(); most < before+100 {
		t.Errorf("%d goroutines serve 100 clients", most-before)
	}
	for _, conn := range conns {
		must.Do(t, conn.Close())
	}
	for over := time.Now().Add(patience); runtime.NumGoroutine() > before+5; runtime.Gosched() {
		if time.Now().After(over) {
			t.Fatalf("%d goroutines are left", runtime.NumGoroutine()-before)
		}
	}
}
