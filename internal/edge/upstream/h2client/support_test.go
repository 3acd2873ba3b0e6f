package h2client_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every wait of a test. It is never waited for when the code
// is right.
const testTimeout = 30 * time.Second

func config() h2client.Config {
	return h2client.Config{
		Pool: new(h1.BufferPool), Limits: h1.DefaultLimits(), WriteTimeout: testTimeout, IdleTimeout: testTimeout,
		PingAfter: testTimeout, PingTimeout: testTimeout,
	}
}

// start makes a connection that ends with the test.
func start(t testing.TB, address string, cfg h2client.Config) *h2client.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	c, err := begin(t, ctx, address, cfg)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		c.Drain()
		<-c.Done()
	})
	return c
}

// begin connects and calls Start, on the event loop of the suite if it has one.
func begin(t testing.TB, ctx context.Context, address string, cfg h2client.Config) (c *h2client.Conn, err error) {
	t.Helper()
	if suite.loop == nil {
		return h2client.Start(ctx, nil, must.Get(net.Dial("tcp", address))(t), cfg)
	}
	done := make(chan struct{})
	suite.loop.Start(func(task *eventloop.Task) {
		defer close(done)
		var below *eventloop.Conn
		if below, err = task.Dial(netip.MustParseAddrPort(address), time.Now().Add(testTimeout)); err == nil {
			below.Bind(nil)
			c, err = h2client.Start(ctx, task, below, cfg)
		}
	})
	<-done
	return c, err
}

// stream is a stream with its user.
type stream struct {
	*h2client.Stream
	user *user // nil for goroutines
}

// Read has the user read.
func (s *stream) Read(b []byte) (n int, err error) {
	s.user.do(func() { n, err = s.Stream.Read(b) })
	return n, err
}

// Write has the user write.
func (s *stream) Write(b []byte) (n int, err error) {
	s.user.do(func() { n, err = s.Stream.Write(b) })
	return n, err
}

// take opens a stream, or returns nil.
func take(t testing.TB, c *h2client.Conn) *stream {
	t.Helper()
	var s *h2client.Stream
	if suite.loop == nil || !suite.tasks {
		if s = c.OpenStream(nil); s == nil {
			return nil
		}
		return &stream{Stream: s}
	}
	u := newUser(t, suite.loop)
	u.do(func() {
		s = c.OpenStream(u.task)
		if suite.leave {
			u.task.Leave()
		}
	})
	if s == nil {
		return nil
	}
	if suite.leave {
		u = nil // the task is away, so any goroutine uses the stream in its place
	}
	return &stream{Stream: s, user: u}
}

// open gives a stream that ends with the test.
func open(t testing.TB, c *h2client.Conn) *stream {
	t.Helper()
	s := take(t, c)
	if s == nil {
		t.Fatal("the connection takes no stream")
	}
	t.Cleanup(func() { s.Close() })
	must.Do(t, s.SetDeadline(time.Now().Add(testTimeout)))
	return s
}

