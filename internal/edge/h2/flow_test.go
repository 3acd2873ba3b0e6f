package h2_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// counted is a connection that counts what is written to it.
type counted struct {
	net.Conn
	writes atomic.Int32
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// serveOne serves one connection, which is wrapped, and waits for its end.
func serveOne(t *testing.T, s *h2.Server, wrap func(net.Conn) net.Conn) (addr string) {
	t.Helper()
	listener := programs.Listen(t, "")
	programs.Background(t, func() {
		if conn, err := listener.Accept(); err == nil {
			s.ServeConn(context.Background(), wrap(conn))
		}
	}, func() {
		listener.Close()
		s.Close()
	})
	return listener.Addr().String()
}

// A small response goes out with one write: headers, data and the end.
func TestOneWrite(t *testing.T) {
	s := must.Get(h2.New(h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) { _ = x.Respond(200, "hello") })}))(t)
	conn := &counted{}
	addr := serveOne(t, s, func(c net.Conn) net.Conn {
		conn.Conn = c
		return conn
	})
	p := dial(t, &server{Server: s, addr: addr})
	roundTrip(t, p)
	before := conn.writes.Load()
	for i := range uint32(20) {
		must.Do(t, p.open(2*i+1, true))
		p.await(t, "the end", func(e event) bool { return e.stream == 2*i+1 && e.ends })
	}
	if n := conn.writes.Load() - before; n != 20 {
		t.Errorf("20 answers took %d writes", n)
	}
	if n := p.count(func(e event) bool { return e.kind == http2.FrameData && e.data == "hello" && e.ends }); n != 20 {
		t.Errorf("%d answers ended with their data", n)
	}
}

// A change of the first window holds for streams that are open.
func TestWindowChanges(t *testing.T) {
	s := start(t, h2.Config{Handler: waits()}, nil)
	p := dial(t, s)
	window := func(size uint32) {
		t.Helper()
		must.Do(t, p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: size}))
	}
	data := func(text string) func(event) bool {
		return func(e event) bool { return e.kind == http2.FrameData && e.data == text }
	}
	window(0)
	must.Do(t, p.open(1, true, ":method: POST"))
	p.await(t, "headers", answered(1))
	roundTrip(t, p)
	if n := p.count(func(e event) bool { return e.kind == http2.FrameData }); n != 0 {
		t.Error("data came without a window")
	}
	window(1)
	p.await(t, "a byte", data("o"))
	window(0) // which makes that of the stream negative
	must.Do(t, p.WriteWindowUpdate(1, 1))
	roundTrip(t, p)
	if n := p.count(data("k")); n != 0 {
		t.Error("data came with a window of zero")
	}
	window(1)
	p.await(t, "the other byte", data("k"))
	must.Do(t, p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
}

// Windows that are too large are errors: of a stream, or of the connection.
func TestWindowOverflow(t *testing.T) {
	s := start(t, h2.Config{Handler: waits()}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, true))
	must.Do(t, p.WriteWindowUpdate(1, 1<<31-1))
	e := p.await(t, "a reset", func(e event) bool { return e.kind == http2.FrameRSTStream })
	if e.code != http2.ErrCodeFlowControl || e.stream != 1 {
		t.Errorf("reset with %v", e)
	}
	must.Do(t, p.WriteWindowUpdate(0, 1<<31-1))
	e = p.await(t, "GOAWAY", func(e event) bool { return e.kind == http2.FrameGoAway })
	if e.code != http2.ErrCodeFlowControl {
		t.Errorf("ended with %v", e.code)
	}
}

// Trailers reach the origin, announced or not.
func TestUnannouncedTrailers(t *testing.T) {
	got := make(chan string, 1)
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		body, trailers, err := x.Upload()
		got <- fmt.Sprintf("%s %q %v", body, trailers, err)
		_ = x.Respond(200, "")
	})}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, false, ":method: POST"))
	must.Do(t, p.WriteData(1, false, []byte("hello")))
	p.block.Reset()
	block := bytes.Clone(p.head(":method: -", ":scheme: -", ":authority: -", ":path: -", "x-sum: 5"))
	err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
	must.Do(t, err)
	if said := bridgetest.Within(t, "the upload", got); said != `hello "X-Sum: 5\n" <nil>` {
		t.Errorf("got %s", said)
	}
}

