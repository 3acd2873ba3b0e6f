//go:build linux

package h2client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// startLoop gives a loop that ends with the test: the one that has a connection to it.
func startLoop(t testing.TB) *eventloop.Loop {
	t.Helper()
	loops := make(chan *eventloop.Loop, 1)
	address := edgetest.ServeOnLoops(t, 1, testTimeout, func(conn net.Conn) {
		loops <- eventloop.Of(conn).Loop()
		conn.Close()
	})
	must.Do(t, must.Get(net.Dial("tcp", address))(t).Close())
	return programs.Receive(t, loops, "the event loop")
}

// onLoop makes the tests use an event loop, until the end of the test.
func onLoop(t testing.TB, tasks, leave bool) {
	t.Helper()
	before := suite
	suite.loop, suite.tasks, suite.leave = startLoop(t), tasks, leave
	t.Cleanup(func() { suite = before })
}

// TestLooped runs the other tests with connections of an event loop, whose streams are used by
// goroutines, by tasks of that loop, or by tasks that have left it.
func TestLooped(t *testing.T) {
	tests := []struct {
		name string
		run  func(*testing.T)
		// two is set if a stream has two users at once, which tasks cannot be.
		two bool
	}{
		{"Requests", TestRequests, false}, {"Responses", TestResponses, false}, {"Duplex", TestDuplex, false},
		{"WrongRequests", TestWrongRequests, false}, {"MalformedResponses", TestMalformedResponses, false},
		{"BrokenConnections", TestBrokenConnections, false}, {"Window", TestWindow, false}, {"PingFlood", TestPingFlood, false},
		{"SlowReader", TestSlowReader, false}, {"LargeBodies", TestLargeBodies, true}, {"ManyStreams", TestManyStreams, true},
		{"Silence", TestSilence, false}, {"Pings", TestPings, false}, {"Doubt", TestDoubt, false}, {"Idle", TestIdle, false},
		{"Retire", TestRetire, false}, {"RefusedStream", TestRefusedStream, false}, {"ResetStream", TestResetStream, false},
		{"GoAway", TestGoAway, false}, {"ConnectionEnds", TestConnectionEnds, false}, {"Start", TestStart, false},
		{"StreamsLater", TestStreamsLater, false}, {"LimitOfStreams", TestLimitOfStreams, false}, {"Deadlines", TestDeadlines, false},
		{"CloseEndsWaits", TestCloseEndsWaits, false}, {"CloseCancels", TestCloseCancels, false}, {"EarlyAnswer", TestEarlyAnswer, false},
		{"UnreadRequests", TestUnreadRequests, false},
	}
	for _, by := range []struct {
		name         string
		tasks, leave bool
	}{{"goroutines", false, false}, {"tasks", true, false}, {"left", true, true}} {
		t.Run(by.name, func(t *testing.T) {
			onLoop(t, by.tasks, by.leave)
			for _, test := range tests {
				if !test.two || !by.tasks || by.leave {
					t.Run(test.name, test.run)
				}
			}
		})
	}
}

// TestLoopedStreams sends pieces that are larger than the windows there and back, by tasks of one
// loop: each of them waits for the endpoint while others run.
func TestLoopedStreams(t *testing.T) {
	const streams, pieces, size = 12, 20, 90 << 10
	onLoop(t, true, false)
	c := start(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
		_ = control.Flush()
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Body.Read(buf)
			_, _ = w.Write(buf[:n])
			_ = control.Flush()
			if err != nil {
				return
			}
		}
	}, func(s *http.Server) {
		s.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 32 << 10}
	}), config())
	var running sync.WaitGroup
	for i := range streams {
		running.Add(1)
		suite.loop.Start(func(task *eventloop.Task) {
			defer running.Done()
			s := c.OpenStream(task)
			defer s.Close()
			if _, err := fmt.Fprintf(s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", pieces*size); err != nil {
				t.Error(err)
				return
			}
			in := bufio.NewReader(s)
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			piece, got := strings.Repeat(string(rune('a'+i)), size), make([]byte, size)
			for n := range pieces {
				_, err := io.WriteString(s, piece)
				if err == nil {
					_, err = io.ReadFull(response.Body, got)
				}
				if err != nil || string(got) != piece {
					t.Errorf("stream %d, piece %d: %v", i, n, err)
					return
				}
			}
			if !task.OnLoop() {
				t.Errorf("stream %d has left its loop", i)
			}
		})
	}
	running.Wait()
}

// TestLeaveInExchange has a task leave its loop in the middle of an exchange, and go on as two
// goroutines.
func TestLeaveInExchange(t *testing.T) {
	const size = 1 << 20
	onLoop(t, true, false)
	c := start(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, r.Body)
	}), config())
	done := make(chan struct{})
	suite.loop.Start(func(task *eventloop.Task) {
		defer close(done)
		s := c.OpenStream(task)
		defer s.Close()
		_, err := fmt.Fprintf(s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n0", size)
		if err == nil {
			_, err = s.Read(make([]byte, 1)) // on the loop, as the write was
		}
		task.Leave()
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(s, strings.Repeat("0", size-1))
			sent <- err
		}()
		got, readErr := io.ReadAll(s)
		if err := errors.Join(err, readErr, <-sent); err != nil || len(got) < size {
			t.Errorf("%d of %d bytes came back: %v", len(got), size, err)
		}
	})
	programs.Receive(t, done, "the end of the exchange")
}

// TestUnreadRequests: an endpoint that reads nothing delays its own requests only, and no longer
// than the write timeout.
func TestUnreadRequests(t *testing.T) {
	release := make(chan struct{})
	cfg := config()
	cfg.WriteTimeout = 500 * time.Millisecond
	silent := start(t, play(t, func(p *peer) {
		p.welcome(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		p.check(p.framer.WriteWindowUpdate(0, 1<<30))
		<-release
	}), cfg)
	defer close(release)
	lively := start(t, serve(t, mirror), config())
	first, second := open(t, silent), open(t, silent)
	failed := make(chan error, 2)
	for _, s := range []*stream{first, second} {
		go func() {
			_, err := io.WriteString(s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
			for piece := strings.Repeat("x", 64<<10); err == nil; {
				_, err = io.WriteString(s, piece)
			}
			failed <- err
		}()
	}
	for range 20 {
		s := open(t, lively)
		say(t, s, get)
		if got := listen(t, s, h1.RequestInfo{}); got.status != http.StatusOK {
			t.Errorf("status %d of another endpoint", got.status)
		}
		s.Close()
	}
	for range 2 {
		if err := programs.Receive(t, failed, "the end of a write"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v, want a timeout", err)
		}
	}
	programs.Receive(t, silent.Done(), "the end of the connection")
}

// TestStartCanceled ends a Start on a loop with its context, which leaves nothing behind.
func TestStartCanceled(t *testing.T) {
	onLoop(t, true, false)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	address := play(t, func(p *peer) {
		close(asked)
		p.drain()
	})
	go func() {
		<-asked
		cancel()
	}()
	if _, err := begin(t, ctx, address, config()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
