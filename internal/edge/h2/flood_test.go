package h2_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
)

// waits responds to POST at once, and everything else when its stream is over.
func waits() *bridge.Handler {
	return bridgetest.Handler(func(x *bridgetest.Exchange) {
		if string(x.Head.Method()) != "POST" {
			<-x.Stream.Context().Done()
			return
		}
		_ = x.Respond(200, "ok")
	})
}

// attacks are what the guard ends connections for. Each sends a little more
// than is allowed, and then listens.
var attacks = []struct {
	name, reason string
	send         func(p *peer) error
	// answered is set where the server writes frames meanwhile. When it is cut
	// off in one, it cannot send GOAWAY.
	answered bool
}{
	{"PING", h2.ReasonPings, func(p *peer) error {
		return times(3000, func(int) error { return p.WritePing(false, [8]byte{}) })
	}, true},
	{"PING that answers nothing", h2.ReasonPings, func(p *peer) error {
		return times(3000, func(int) error { return p.WritePing(true, [8]byte{}) })
	}, false},
	{"SETTINGS", h2.ReasonSettings, func(p *peer) error {
		return times(3000, func(i int) error {
			return p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		})
	}, true},
	{"PRIORITY", h2.ReasonPriorities, func(p *peer) error {
		return times(3000, func(i int) error { return p.WritePriority(uint32(2*i+1), http2.PriorityParam{Weight: 1}) })
	}, false},
	{"PRIORITY_UPDATE", h2.ReasonPriorities, func(p *peer) error {
		return times(3000, func(int) error { return p.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1")) })
	}, false},
	{"WINDOW_UPDATE by 1", h2.ReasonWindows, func(p *peer) error {
		return times(3000, func(int) error { return p.WriteWindowUpdate(0, 1) })
	}, false},
	{"unknown frames", h2.ReasonUnknown, func(p *peer) error {
		return times(3000, func(int) error { return p.WriteRawFrame(0xfa, 0, 0, nil) })
	}, false},
	{"empty DATA", h2.ReasonEmptyData, func(p *peer) error {
		if err := p.open(1, false); err != nil {
			return err
		}
		return times(1000, func(int) error { return p.WriteData(1, false, nil) })
	}, false},
	{"DATA with padding only", h2.ReasonEmptyData, func(p *peer) error {
		if err := p.open(1, false); err != nil {
			return err
		}
		return times(1000, func(int) error { return p.WriteDataPadded(1, false, nil, make([]byte, 10)) })
	}, false},
	{"CONTINUATION (CVE-2023-45288)", h2.ReasonContinuations, func(p *peer) error {
		if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.head()}); err != nil {
			return err
		}
		return times(17, func(int) error { return p.WriteContinuation(1, false, nil) })
	}, false},
	{"rapid reset (CVE-2023-44487)", h2.ReasonResets, func(p *peer) error {
		return times(300, func(i int) error {
			if err := p.open(uint32(2*i+1), true); err != nil {
				return err
			}
			return p.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
		})
	}, false},
	{"made you reset (CVE-2025-8671), no window", h2.ReasonProvoked, func(p *peer) error {
		return times(300, func(i int) error {
			if err := p.open(uint32(2*i+1), true); err != nil {
				return err
			}
			return p.WriteRawFrame(http2.FrameWindowUpdate, 0, uint32(2*i+1), []byte{0, 0, 0, 0})
		})
	}, true},
	{"made you reset, DATA after the end", h2.ReasonProvoked, func(p *peer) error {
		return times(300, func(i int) error {
			if err := p.open(uint32(2*i+1), true); err != nil {
				return err
			}
			return p.WriteData(uint32(2*i+1), false, []byte("x"))
		})
	}, true},
	{"headers that unpack to megabytes (CVE-2016-6581)", h2.ReasonBlock, func(p *peer) error {
		block := append(p.head("x-bomb: "+strings.Repeat("b", 3900)), bytes.Repeat([]byte{0x80 | 62}, 8000)...)
		return p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
	}, false},
	{"cookies by the thousand", h2.ReasonBlock, func(p *peer) error {
		block := append(p.head("cookie: a=b"), bytes.Repeat([]byte{0x80 | 62}, 12000)...)
		return p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
	}, false},
	{"more streams than allowed", h2.ReasonProvoked, func(p *peer) error {
		return times(380, func(i int) error { return p.open(uint32(2*i+1), true) })
	}, true},
}

func isCalm(e event) bool {
	return e.kind == http2.FrameGoAway && e.code == http2.ErrCodeEnhanceYourCalm
}

