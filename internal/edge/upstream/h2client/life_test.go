package h2client_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestSilence: an endpoint that does not acknowledge a PING is given up.
func TestSilence(t *testing.T) {
	cfg := config()
	cfg.PingAfter, cfg.PingTimeout = time.Millisecond, 10*time.Millisecond
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		p.drain()
	}), cfg)
	s := open(t, c)
	say(t, s, get)
	if _, err := hear(s, h1.RequestInfo{}); !errors.Is(err, h2client.ErrPingTimeout) {
		t.Errorf("error %v, want ErrPingTimeout", err)
	}
}

// TestPings: an endpoint that acknowledges a PING is kept, and gets no second one.
func TestPings(t *testing.T) {
	cfg := config()
	cfg.PingAfter, cfg.PingTimeout = time.Millisecond, 20*time.Millisecond
	pings := make(chan int, 1)
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		id := p.request()
		f, _ := p.next().(*http2.PingFrame)
		if f == nil {
			t.Error("there was no PING")
			return
		}
		p.check(p.framer.WritePing(true, f.Data))
		_ = p.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		count := 1
		for p.next() != nil {
			count++
		}
		pings <- count
		_ = p.conn.SetReadDeadline(time.Now().Add(testTimeout))
		p.headers(id, true, ":status", "204")
		p.drain()
	}), cfg)
	s := open(t, c)
	say(t, s, get)
	listen(t, s, h1.RequestInfo{})
	if count := <-pings; count != 1 {
		t.Errorf("%d PINGs in a row, want one: servers of gRPC take more for an attack", count)
	}
}

// TestDoubt: after a stream that was given up in silence, no other is opened
// until the endpoint shows that it lives.
func TestDoubt(t *testing.T) {
	cfg := config()
	cfg.PingTimeout = 400 * time.Millisecond
	answer := make(chan struct{})
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		for {
			switch f := p.next().(type) {
			case *http2.PingFrame:
				<-answer
				p.check(p.framer.WritePing(true, f.Data))
			case nil:
				return
			}
		}
	}), cfg)
	s := open(t, c)
	say(t, s, get)
	must.Do(t, s.SetReadDeadline(time.Now().Add(60*time.Millisecond)))
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Fatal("there was an answer")
	}
	s.Close()
	if take(t, c) != nil {
		t.Error("a stream was opened in doubt")
	}
	close(answer)
	programs.Until(t, "the end of the doubt", func() bool {
		s := take(t, c)
		if s != nil {
			s.Close()
		}
		return s != nil
	})
}

// TestIdle: a connection without streams is closed after a while, with a
// goodbye.
func TestIdle(t *testing.T) {
	cfg := config()
	cfg.IdleTimeout = time.Millisecond
	goodbye := make(chan bool, 1)
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		_, is := p.next().(*http2.GoAwayFrame)
		goodbye <- is
		p.drain()
	}), cfg)
	if s := take(t, c); s != nil {
		s.Close()
	}
	if !programs.Receive(t, goodbye, "the goodbye") {
		t.Error("there was something else than GOAWAY")
	}
	programs.Receive(t, c.Done(), "the end of the connection")
}

// TestRetire: streams come to their end, and the connection does after them.
func TestRetire(t *testing.T) {
	wait := make(chan struct{})
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { <-wait })
	c := start(t, address, config())
	running, promised := open(t, c), open(t, c)
	say(t, running, get)
	c.Drain()
	if take(t, c) != nil {
		t.Error("a stream was opened after Retire")
	}
	say(t, promised, get)
	close(wait)
	for _, s := range []*stream{running, promised} {
		if got := listen(t, s, h1.RequestInfo{}); got.status != 200 {
			t.Errorf("status %d, want 200", got.status)
		}
	}
	programs.Receive(t, c.Done(), "the end of the connection")
}