// A request that is reset right behind its headers is never served.
func TestResetBehindHeaders(t *testing.T) {
	var served atomic.Int32
	s := start(t, h2.Config{Handler: lasting(func(ctx context.Context) {
		served.Add(1)
		<-ctx.Done()
	})}, nil)
	p := dial(t, s)
	roundTrip(t, p)
	var wire bytes.Buffer
	f := http2.NewFramer(&wire, nil)
	for i := range uint32(50) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: p.head(), EndHeaders: true, EndStream: true})
		_ = f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	must.Get(p.conn.Write(wire.Bytes()))(t)
	roundTrip(t, p)
	if n := served.Load(); n != 0 {
		t.Errorf("%d of them were served", n)
	}
}

// A stream beyond the limit is refused so that the client may ask again.
func TestBeyondTheLimit(t *testing.T) {
	s := start(t, h2.Config{Handler: waits(), MaxStreams: 2}, nil)
	p := dial(t, s)
	for i := range uint32(3) {
		must.Do(t, p.open(2*i+1, true))
	}
	e := p.await(t, "a reset", func(e event) bool { return e.kind == http2.FrameRSTStream })
	if e.stream != 5 || e.code != http2.ErrCodeRefusedStream {
		t.Errorf("stream %d is reset with %v", e.stream, e.code)
	}
	must.Do(t, p.WriteRSTStream(1, http2.ErrCodeCancel))
	alive(t, p, 7)
}

// deaf is a client that never reads. What it sends is given by send.
func deaf(t *testing.T, cfg h2.Config, send func(*http2.Framer) error) (reason string) {
	t.Helper()
	reasons := make(chan string, 1)
	cfg.Handler = waits()
	cfg.Hooks.Closed = func(reason string) { reasons <- reason }
	s := must.Get(h2.New(cfg))(t)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go s.ServeConn(context.Background(), ours)
	// All but the greeting is left unread. That one is waited for by the server.
	must.Get(io.ReadFull(theirs, make([]byte, 9+4*6+13)))(t)
	must.Get(theirs.Write([]byte(http2.ClientPreface)))(t)
	f := http2.NewFramer(theirs, nil)
	must.Do(t, f.WriteSettings())
	if err := send(f); err != nil {
		t.Logf("the client was cut off: %v", err)
	}
	return bridgetest.Within(t, "the end", reasons)
}

// A client that does not read is cut off, by the time or by how much it asks for.
func TestUnread(t *testing.T) {
	ping := func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }
	reason := deaf(t, h2.Config{WriteTimeout: 50 * time.Millisecond}, ping)
	if reason != h2.ReasonEnded {
		t.Errorf("in time: %s", reason)
	}
	reason = deaf(t, h2.Config{Guard: h2.GuardLimits{Control: 1 << 20}}, func(f *http2.Framer) error {
		return times(100_000, func(int) error { return ping(f) })
	})
	if reason != h2.ReasonUnread {
		t.Errorf("without time: %s", reason)
	}
}

// Trailers that are still on their way to a stream that got an early response and
// was reset do no harm.
func TestLateTrailers(t *testing.T) {
	s := start(t, h2.Config{Handler: waits()}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, false, ":method: POST"))
	p.await(t, "a reset", func(e event) bool { return e.kind == http2.FrameRSTStream && e.code == http2.ErrCodeNo })
	block := bytes.Clone(p.head(":method: -", ":scheme: -", ":authority: -", ":path: -", "x-sum: "+strings.Repeat("5", 10)))
	err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
	must.Do(t, err)
	alive(t, p, 3)
}

// The end of a response waits for the end of its request, as long as a handler
// reads that.
func TestEndWaits(t *testing.T) {
	outcome := make(chan string, 1)
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		_ = x.Respond(200, "ok")
		body, _, err := x.Upload()
		outcome <- fmt.Sprint(string(body), err)
	})}, nil)
	p := dial(t, s)
	must.Do(t, p.open(1, false, ":method: POST"))
	e := p.await(t, "the answer", func(e event) bool { return e.kind == http2.FrameData })
	if e.data != "ok" || e.ends {
		t.Errorf("the answer is %q and ends: %v", e.data, e.ends)
	}
	must.Do(t, p.WriteData(1, true, []byte("hello")))
	p.await(t, "the end", func(e event) bool { return e.kind == http2.FrameData && e.ends })
	if got := bridgetest.Within(t, "the upload", outcome); got != "hello<nil>" {
		t.Errorf("the upload is %s", got)
	}
	if n := p.count(func(e event) bool { return e.kind == http2.FrameRSTStream }); n != 0 {
		t.Error("the stream was reset")
	}
}