// times calls a function n times, unless it fails. Failing is no matter: the
// guard may be quicker than the attack.
func times(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func TestAttacks(t *testing.T) {
	for _, tt := range attacks {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, h2.Config{Handler: waits()}, nil)
			good := dial(t, s)
			must.Do(t, good.open(1, true, ":method: POST"))
			bad := dial(t, s)
			// A server that has not sent its settings cannot send GOAWAY.
			roundTrip(t, bad)
			if err := tt.send(bad); err != nil {
				t.Logf("the attack was cut off: %v", err)
			}
			if reason := bridgetest.Within(t, "the end", s.reasons); reason != tt.reason {
				t.Errorf("ended because of %s, want %s", reason, tt.reason)
			}
			bad.await(t, "the end", isGone)
			if bad.count(isCalm) == 0 && !tt.answered {
				t.Error("there was no GOAWAY")
			}
			// Others notice nothing.
			must.Do(t, good.open(3, true, ":method: POST"))
			good.await(t, "an answer", answered(3))
		})
	}
}

// A flood that does not stop to listen ends, too.
func TestEndlessFlood(t *testing.T) {
	s := start(t, h2.Config{Handler: waits()}, nil)
	p := dial(t, s)
	ended := make(chan error, 1)
	go func() {
		for {
			if err := p.WritePing(false, [8]byte{}); err != nil {
				ended <- err
				return
			}
		}
	}()
	if reason := bridgetest.Within(t, "the end", s.reasons); reason != h2.ReasonPings {
		t.Errorf("ended because of %s", reason)
	}
	bridgetest.Within(t, "an error", ended)
}

// A block of headers that is sent in far too many bytes.
func TestHeaderBlock(t *testing.T) {
	s := start(t, h2.Config{Handler: waits(), Guard: h2.GuardLimits{BlockBytes: 20 << 10}}, nil)
	p := dial(t, s)
	block := p.head("x-long: " + string(make([]byte, 0)))
	part := make([]byte, 16<<10)
	for i := range part {
		part[i] = 0x82 // :method GET, again and again
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
	_ = p.WriteContinuation(1, false, part[:8<<10])
	_ = p.WriteContinuation(1, false, part)
	reason := bridgetest.Within(t, "the end", s.reasons)
	if reason != h2.ReasonBlock && reason != h2.ReasonEnded {
		t.Errorf("ended because of %s", reason)
	}
}

// Clients that send the start of something and no more.
func TestStalls(t *testing.T) {
	short := 50 * time.Millisecond
	for _, tt := range []struct {
		name, reason string
		cfg          h2.Config
		send         func(net.Conn, *http2.Framer)
	}{
		{"nothing", h2.ReasonFirst, h2.Config{FirstTimeout: short}, func(net.Conn, *http2.Framer) {}},
		{"half a preface", h2.ReasonFirst, h2.Config{FirstTimeout: short}, func(c net.Conn, _ *http2.Framer) {
			_, _ = io.WriteString(c, http2.ClientPreface[:10])
		}},
		{"a preface only", h2.ReasonFirst, h2.Config{FirstTimeout: short}, func(c net.Conn, _ *http2.Framer) {
			_, _ = io.WriteString(c, http2.ClientPreface)
		}},
		{"HTTP/1.1", h2.ReasonPreface, h2.Config{}, func(c net.Conn, _ *http2.Framer) {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		}},
		{"half of the headers", h2.ReasonSlowHeaders, h2.Config{HeaderTimeout: short}, func(c net.Conn, f *http2.Framer) {
			_, _ = io.WriteString(c, http2.ClientPreface)
			_ = f.WriteSettings()
			_, _ = c.Write([]byte{0, 0, 100, 1, 4, 0, 0, 0, 1, 0x82})
		}},
		{"headers without end", h2.ReasonSlowHeaders, h2.Config{HeaderTimeout: short}, func(c net.Conn, f *http2.Framer) {
			_, _ = io.WriteString(c, http2.ClientPreface)
			_ = f.WriteSettings()
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		}},
		{"half a frame", h2.ReasonEnded, h2.Config{PingAfter: short, PingTimeout: short}, func(c net.Conn, f *http2.Framer) {
			_, _ = io.WriteString(c, http2.ClientPreface)
			_ = f.WriteSettings()
			_, _ = c.Write([]byte{0, 0, 8, 6, 0})
		}},
		{"no requests", h2.ReasonEnded, h2.Config{IdleTimeout: short}, func(c net.Conn, f *http2.Framer) {
			_, _ = io.WriteString(c, http2.ClientPreface)
			_ = f.WriteSettings()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Handler = waits()
			s := start(t, tt.cfg, nil)
			conn := must.Get(net.Dial("tcp", s.addr))(t)
			defer conn.Close()
			tt.send(conn, http2.NewFramer(conn, nil))
			if reason := bridgetest.Within(t, "the end", s.reasons); reason != tt.reason {
				t.Errorf("ended because of %s, want %s", reason, tt.reason)
			}
		})
	}
}

// A setting may be sent twice.
func TestSettingsTwice(t *testing.T) {
	s := start(t, h2.Config{Handler: waits()}, nil)
	p := dial(t, s)
	window := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}
	last := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}
	must.Do(t, p.WriteSettings(window, last))
	must.Do(t, p.open(1, true, ":method: POST"))
	if e := p.await(t, "DATA", func(e event) bool { return e.kind == http2.FrameData }); e.data != "o" {
		t.Errorf("a window of 1 brought %q", e.data)
	}
}

