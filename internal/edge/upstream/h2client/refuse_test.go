package h2client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// TestRefusedStream: a request that was not looked at may be sent again.
func TestRefusedStream(t *testing.T) {
	s := open(t, start(t, play(t, func(p *peer) {
		p.welcome()
		p.check(p.framer.WriteRSTStream(p.request(), http2.ErrCodeRefusedStream))
		p.drain()
	}), config()))
	if s.Reused() {
		t.Error("the first stream says that its connection was used before")
	}
	say(t, s, get)
	_, err := hear(s, h1.RequestInfo{})
	if !errors.Is(err, h2client.ErrRefused) || !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want ErrRefused, which is an io.EOF", err)
	}
	if !s.Refused() || !s.Reused() {
		t.Error("it does not say that it was refused")
	}
}

// TestResetStream: any other reset means that the endpoint may have handled the request.
func TestResetStream(t *testing.T) {
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		p.check(p.framer.WriteRSTStream(p.request(), http2.ErrCodeInternal))
		late := p.request()
		p.headers(late, false, ":status", "200")
		p.check(p.framer.WriteData(late, false, []byte("half")))
		p.check(p.framer.WriteRSTStream(late, http2.ErrCodeRefusedStream))
		p.drain()
	}), config())
	s := open(t, c)
	say(t, s, get)
	var reset *h2client.ResetError
	if _, err := hear(s, h1.RequestInfo{}); !errors.As(err, &reset) || reset.Code != http2.ErrCodeInternal || errors.Is(err, io.EOF) {
		t.Errorf("error %v, want a ResetError that is no io.EOF", err)
	}
	// After the first byte of a response, a reset is no refusal.
	s = open(t, c)
	say(t, s, get)
	got, err := hear(s, h1.RequestInfo{})
	if !errors.As(err, &reset) || s.Refused() || got.body != "half" {
		t.Errorf("error %v, refused %v, body %q; want a ResetError after half a body", err, s.Refused(), got.body)
	}
}

// TestGoAway: streams that the endpoint will not look at are refused, those
// that run come to their end, and then the connection is closed.
func TestGoAway(t *testing.T) {
	wait := make(chan struct{})
	ended := make(chan struct{})
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		first, second := p.request(), p.request()
		p.check(p.framer.WriteGoAway(first, http2.ErrCodeNo, nil))
		<-wait
		p.headers(first, true, ":status", "204")
		if second != first+2 {
			t.Errorf("streams %d and %d", first, second)
		}
		p.drain()
		close(ended)
	}), config())
	first, second, late := open(t, c), open(t, c), open(t, c)
	say(t, first, get)
	say(t, second, get)
	if _, err := hear(second, h1.RequestInfo{}); !errors.Is(err, h2client.ErrRefused) {
		t.Errorf("above the last stream: error %v, want ErrRefused", err)
	}
	if take(t, c) != nil || !c.Closing() {
		t.Error("the connection takes more streams after GOAWAY")
	}
	if _, err := io.WriteString(late, get); !errors.Is(err, h2client.ErrRefused) || !late.Refused() {
		t.Errorf("a stream that was promised before: error %v, want ErrRefused", err)
	}
	if _, err := hear(late, h1.RequestInfo{}); !errors.Is(err, h2client.ErrRefused) {
		t.Errorf("reading of it: error %v, want ErrRefused", err)
	}
	close(wait)
	if got := listen(t, first, h1.RequestInfo{}); got.status != 204 {
		t.Errorf("status %d of the stream that ran, want 204", got.status)
	}
	programs.Receive(t, ended, "the end of the connection")
}

// TestConnectionEnds: what a stream ends with when its connection does.
func TestConnectionEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(p *peer, id uint32)
		want error
	}{
		{"before", func(*peer, uint32) {}, io.EOF},
		{"reset", func(p *peer, _ uint32) { _ = p.conn.(*net.TCPConn).SetLinger(0) }, io.EOF},
		{"after", func(p *peer, id uint32) { p.headers(id, false, ":status", "200") }, io.ErrUnexpectedEOF},
		{"between", func(p *peer, id uint32) { p.headers(id, false, ":status", "103") }, io.ErrUnexpectedEOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, start(t, play(t, func(p *peer) {
				p.welcome()
				test.act(p, p.request())
			}), config()))
			say(t, s, get)
			if _, err := hear(s, h1.RequestInfo{}); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if s.Refused() {
				t.Error("it says that it was refused")
			}
		})
	}
}

