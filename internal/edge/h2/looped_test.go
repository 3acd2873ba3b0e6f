//go:build linux

package h2_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
)

// startLooped is start on event loops.
func startLooped(t testing.TB, cfg h2.Config, certificate *tls.Certificate, loops int) *server {
	t.Helper()
	s := &server{}
	s.Server = must.Get(h2.New(cfg))(t)
	s.addr = edgetest.ServeOnLoops(t, loops, h1.DefaultTimeouts().Head, func(conn net.Conn) {
		if certificate != nil {
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"h2"}})
			if secure.Handshake() != nil {
				conn.Close()
				return
			}
			conn = secure
		}
		s.ServeConn(t.Context(), conn)
	})
	t.Cleanup(s.Close)
	return s
}

// taskConn is a stream that may be a task.
type taskConn interface {
	Task() *eventloop.Task
	Leave()
}

// taskOf is the task that serves a stream.
func taskOf(conn net.Conn) *eventloop.Task { return conn.(taskConn).Task() }

// leaving makes the streams of a handler leave their event loop, as those do that wait for more than
// connections.
func leaving(handler *bridge.Handler) *bridge.Handler {
	serve := handler.Serve
	handler.Serve = func(s bridge.Stream, conn net.Conn) {
		conn.(taskConn).Leave()
		serve(s, conn)
	}
	return handler
}

// eachTransport runs a test on plain and on encrypted connections.
func eachTransport(t *testing.T, run func(t *testing.T, certificate *tls.Certificate, roots *x509.CertPool, scheme string)) {
	t.Run("plain", func(t *testing.T) { run(t, nil, nil, "http") })
	t.Run("encrypted", func(t *testing.T) {
		certificate, roots := newCertificate(t)
		run(t, certificate, roots, "https")
	})
}

// TestLoopedExchanges serves everything on event loops, by streams and connections that leave
// them.
func TestLoopedExchanges(t *testing.T) {
	eachTransport(t, func(t *testing.T, certificate *tls.Certificate, roots *x509.CertPool, scheme string) {
		bridgetest.Run(t, func(t *testing.T, handler *bridge.Handler) bridgetest.World {
			s := startLooped(t, h2.Config{Handler: leaving(handler)}, certificate, 2)
			return bridgetest.World{URL: scheme + "://" + s.addr, Client: client(t, roots), Major: 2}
		})
	})
}

// TestLoopedStreams serves many streams of one connection as tasks of one loop. Their bodies, in both
// directions at once, are larger than the windows, so that each task waits for the client
// while others run.
func TestLoopedStreams(t *testing.T) {
	const streams, size = 12, 1 << 20
	eachTransport(t, func(t *testing.T, certificate *tls.Certificate, roots *x509.CertPool, scheme string) {
		var away atomic.Int32
		handler := bridgetest.Handler(func(x *bridgetest.Exchange) {
			if err := x.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", x.Head.Length)); err != nil {
				t.Error(err)
				return
			}
			if _, err := x.UploadTo(x.Conn); err != nil {
				t.Error(err)
			}
			if !taskOf(x.Conn).OnLoop() {
				away.Add(1)
			}
		})
		s := startLooped(t, h2.Config{Handler: handler}, certificate, 1)
		c := client(t, roots)
		var running sync.WaitGroup
		for i := range streams {
			running.Go(func() {
				body := strings.Repeat(string(rune('a'+i)), size)
				response, err := c.Post(scheme+"://"+s.addr, "", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				defer response.Body.Close()
				if got, err := io.ReadAll(response.Body); err != nil || string(got) != body {
					t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		running.Wait()
		if n := away.Load(); n > 0 {
			t.Errorf("%d streams left the event loop", n)
		}
	})
}

// TestDeparture makes a connection whose requests all leave the event loop one of goroutines,
// and no other.
func TestDeparture(t *testing.T) {
	eachTransport(t, func(t *testing.T, certificate *tls.Certificate, roots *x509.CertPool, scheme string) {
		handler := leaving(bridgetest.Handler(func(x *bridgetest.Exchange) {
			_ = x.Respond(http.StatusOK, fmt.Sprint(taskOf(x.Conn) != nil))
		}))
		s := startLooped(t, h2.Config{Handler: handler}, certificate, 2)
		c := client(t, roots)
		var got []string
		for range 10 {
			response := must.Get(c.Get(scheme + "://" + s.addr))(t)
			got = append(got, string(must.Get(io.ReadAll(response.Body))(t)))
			response.Body.Close()
		}
		want := strings.Repeat("true ", 4) + strings.TrimSpace(strings.Repeat("false ", 6))
		if strings.Join(got, " ") != want {
			t.Errorf("requests on the event loop: %v, want %s", got, want)
		}
	})
}
