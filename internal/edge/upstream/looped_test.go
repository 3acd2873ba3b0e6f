//go:build linux

package upstream_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// startLoops gives event loops that end with the test. It is called before newWorld, because
// connections to endpoints are theirs.
func startLoops(t testing.TB, count int) []*eventloop.Loop {
	t.Helper()
	found := make(chan *eventloop.Loop, count)
	address := edgetest.ServeOnLoops(t, count, testTimeout, func(conn net.Conn) {
		defer conn.Close()
		found <- eventloop.Of(conn).Loop()
		_, _ = conn.Read(make([]byte, 1)) // connections that are open are divided
	})
	loops := make([]*eventloop.Loop, count)
	programs.Until(t, "a connection on each loop", func() bool {
		conn := must.Get(net.Dial("tcp", address))(t)
		t.Cleanup(func() { conn.Close() })
		loop := programs.Receive(t, found, "an event loop")
		loops[loop.Index()] = loop
		for _, loop := range loops {
			if loop == nil {
				return false
			}
		}
		return true
	})
	return loops
}

// exchangeIn is exchange by a task of an event loop, which it must not leave.
func exchangeIn(t testing.TB, task *eventloop.Task, h *upstream.Handle) {
	lease, err := h.Pick(upstream.PickOptions{})
	if err != nil {
		t.Errorf("pick: %v", err)
		return
	}
	defer lease.Done(upstream.OK)
	conn, err := lease.ConnectIn(task, testTimeout, false)
	if err != nil {
		t.Errorf("connect: %v", err)
		return
	}
	request(t, conn, http.StatusNoContent)
	if !task.OnLoop() {
		t.Error("the task has left its loop")
	}
}

// TestSharedByLoop: the tasks of a loop share connections, and no others. One is made at a time.
func TestSharedByLoop(t *testing.T) {
	for _, test := range []struct{ streams, requests, connects int }{{0, 30, 3}, {10, 25, 9}, {1, 4, 12}} {
		t.Run(fmt.Sprint(test.streams, "for", test.requests), func(t *testing.T) {
			server := newHold()
			address := runHTTP2(t, server.serve, func(s *http.Server) {
				s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: test.streams}
			})
			loops := startLoops(t, 2)
			w := newWorld(t, upstream.Config{})
			w.serve(h2cart(address))
			h := w.Handle(shop)
			var running sync.WaitGroup
			for range test.requests {
				running.Go(func() { exchange(t, h, http.StatusNoContent) })
				for _, loop := range loops {
					running.Add(1)
					loop.Start(func(task *eventloop.Task) {
						defer running.Done()
						exchangeIn(t, task, h)
					})
				}
			}
			for range 3 * test.requests {
				programs.Receive(t, server.arrived, "a request")
			}
			if got := w.state(t, address); got.Open != int64(test.connects) || got.InFlight != int64(3*test.requests) {
				t.Errorf("%d connections for %d requests, want %d for %d", got.Open, got.InFlight, test.connects, 3*test.requests)
			}
			close(server.free)
			running.Wait()
			if got := w.state(t, address); got.Idle != test.connects {
				t.Errorf("%d idle connections, want %d", got.Idle, test.connects)
			}
			if stats := w.Stats(); stats.Connects != uint64(test.connects) || stats.Streams != uint64(3*test.requests) || stats.Refused != 0 {
				t.Errorf("counted: %+v", stats)
			}
			w.serve(cart(newPod(t).address)) // the shared connections end with their endpoint
		})
	}
}

// TestConnectInFails: a task gets the errors that goroutines get, and one for what is not for tasks.
func TestConnectInFails(t *testing.T) {
	closed := listen(t, "127.0.0.1:0")
	must.Do(t, closed.Close())
	own := runHTTP2(t, proto)
	silent := script(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<10)); _, _ = conn.Read(make([]byte, 1<<10)) })
	loop := startLoops(t, 1)[0]
	for _, test := range []struct {
		name    string
		backend *route.Backend
		want    func(error) bool
	}{
		{"closed", h2cart(closed.Addr().String()), isConnectError},
		{"http1", h2cart(newPod(t).address), isConnectError},
		{"own", h2cart(own), func(err error) bool { return errors.Is(err, upstream.ErrOwnAddress) }},
		{"silent", h2cart(silent), isConnectError},
		{"host", &route.Backend{
			ID: shop, Transport: route.Transport{Protocol: route.ProtocolH2C}, Endpoints: []route.Endpoint{{Host: "localhost", Port: 80}},
		}, func(err error) bool { return err == upstream.ErrNotLooped }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.SetOwn([]netip.AddrPort{netip.MustParseAddrPort(own)})
			w.serve(test.backend)
			failed := make(chan error, 1)
			loop.Start(func(task *eventloop.Task) {
				lease := pick(t, w.Handle(shop), upstream.PickOptions{})
				defer lease.Done(upstream.ConnectFailed)
				timeout := testTimeout
				if test.name == "silent" {
					timeout /= 600
				}
				_, err := lease.ConnectIn(task, timeout, false)
				failed <- err
			})
			if err := programs.Receive(t, failed, "the end of connecting"); !test.want(err) {
				t.Errorf("error %v", err)
			}
			if got := w.Stats().ConnectFailures; got != 1 && test.name != "host" {
				t.Errorf("%d failures were counted, want 1", got)
			}
		})
	}
}

func isConnectError(err error) bool { return errors.As(err, new(*upstream.ConnectError)) }