// TestStart: an endpoint has to begin as HTTP/2 does, and to take a stream.
func TestStart(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(p *peer)
		want string
	}{
		{"http1", func(p *peer) { _, _ = io.WriteString(p.conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") }, "does not speak HTTP/2"},
		{"ssh", func(p *peer) { _, _ = io.WriteString(p.conn, "SSH-2.0-x\r\n") }, "does not speak HTTP/2"},
		{"ping", func(p *peer) { p.check(p.framer.WritePing(false, [8]byte{})) }, "does not speak HTTP/2"},
		{"ack", func(p *peer) { p.check(p.framer.WriteSettingsAck()) }, "does not speak HTTP/2"},
		{"closed", func(*peer) {}, "closed the connection before its first frame"},
		{"silent", func(p *peer) { p.drain() }, "did not start HTTP/2 in time"},
		{"noStreams", func(p *peer) {
			p.welcome(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
			p.drain()
		}, "did not start HTTP/2 in time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := play(t, test.act)
			limit := testTimeout
			if strings.HasSuffix(test.want, "in time") {
				limit = 20 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			ended := make(chan struct{})
			cfg := config()
			cfg.OnClose = func(*h2client.Conn) { close(ended) }
			_, err := begin(t, ctx, address, cfg)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with: %s", err, test.want)
			}
			programs.Receive(t, ended, "the end of the connection")
		})
	}
}

// TestStreamsLater: one that takes none at first may take some later.
func TestStreamsLater(t *testing.T) {
	c := start(t, play(t, func(p *peer) {
		p.welcome(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
		p.welcome(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
		p.welcome(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		p.headers(p.request(), true, ":status", "204")
		p.drain()
	}), config())
	s := open(t, c)
	say(t, s, get)
	listen(t, s, h1.RequestInfo{})
}

// TestLimitOfStreams: no more streams than the endpoint takes, and as many.
func TestLimitOfStreams(t *testing.T) {
	c := start(t, play(t, func(p *peer) {
		p.welcome(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
		p.request()
		p.headers(p.request(), true, ":status", "204")
		p.drain()
	}), config())
	first, second := open(t, c), open(t, c)
	if take(t, c) != nil {
		t.Error("there was a third stream")
	}
	say(t, first, get)
	say(t, second, get)
	listen(t, second, h1.RequestInfo{})
	if s := take(t, c); s == nil {
		t.Error("the end of a stream made no room")
	} else {
		s.Close()
	}
}

// TestDeadlines: they end waits, also when they are set during one.
func TestDeadlines(t *testing.T) {
	c := start(t, play(t, func(p *peer) {
		p.welcome(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		p.drain()
	}), config())
	post := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
	for _, test := range []struct {
		name string
		wait func(s *stream) error
		set  func(s *stream, at time.Time) error
	}{
		{"read", func(s *stream) error { _, err := s.Read(make([]byte, 1)); return err }, (*stream).SetReadDeadline},
		{"write", func(s *stream) error { _, err := s.Write(make([]byte, 100)); return err }, (*stream).SetWriteDeadline},
	} {
		for _, when := range []struct {
			name string
			at   func() time.Time
		}{
			{"past", func() time.Time { return time.Unix(1, 0) }},
			{"soon", func() time.Time { return time.Now().Add(time.Millisecond) }},
		} {
			t.Run(test.name+when.name, func(t *testing.T) {
				s := open(t, c)
				say(t, s, post)
				done := make(chan error, 1)
				go func() { done <- test.wait(s) }()
				must.Do(t, test.set(s, when.at()))
				if err := programs.Receive(t, done, "the end of the wait"); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("error %v, want a timeout", err)
				}
				s.Close()
				for _, wait := range []func(*stream) error{test.wait} {
					if err := wait(s); !errors.Is(err, net.ErrClosed) {
						t.Errorf("after Close: error %v, want net.ErrClosed", err)
					}
				}
			})
		}
	}
}

// TestCloseEndsWaits: Close is called from anywhere.
func TestCloseEndsWaits(t *testing.T) {
	c := start(t, play(t, func(p *peer) {
		p.welcome(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		p.drain()
	}), config())
	s := open(t, c)
	say(t, s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
	done := make(chan error, 2)
	go func() { _, err := s.Read(make([]byte, 1)); done <- err }()
	go func() { _, err := s.Write(make([]byte, 100)); done <- err }()
	s.Close()
	for range 2 {
		if err := programs.Receive(t, done, "the end of a wait"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("error %v, want net.ErrClosed", err)
		}
	}
}

// TestCloseCancels: what is not complete is cancelled at the endpoint, and what
// is complete is not mentioned.
func TestCloseCancels(t *testing.T) {
	seen := make(chan http2.ErrCode, 1)
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		p.headers(p.request(), true, ":status", "204")
		for {
			switch f := p.next().(type) {
			case *http2.RSTStreamFrame:
				if f.StreamID != 3 {
					t.Errorf("stream %d was reset, want only 3", f.StreamID)
				}
				seen <- f.ErrCode
			case nil:
				return
			}
		}
	}), config())
	s := open(t, c)
	say(t, s, get)
	listen(t, s, h1.RequestInfo{})
	s.Close()
	s.Close()
	s = open(t, c)
	say(t, s, get)
	s.Close()
	if code := programs.Receive(t, seen, "the reset"); code != http2.ErrCodeCancel {
		t.Errorf("reset with %v, want CANCEL", code)
	}
	// A stream on which nothing was sent leaves no trace.
	open(t, c).Close()
	if c.ActiveStreams() != 0 {
		t.Errorf("%d streams are left", c.ActiveStreams())
	}
}

// TestEarlyAnswer: a response ends the stream while the request goes on; the
// rest of the request is thrown away and the response stays whole.
func TestEarlyAnswer(t *testing.T) {
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		id := p.request()
		p.headers(id, false, ":status", "413", "content-length", "4")
		p.check(p.framer.WriteData(id, true, []byte("much")))
		p.check(p.framer.WriteRSTStream(id, http2.ErrCodeNo))
		p.drain()
	}), config())
	s := open(t, c)
	say(t, s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
	programs.Until(t, "the end of the stream", func() bool { return c.ActiveStreams() == 0 })
	for range 100 {
		say(t, s, strings.Repeat("x", 10000))
	}
	if got := listen(t, s, h1.RequestInfo{}); got.status != 413 || got.body != "much" {
		t.Errorf("status %d, body %q; want 413 and much", got.status, got.body)
	}
}
