package h2client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// malformed are responses that break the rules, and a part of the error. Where
// there is none, the response is read without what does not belong to it.
var malformed = []struct {
	name string
	head bool
	act  func(p *peer, id uint32)
	want string
}{
	{"noStatus", false, func(p *peer, id uint32) { p.headers(id, true, "a", "b") }, "status"},
	{"twoDigits", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "20") }, "status"},
	{"signedStatus", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "+20") }, "status"},
	{"zeroStatus", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "099") }, "status"},
	{"switching", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "101") }, "status"},
	{"twoStatuses", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "200", ":status", "200") }, "duplicate"},
	{"requestFields", false, func(p *peer, id uint32) { p.headers(id, true, ":path", "/") }, "status"},
	{"statusLater", false, func(p *peer, id uint32) { p.headers(id, true, "a", "b", ":status", "200") }, "pseudo"},
	{"lineEnd", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "200", "a", "b\r\nc: d") }, "invalid header"},
	{"capitals", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "200", "A", "b") }, "invalid header"},
	{"twoLengths", false, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200", "content-length", "1", "content-length", "1")
	}, "content-length"},
	{"signedLength", false, func(p *peer, id uint32) { p.headers(id, false, ":status", "200", "content-length", "+1") }, "content-length"},
	{"tooLong", false, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200", "content-length", "2")
		p.check(p.framer.WriteData(id, true, []byte("abc")))
	}, "longer"},
	{"tooShort", false, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200", "content-length", "4")
		p.check(p.framer.WriteData(id, true, []byte("abc")))
	}, "shorter"},
	{"missing", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "200", "content-length", "4") }, "shorter"},
	{"early", false, func(p *peer, id uint32) { p.check(p.framer.WriteData(id, true, []byte("abc"))) }, "before its head"},
	{"bodyOf204", false, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "204")
		p.check(p.framer.WriteData(id, true, []byte("abc")))
	}, ""},
	{"bodyOfHead", true, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200", "content-length", "3")
		p.check(p.framer.WriteData(id, true, []byte("abc")))
	}, ""},
	{"openTrailers", false, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200")
		p.headers(id, false, "a", "b")
	}, "trailers"},
	{"statusInTrailers", false, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200")
		p.headers(id, true, ":status", "200")
	}, "trailers"},
	{"interimEnds", false, func(p *peer, id uint32) { p.headers(id, true, ":status", "103") }, "interim"},
	{"interims", false, func(p *peer, id uint32) {
		for range h1.MaxInterim + 1 {
			p.headers(id, false, ":status", "103")
		}
	}, "interim"},
	{"fields", false, func(p *peer, id uint32) {
		p.headers(id, true, append([]string{":status", "200"}, strings.Split(strings.Repeat("a b ", 101), " ")[:202]...)...)
	}, "too many headers"},
	{"size", false, func(p *peer, id uint32) {
		p.headers(id, true, ":status", "200", "a", strings.Repeat("x", 33<<10))
	}, "too large"},
	{"hugeTrailers", false, func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200")
		p.headers(id, true, "a", strings.Repeat("x", 5<<10))
	}, "too large"},
	{"window", false, func(p *peer, id uint32) { p.check(p.framer.WriteWindowUpdate(id, 1<<31-1)) }, "window"},
}

// TestMalformedResponses: each breaks off its own stream and no other.
func TestMalformedResponses(t *testing.T) {
	for _, test := range malformed {
		t.Run(test.name, func(t *testing.T) {
			c := start(t, play(t, func(p *peer) {
				p.welcome()
				test.act(p, p.request())
				for {
					switch f := p.next().(type) {
					case *http2.MetaHeadersFrame:
						p.headers(f.StreamID, true, ":status", "204")
					case nil:
						return
					}
				}
			}), config())
			s := open(t, c)
			request, asked := get, h1.RequestInfo{}
			if test.head {
				request, asked = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", h1.RequestInfo{Head: true}
			}
			say(t, s, request)
			got, err := hear(s, asked)
			switch {
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with: %s", err, test.want)
			case test.want == "" && (err != nil || got.body != ""):
				t.Errorf("error %v; want a response without a body", err)
			}
			next := open(t, c)
			say(t, next, get)
			if got := listen(t, next, h1.RequestInfo{}); got.status != 204 {
				t.Errorf("status %d of the next, want 204", got.status)
			}
		})
	}
}