// A client that takes its time between requests is not stalled.
func TestDeadlineIsLifted(t *testing.T) {
	short := 50 * time.Millisecond
	s := start(t, h2.Config{Handler: waits(), FirstTimeout: short, HeaderTimeout: short}, nil)
	p := dial(t, s)
	for i := range 3 {
		must.Do(t, p.open(uint32(2*i+1), true, ":method: POST"))
		p.await(t, "an answer", answered(uint32(2*i+1)))
		<-time.After(2 * short)
	}
}

// Clients that work hard are not attackers.
func TestGuardLetsPass(t *testing.T) {
	t.Run("many requests", func(t *testing.T) {
		s := start(t, h2.Config{Handler: waits()}, nil)
		c := client(t, nil)
		for range 2000 {
			response := must.Get(c.Post("http://"+s.addr, "", nil))(t)
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
	t.Run("a long stream of small messages", testSmallMessages)
	t.Run("uploads that are answered early", testEarlyAnswers)
	t.Run("calls that are cancelled late", func(t *testing.T) {
		limits := bridge.DefaultResetLimits()
		limits.Lifetime = 1
		s := start(t, h2.Config{Handler: waits(), Guard: h2.GuardLimits{Resets: limits}}, nil)
		p := dial(t, s)
		for i := range 600 {
			id := uint32(2*i + 1)
			must.Do(t, p.open(id, true))
			must.Do(t, p.WriteRSTStream(id, http2.ErrCodeCancel))
			// PINGs are acknowledged in order, so that handlers do not pile up.
			if i%50 == 49 {
				roundTrip(t, p)
			}
		}
		alive(t, p, 2001)
	})
}

// testSmallMessages is a call of gRPC both ways, with a client that sends window updates
// for each frame, for the stream and for the connection, and a PING.
func testSmallMessages(t *testing.T) {
	const messages = 20_000
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		if string(x.Head.Method()) == "POST" {
			_ = x.Respond(200, "ok")
			return
		}
		err := x.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for i := 0; i < messages && err == nil; i++ {
			err = x.Send("5\r\nhello\r\n")
		}
		if err == nil {
			err = x.Send("0\r\ngrpc-status: 0\r\n\r\n")
		}
		if err != nil {
			t.Error(err)
		}
	})}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, true))
	for seen, ended := 0, false; !ended; {
		p.mu.Lock()
		events, changed := p.events[seen:], p.changed
		p.mu.Unlock()
		seen += len(events)
		for _, e := range events {
			ended = ended || e.ends || e.gone
			if e.kind == http2.FrameData {
				_ = p.WriteWindowUpdate(0, 5)
				_ = p.WriteWindowUpdate(1, 5)
				_ = p.WritePing(false, [8]byte{})
			}
		}
		if !ended {
			bridgetest.Within(t, "a frame", changed)
		}
	}
	alive(t, p, 3)
	if n := p.count(func(e event) bool { return e.kind == http2.FrameData && e.data == "hello" }); n != messages {
		t.Errorf("%d messages came", n)
	}
}

// testEarlyAnswers is a client that is refused again and again, with more on
// its way each time.
func testEarlyAnswers(t *testing.T) {
	s := start(t, h2.Config{Handler: waits()}, nil)
	p := dial(t, s)
	for i := range 600 {
		id := uint32(2*i + 1)
		must.Do(t, p.open(id, false, ":method: POST"))
		p.await(t, "an answer", answered(id))
		for range 5 {
			must.Do(t, p.WriteData(id, false, []byte("more")))
		}
	}
	alive(t, p, 2001)
}

// roundTrip waits until all frames so far have been read.
func roundTrip(t testing.TB, p *peer) {
	t.Helper()
	isPing := func(e event) bool { return e.kind == http2.FramePing }
	before := p.count(isPing)
	must.Do(t, p.WritePing(false, [8]byte{}))
	for p.count(isPing) == before {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if p.count(isPing) == before {
			bridgetest.Within(t, "PING", changed)
		}
	}
}

// alive checks that a connection still takes requests.
func alive(t testing.TB, p *peer, stream uint32) {
	t.Helper()
	must.Do(t, p.open(stream, true, ":method: POST"))
	if e := p.await(t, "an answer", answered(stream)); e.status != fmt.Sprint(http.StatusOK) {
		t.Errorf("answered %s", e.status)
	}
}
