// Package bridgetest is the common part of the tests of HTTP/2 and HTTP/3: an
// origin that speaks HTTP/1.1 on the conns of a bridge.Handler, and a suite of
// exchanges that real clients make over real sockets. It belongs in _test.go
// files only.
package bridgetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// Timeout bounds every wait of a test. It is never waited for when the code is
// right.
const Timeout = 30 * time.Second

// Exchange is one request at the origin.
type Exchange struct {
	// Stream is the metadata of the stream.
	Stream bridge.Stream
	// Conn is the stream as a connection.
	Conn net.Conn
	// Reader has read the head.
	Reader *h1.Reader
	// Head is the request.
	Head h1.Head

	pool   *h1.BufferPool
	limits h1.Limits
}

// Handler returns a bridge.Handler that passes requests to serve. Malformed ones are
// refused as the edge does.
func Handler(serve func(*Exchange)) *bridge.Handler {
	pool := new(h1.BufferPool)
	return &bridge.Handler{Pool: pool, Limits: h1.DefaultLimits(), Serve: func(s bridge.Stream, conn net.Conn) {
		defer conn.Close()
		times := h1.DefaultTimeouts()
		x := &Exchange{Stream: s, Conn: conn, Reader: h1.NewReader(conn, pool, times), pool: pool, limits: h1.DefaultLimits()}
		defer x.Reader.Close()
		if err := x.Reader.ReadRequest(&x.Head, &x.limits); err != nil {
			if status := h1.StatusOf(err); status != 0 {
				_ = x.Answer(status, err.Error())
			}
			return
		}
		serve(x)
	}}
}

// Field is the value of a request's header, for a name in any case.
func (x *Exchange) Field(name string) string {
	value, _ := x.Head.Find(name)
	return string(value)
}

// Upload reads the body, and its trailers as lines.
func (x *Exchange) Upload() (body []byte, trailers string, err error) {
	var framed bytes.Buffer
	trailers, err = x.UploadTo(&framed)
	return framed.Bytes(), trailers, err
}

// UploadTo reads the body and writes it to w as it comes.
func (x *Exchange) UploadTo(w io.Writer) (trailers string, err error) {
	var body h1.Body
	body.Reset(x.Head.Framing, x.Head.Length, true, &x.limits)
	pipe := &sink{w: w}
	transfer := h1.Transfer{From: x.Reader, To: h1.NewWriter(pipe, x.pool, h1.Timeouts{}), Body: &body}
	if err := transfer.Run(); err != nil {
		return "", err
	}
	for i := range body.Trailers.Len() {
		trailers += fmt.Sprintf("%s: %s\n", body.Trailers.Name(i), body.Trailers.Value(i))
	}
	return trailers, nil
}

// Send writes each part with a write of its own.
func (x *Exchange) Send(parts ...string) error {
	for _, part := range parts {
		if _, err := x.Conn.Write(normalize.Bytes(part)); err != nil {
			return err
		}
	}
	return nil
}

// Answer writes a whole response.
func (x *Exchange) Answer(status int, body string) error {
	return x.Send(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(body), body))
}

// sink is a connection that can only be written to.
type sink struct {
	net.Conn
	w io.Writer
}

func (s *sink) Write(p []byte) (int, error)      { return s.w.Write(p) }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// oneConn is a listener with one connection, for servers that want one.
type oneConn struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
}

// Accept returns the connection once, and then waits for Close, as a server expects of
// a listener.
func (l *oneConn) Accept() (conn net.Conn, err error) {
	l.once.Do(func() { conn = l.conn })
	if conn != nil {
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close ends Accept.
func (l *oneConn) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// NetHTTP returns a bridge.Handler whose conns are served by net/http: an independent
// parser of composed requests, and writer of translated responses.
func NetHTTP(t *testing.T, handler http.Handler) *bridge.Handler {
	t.Helper()
	return &bridge.Handler{Pool: new(h1.BufferPool), Serve: func(_ bridge.Stream, conn net.Conn) {
		listener := &oneConn{conn: conn, done: make(chan struct{})}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: Timeout, ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateIdle {
				_ = listener.Close()
			}
		}}
		server.SetKeepAlivesEnabled(false)
		if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
			t.Errorf("net/http: %v", err)
		}
	}}
}

// Within fails the test when a channel delivers nothing in time.
func Within[T any](t testing.TB, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(Timeout):
		t.Fatalf("%s: nothing in %v", what, Timeout)
	}
	return v
}