// TestBrokenConnections: an error that leaves no way to recover ends the connection, in
// time and with a reason.
func TestBrokenConnections(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(p *peer, id uint32)
	}{
		{"push", func(p *peer, id uint32) {
			p.check(p.framer.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true}))
		}},
		{"unknownStream", func(p *peer, id uint32) { p.headers(id+2, true, ":status", "200") }},
		{"evenStream", func(p *peer, _ uint32) { p.check(p.framer.WriteData(2, true, nil)) }},
		{"connectionWindow", func(p *peer, _ uint32) {
			p.check(p.framer.WriteWindowUpdate(0, 1<<31-1))
		}},
		{"badSetting", func(p *peer, _ uint32) { p.welcome(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}) }},
		{"compression", func(p *peer, id uint32) {
			p.check(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true}))
		}},
		{"headerFlood", func(p *peer, id uint32) {
			err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: literal(16 << 10)})
			for range 10000 {
				if err != nil {
					break
				}
				err = p.framer.WriteContinuation(id, false, literal(16<<10))
			}
			if err == nil {
				t.Error("160 MB of headers were taken")
			}
		}},
		{"largeFrame", func(p *peer, id uint32) {
			p.check(p.framer.WriteRawFrame(http2.FrameData, 0, id, make([]byte, 16<<10+1)))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start(t, play(t, func(p *peer) {
				p.welcome()
				test.act(p, p.request())
				p.drain()
			}), config())
			s := open(t, c)
			// The end may come before this returns.
			_, _ = io.WriteString(s, get)
			if _, err := io.Copy(io.Discard, s); err == nil {
				t.Error("there was no error")
			}
			programs.Receive(t, c.Done(), "the end of the connection")
			if take(t, c) != nil {
				t.Error("it takes more streams")
			}
		})
	}
}

// TestWindow: an endpoint can send a window full that no reader takes, and not a
// byte more.
func TestWindow(t *testing.T) {
	full, more := make(chan struct{}), make(chan struct{})
	c := start(t, play(t, func(p *peer) {
		p.welcome()
		id := p.request()
		p.headers(id, false, ":status", "200")
		for range 128 / 16 {
			p.check(p.framer.WriteData(id, false, make([]byte, 16<<10)))
		}
		// The acknowledgement of a PING shows that all of it was taken in.
		p.check(p.framer.WritePing(false, [8]byte{1}))
		for {
			f, err := p.framer.ReadFrame()
			if ping, is := f.(*http2.PingFrame); err != nil || is && ping.IsAck() {
				break
			}
		}
		close(full)
		<-more
		p.check(p.framer.WriteData(id, false, make([]byte, 1)))
		p.drain()
	}), config())
	s := open(t, c)
	say(t, s, get)
	programs.Receive(t, full, "a full window")
	if c.Closing() {
		t.Error("a full window ended the connection")
	}
	close(more)
	programs.Receive(t, c.Done(), "the end of the connection")
}

// literal is a header field, not indexed, whose encoding has n bytes.
func literal(n int) []byte {
	size := n - 7
	block := []byte{0, 1, 'a', 0x7f}
	for rest := size - 127; ; rest >>= 7 {
		if rest < 128 {
			block = append(block, byte(rest))
			break
		}
		block = append(block, byte(rest)|0x80)
	}
	return append(block, bytes.Repeat([]byte("x"), size)...)
}