// say writes to a stream.
func say(t testing.TB, s net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// answer is a response as the edge reads it.
type answer struct {
	status   int
	fields   map[string]string
	framing  h1.Framing
	length   int64
	interims []int
	body     string
	trailers map[string]string
}

// hear reads a response with the edge's own codec.
func hear(s net.Conn, asked h1.RequestInfo) (*answer, error) {
	pool, limits := new(h1.BufferPool), h1.DefaultLimits()
	reader := new(h1.Reader)
	reader.Init(s, pool, h1.Timeouts{Idle: testTimeout, Head: testTimeout, Body: testTimeout})
	defer reader.Close()
	got := &answer{}
	var head h1.ResponseHead
	for {
		if err := reader.ReadResponse(&head, asked, &limits); err != nil {
			return nil, err
		}
		if !head.Interim() {
			break
		}
		got.interims = append(got.interims, head.Status)
	}
	got.status, got.framing, got.length, got.fields = head.Status, head.Framing, head.Length, texts(&head.Fields)
	if !head.Reusable {
		return got, errors.New("the connection cannot be used again")
	}
	sink := &sink{}
	var body h1.Body
	body.Reset(head.Framing, head.Length, true, &limits)
	err := (&h1.Transfer{From: reader, To: h1.NewWriter(sink, pool, h1.Timeouts{}), Body: &body}).Run()
	got.body, got.trailers = sink.String(), texts(&body.Trailers)
	return got, err
}

// listen fails the test where there is no response.
func listen(t testing.TB, s net.Conn, asked h1.RequestInfo) *answer {
	t.Helper()
	got, err := hear(s, asked)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return got
}

func texts(fields *h1.Fields) map[string]string {
	list := map[string]string{}
	for i := range fields.Len() {
		name := strings.ToLower(string(fields.Name(i)))
		if list[name] != "" {
			list[name] += ", "
		}
		list[name] += string(fields.Value(i))
	}
	return list
}

// sink is a connection that keeps what is written to it.
type sink struct {
	net.Conn
	strings.Builder
}

// Write keeps b.
func (s *sink) Write(b []byte) (int, error) { return s.Builder.Write(b) }

// SetWriteDeadline does nothing: a sink takes everything at once.
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// serve runs a server of the standard library that speaks HTTP/2 without TLS.
func serve(t testing.TB, handler http.HandlerFunc, tune ...func(*http.Server)) string {
	t.Helper()
	listener := programs.Listen(t, "")
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ErrorLog: log.New(io.Discard, "", 0)}
	server.Protocols.SetUnencryptedHTTP2(true)
	for _, f := range tune {
		f(server)
	}
	programs.Background(t, func() { _ = server.Serve(listener) }, func() { server.Close() })
	return listener.Addr().String()
}

// peer is the other end, frame by frame.
type peer struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	block  strings.Builder
	hpack  *hpack.Encoder
}

// play runs a server that calls act, once the client has sent its
// preface. The server has sent nothing then.
func play(t testing.TB, act func(*peer)) string {
	t.Helper()
	return programs.Serve(t, "", func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(testTimeout))
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(conn, preface); err != nil {
			t.Errorf("no preface: %v", err)
			return
		}
		p := &peer{t: t, conn: conn, framer: http2.NewFramer(conn, conn)}
		p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		p.hpack = hpack.NewEncoder(&p.block)
		act(p)
	}).String()
}

// welcome sends the server's SETTINGS.
func (p *peer) welcome(settings ...http2.Setting) { p.check(p.framer.WriteSettings(settings...)) }

func (p *peer) check(err error) {
	if err != nil {
		p.t.Errorf("the server failed: %v", err)
	}
}

// next reads frames until one that the test cares for, nil at the end.
func (p *peer) next() http2.Frame {
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return nil
		}
		switch f := f.(type) {
		case *http2.SettingsFrame, *http2.WindowUpdateFrame:
		case *http2.PingFrame:
			if !f.IsAck() {
				return f
			}
		default:
			return f
		}
	}
}

// request reads the head of the next request and gives its stream.
func (p *peer) request() uint32 {
	for {
		switch f := p.next().(type) {
		case *http2.MetaHeadersFrame:
			return f.StreamID
		case nil:
			p.t.Error("the connection ended before a request")
			return 0
		}
	}
}

// headers sends a head or trailers: names and values by turns.
func (p *peer) headers(id uint32, end bool, fields ...string) {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.check(p.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	block := []byte(p.block.String())
	part := block[:min(len(block), 16<<10)]
	block = block[len(part):]
	err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: part, EndStream: end, EndHeaders: len(block) == 0})
	for err == nil && len(block) > 0 {
		part = block[:min(len(block), 16<<10)]
		block = block[len(part):]
		err = p.framer.WriteContinuation(id, len(block) == 0, part)
	}
	p.check(err)
}

// drain reads until the client ends.
func (p *peer) drain() {
	for p.next() != nil {
	}
}
