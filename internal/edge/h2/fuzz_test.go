package h2

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
)

// pack makes a block of headers.
func pack(fields ...string) []byte {
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return out.Bytes()
}

// FuzzCompose checks that whatever is composed is read as exactly one request,
// whose body ends where the stream ends.
func FuzzCompose(f *testing.F) {
	usual := []string{":method", "GET", ":scheme", "https", ":authority", "example.com", ":path", "/"}
	for _, more := range [][]string{
		nil, {"cookie", "a=1", "cookie", "b=2"}, {"content-length", "5"}, {"host", "example.com"}, {"host", "other"},
		{"te", "trailers"}, {"connection", "close"}, {"transfer-encoding", "chunked"}, {"expect", "100-continue"},
		{"x-a", "1\r\nhost: x"}, {"X-A", "1"}, {"trailer", "x-sum"}, {":path", "/again"},
	} {
		f.Add(pack(append(append([]string(nil), usual...), more...)...), true)
		f.Add(pack(append(append([]string(nil), usual...), more...)...), false)
	}
	pool := new(h1.BufferPool)
	f.Fuzz(func(t *testing.T, packed []byte, ends bool) {
		cfg := DefaultConfig()
		var b headerBlock
		b.init(&cfg)
		b.begin(true)
		if tooLarge, err := b.decode(packed); tooLarge || err != nil || b.end() != nil {
			return
		}
		if len(b.fields) > 0 && b.size == 0 || b.size > cfg.Guard.BlockBytes {
			t.Fatalf("%d headers have a size of %d", len(b.fields), b.size)
		}
		c := composer{pool: pool}
		r, err := c.request(&b, ends)
		if err != nil || b.truncated {
			return
		}
		var head h1.Head
		limits := h1.DefaultLimits()
		n, err := head.Parse(r.head, &limits)
		if err != nil {
			return // it is refused like any other
		}
		if n != len(r.head) || head.Framing != r.framing || head.ExpectContinue {
			t.Fatalf("%q is read as %d bytes, framing %d", r.head, n, head.Framing)
		}
		if ends && head.Framing != h1.NoBody && head.Length != 0 {
			t.Fatalf("%q has a body that the stream does not have", r.head)
		}
		pool.Put(r.head)
	})
}

// FuzzSession plays a client that sends anything. The session has to end, with
// all that it started, when the client does.
func FuzzSession(f *testing.F) {
	var wire bytes.Buffer
	framer := http2.NewFramer(&wire, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
	block := pack(":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/")
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true})
	_ = framer.WriteData(1, false, []byte("hello"))
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: pack("x-sum", "5"), EndHeaders: true, EndStream: true})
	_ = framer.WriteWindowUpdate(1, 100)
	_ = framer.WritePing(false, [8]byte{})
	_ = framer.WriteRSTStream(1, http2.ErrCodeCancel)
	_ = framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	f.Add(wire.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		s := must.Get(New(Config{Handler: echo(), WriteTimeout: time.Second}))(t)
		ours, theirs := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.ServeConn(context.Background(), ours)
		}()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		if _, err := theirs.Write(append([]byte(http2.ClientPreface), data...)); err != nil {
			t.Logf("cut off: %v", err)
		}
		theirs.Close()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("it does not end")
		}
	})
}

// echo responds with what it was sent, as far as it is a request.
func echo() *bridge.Handler {
	return &bridge.Handler{Pool: new(h1.BufferPool), Serve: func(_ bridge.Stream, conn net.Conn) {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		body, err := io.ReadAll(io.LimitReader(conn, 1<<16))
		if err == nil {
			_, _ = conn.Write(h1.AppendLastChunk(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body), nil))
		}
	}}
}