// TestPingFlood: an endpoint that asks and does not read is given up, before
// its questions fill the memory.
func TestPingFlood(t *testing.T) {
	address := play(t, func(p *peer) {
		p.welcome()
		for p.framer.WritePing(false, [8]byte{}) == nil {
		}
	})
	ended := make(chan struct{})
	cfg := config()
	cfg.OnClose = func(*h2client.Conn) { close(ended) }
	if c, err := begin(t, t.Context(), address, cfg); err == nil {
		if s := take(t, c); s != nil {
			_, _ = io.WriteString(s, get)
			_, _ = io.Copy(io.Discard, s)
			s.Close()
		}
	}
	programs.Receive(t, ended, "the end of the connection")
}

// TestSlowReader: a stream without a reader holds up no other, and no more
// than its window is kept.
func TestSlowReader(t *testing.T) {
	const size = 4 << 20
	body := make([]byte, size)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(body) })
	c := start(t, address, config())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	slow := make([]*stream, 40)
	for i := range slow {
		slow[i] = open(t, c)
		say(t, slow[i], get)
		must.Get(slow[i].Read(make([]byte, 1)))(t)
	}
	for range 5 {
		s := open(t, c)
		say(t, s, get)
		if got := listen(t, s, h1.RequestInfo{}); len(got.body) != size {
			t.Fatalf("%d bytes, want %d", len(got.body), size)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// 40 windows of 128 KiB, the server's buffers, and what is in the pools.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 12<<20 {
		t.Errorf("%d MB are kept", grown>>20)
	}
	for _, s := range slow {
		s.Close()
	}
}

// TestLargeBodies: 20 MB there and back at once.
func TestLargeBodies(t *testing.T) {
	const size = 20 << 20
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	s := open(t, start(t, address, config()))
	go func() {
		_, _ = fmt.Fprintf(s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size)
		piece := make([]byte, 32<<10)
		for i := 0; i < size; i += len(piece) {
			for j := range piece {
				piece[j] = byte((i + j) % 251)
			}
			if _, err := s.Write(piece); err != nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	}()
	got := listen(t, s, h1.RequestInfo{})
	if len(got.body) != size {
		t.Fatalf("%d bytes came back, want %d", len(got.body), size)
	}
	for i := range got.body {
		if got.body[i] != byte(i%251) {
			t.Fatalf("byte %d is %d, want %d", i, got.body[i], i%251)
		}
	}
}

// TestManyStreams: streams come, go and break off at random, from many sides.
func TestManyStreams(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	c := start(t, address, config())
	var running sync.WaitGroup
	for worker := range 20 {
		running.Go(func() {
			for i := range 50 {
				s := take(t, c)
				if s == nil {
					t.Error("no stream")
					return
				}
				text := strings.Repeat(fmt.Sprintf("%d-%d.", worker, i), 1+i*100)
				_, err := fmt.Fprintf(s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(text))
				if err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					go func() { _, _ = io.WriteString(s, text) }()
					s.Close()
					continue
				}
				go func() { _, _ = io.WriteString(s, text) }()
				got, err := hear(s, h1.RequestInfo{})
				if err != nil || got.body != text {
					t.Errorf("worker %d, exchange %d: %v", worker, i, err)
				}
				s.Close()
			}
		})
	}
	running.Wait()
	if c.ActiveStreams() != 0 {
		t.Errorf("%d streams are left", c.ActiveStreams())
	}
}

// FuzzEndpoint: whatever an endpoint sends, streams end, and nothing panics.
func FuzzEndpoint(f *testing.F) {
	var frames bytes.Buffer
	framer := http2.NewFramer(&frames, nil)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: true})
	_ = framer.WriteData(1, true, []byte("hello"))
	_ = framer.WriteGoAway(1, http2.ErrCodeNo, nil)
	f.Add(frames.Bytes())
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_ = http2.NewFramer(theirs, nil).WriteSettings()
			_, _ = theirs.Write(data)
			theirs.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		c, err := h2client.Start(ctx, nil, ours, config())
		if err != nil {
			return
		}
		if s := take(t, c); s != nil {
			_ = s.SetDeadline(time.Now().Add(testTimeout))
			_, _ = io.WriteString(s, get)
			_, _ = io.Copy(io.Discard, s)
			s.Close()
		}
		<-c.Done()
	})
}
