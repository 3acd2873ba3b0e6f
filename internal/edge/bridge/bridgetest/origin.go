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

// Timeout bounds every wait of a test. It is long, because it only expires when
// the code is wrong, and a loaded machine must not fail a test.
const Timeout = 30 * time.Second

// Exchange is one request at the origin. It belongs to the goroutine of the
// serve function and is invalid after that returns.
type Exchange struct {
	// Stream is the metadata of the stream.
	Stream bridge.Stream
	// Conn is the stream as an HTTP/1.1 connection, under test.
	Conn net.Conn
	// Reader is positioned behind the head of the request; Upload reads the
	// body from it.
	Reader *h1.Reader
	// Head is the request.
	Head h1.Head

	// pool and limits are those of the handler, for the transfer of bodies.
	pool   *h1.BufferPool
	limits h1.Limits
}

// Handler returns a bridge.Handler that passes requests to serve. Malformed
// ones are refused as the edge does. It closes the conn after serve, which ends
// the stream; a response that is incomplete by then must reset it.
func Handler(serve func(*Exchange)) *bridge.Handler {
	pool := new(h1.BufferPool)
	return &bridge.Handler{Pool: pool, Limits: h1.DefaultLimits(), Serve: func(s bridge.Stream, conn net.Conn) {
		defer conn.Close()
		times := h1.DefaultTimeouts()
		x := &Exchange{Stream: s, Conn: conn, Reader: new(h1.Reader), pool: pool, limits: h1.DefaultLimits()}
		x.Reader.Init(conn, pool, times)
		defer x.Reader.Close()
		if err := x.Reader.ReadRequest(&x.Head, &x.limits); err != nil {
			// An error without a status, such as a closed connection, has no
			// response.
			if status := h1.StatusOf(err); status != 0 {
				_ = x.Respond(status, err.Error())
			}
			return
		}
		serve(x)
	}}
}

// Field returns the value of a request header, by a name in any case; empty if
// the request has none.
func (x *Exchange) Field(name string) string {
	value, _ := x.Head.Find(name)
	return string(value)
}

// Upload reads the whole body into memory, and its trailers as lines of name
// and value. An error means that the body is incomplete.
func (x *Exchange) Upload() (body []byte, trailers string, err error) {
	var framed bytes.Buffer
	trailers, err = x.UploadTo(&framed)
	return framed.Bytes(), trailers, err
}

// UploadTo copies the body to w as it arrives, without its chunked framing.
// Trailers are complete only after the body.
func (x *Exchange) UploadTo(w io.Writer) (trailers string, err error) {
	var body h1.Body
	body.Reset(x.Head.Framing, x.Head.Length, true, &x.limits)
	// h1.Transfer writes to a connection, so w is wrapped in one.
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

// Send writes each part with its own call of Write, so that tests control where
// a message is cut.
func (x *Exchange) Send(parts ...string) error {
	for _, part := range parts {
		if _, err := x.Conn.Write(normalize.Bytes(part)); err != nil {
			return err
		}
	}
	return nil
}

// Respond writes a whole response with a Content-Length, in one write.
func (x *Exchange) Respond(status int, body string) error {
	return x.Send(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(body), body))
}

// sink is a net.Conn that can only be written to. The embedded nil Conn makes
// any other call panic.
type sink struct {
	net.Conn
	w io.Writer
}

func (s *sink) Write(p []byte) (int, error) { return s.w.Write(p) }

// SetWriteDeadline is called by h1.Writer; writes to memory need none.
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// oneConn is a net.Listener with one connection, so that http.Server can serve
// it.
type oneConn struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
}

// Accept returns the connection once. The second call blocks until Close: an
// error at once would end Serve while the connection is still in use.
func (l *oneConn) Accept() (conn net.Conn, err error) {
	l.once.Do(func() { conn = l.conn })
	if conn != nil {
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close ends Accept. It may be called repeatedly, by the server and by its
// state hook.
func (l *oneConn) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

// Addr implements net.Listener.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// NetHTTP returns a bridge.Handler whose conns are served by net/http: an
// independent parser of composed requests, and writer of translated responses.
// It finds errors that the own codec would make on both sides alike.
func NetHTTP(t *testing.T, handler http.Handler) *bridge.Handler {
	t.Helper()
	return &bridge.Handler{Pool: new(h1.BufferPool), Serve: func(_ bridge.Stream, conn net.Conn) {
		listener := &oneConn{conn: conn, done: make(chan struct{})}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: Timeout, ConnState: func(_ net.Conn, state http.ConnState) {
			// One connection carries one request, so Serve may return after it.
			if state == http.StateClosed || state == http.StateIdle {
				_ = listener.Close()
			}
		}}
		// A stream carries one request, so the server must not wait for a
		// second.
		server.SetKeepAlivesEnabled(false)
		if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
			t.Errorf("net/http: %v", err)
		}
	}}
}

// Within receives from a channel and fails the test if nothing arrives before
// Timeout. what names the event in the failure.
func Within[T any](t testing.TB, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(Timeout):
		t.Fatalf("%s: nothing in %v", what, Timeout)
	}
	return v
}
