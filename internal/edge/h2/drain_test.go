package h2_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
)

func isGoAway(last uint32) func(event) bool {
	return func(e event) bool {
		return e.kind == http2.FrameGoAway && e.code == http2.ErrCodeNo && e.last == last
	}
}

// waitEmpty waits until all connections are gone.
func waitEmpty(t testing.TB, s *server) {
	t.Helper()
	give := time.After(bridgetest.Timeout)
	for s.Len() > 0 {
		select {
		case <-give:
			t.Fatalf("%d connections are left", s.Len())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Drain sends GOAWAY first and refuses later; running streams end by themselves.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	s := start(t, h2.Config{DrainNotice: 300 * time.Millisecond, Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		if string(x.Head.Method()) == "GET" {
			<-release
		}
		_ = x.Respond(200, "ok")
	})}, nil)
	busy, idle := dial(t, s), dial(t, s)
	must.Do(t, busy.open(1, true))
	roundTrip(t, busy)
	roundTrip(t, idle)
	if s.Len() != 2 {
		t.Errorf("%d connections", s.Len())
	}
	s.Drain()
	s.Drain() // once is enough
	const allStreams = 1<<31 - 1
	busy.await(t, "the notice", isGoAway(allStreams))
	idle.await(t, "the notice", isGoAway(allStreams))
	// What was on its way is served.
	must.Do(t, busy.open(3, true, ":method: POST"))
	busy.await(t, "an answer", answered(3))
	busy.await(t, "the last stream", isGoAway(3))
	idle.await(t, "the last stream", isGoAway(0))
	idle.await(t, "the end", isGone)
	// What comes after that is not.
	must.Do(t, busy.open(5, true, ":method: POST"))
	roundTrip(t, busy)
	if busy.count(answered(5)) > 0 {
		t.Error("a request after GOAWAY was answered")
	}
	close(release)
	busy.await(t, "an answer", answered(1))
	busy.await(t, "the end", isGone)
	waitEmpty(t, s)
}

// A connection that comes during a drain gets GOAWAY with its first response.
func TestLateConnection(t *testing.T) {
	s := start(t, h2.Config{Handler: waits(), DrainNotice: time.Minute}, nil)
	s.Drain()
	p := dial(t, s)
	must.Do(t, p.open(1, true, ":method: POST"))
	if e := p.await(t, "an answer", answered(1)); e.status != "200" {
		t.Errorf("answered %s", e.status)
	}
	p.await(t, "GOAWAY", isGoAway(1))
	p.await(t, "the end", isGone)
	waitEmpty(t, s)
}

// A client that goes on asking loses nothing.
func TestDrainUnderLoad(t *testing.T) {
	s := start(t, h2.Config{DrainNotice: 100 * time.Millisecond, Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		body, _, err := x.Upload()
		if err != nil {
			t.Error(err)
		}
		_ = x.Respond(200, string(body))
	})}, nil)
	c := client(t, nil)
	for i := range 300 {
		if i == 100 {
			s.Drain()
		}
		response, err := c.Post("http://"+s.addr, "", strings.NewReader("hello"))
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(body) != "hello" {
			t.Fatalf("request %d: %q, %v", i, body, err)
		}
	}
}

// A client with many streams that goes on asking has to be refused at most in
// ways that let it ask again.
func TestFloodDuringDrain(t *testing.T) {
	s := start(t, h2.Config{DrainNotice: time.Millisecond, Handler: waits()}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, true))
	roundTrip(t, p)
	s.Drain()
	p.await(t, "GOAWAY", isGoAway(1))
	for i := range 500 {
		if p.open(uint32(2*i+3), true) != nil {
			break
		}
	}
	if reason := bridgetest.Within(t, "the end", s.reasons); reason != h2.ReasonStreams {
		t.Errorf("ended because of %s", reason)
	}
}

// ServeConn waits for its requests, and Close ends them.
func TestCloseWaits(t *testing.T) {
	ended, release := make(chan struct{}), make(chan struct{})
	s := start(t, h2.Config{Handler: lasting(func(ctx context.Context) {
		<-ctx.Done()
		close(ended)
		<-release
	})}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, true))
	roundTrip(t, p)
	s.Close()
	bridgetest.Within(t, "the end of the context", ended)
	p.await(t, "the end", isGone)
	select {
	case <-s.reasons:
		t.Error("the connection ended before its request")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	bridgetest.Within(t, "the end", s.reasons)
}
