package h2client

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
	"slipway.dev/slipway/internal/edge/normalize"
)

// Stream carries one exchange. It is a net.Conn: one goroutine may write while
// another reads, and any may call Close, which cancels an exchange that is not
// complete.
//
// It has three locks, because sending must not wait for receiving: sending is
// for the goroutine that writes, Conn.mu for the state that the connection
// shares, and mu for the response. sending comes before Conn.mu; mu and Conn.mu
// are never held together.
type Stream struct {
	conn   *Conn
	reused bool

	// The request, guarded by sending.
	sending sync.Mutex
	head    h1.Head
	body    h1.Body
	headed  bool   // the head was sent
	rest    []byte // what was written and is not a complete head or chunk yet

	// Guarded by Conn.mu.
	id        uint32 // 0 until the head is sent
	sentAt    int64
	send      h2flow.SendWindow
	writeBy   time.Time
	writable  sync.Cond
	sendErr   error // why nothing more is sent
	ended     bool  // the end of the request was sent
	peerEnded bool  // the end of the response has come
	over      bool  // both, or it was reset

	mu       sync.Mutex // guards the rest
	in       responseBuffer
	readBy   time.Time
	readable sync.Cond
	refused  bool
	closed   bool
}

func newStream(c *Conn, reused bool) *Stream {
	s := &Stream{conn: c, reused: reused}
	s.writable.L, s.readable.L = &c.mu, &s.mu
	s.in.window, s.in.Pool = h2flow.NewReceiveWindow(streamWindow), c.cfg.Pool
	return s
}

// Reused reports whether the connection had streams before, or refused this
// one: its failure is no sign of an unhealthy endpoint then.
func (s *Stream) Reused() bool { return s.reused || s.Refused() }

// Refused reports whether the endpoint refused the request before processing
// it.
func (s *Stream) Refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// Read reads the response. Before its first byte, io.EOF means that the
// connection was closed; see [ErrRefused] too.
func (s *Stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	n, err := s.receive(b)
	increment := s.in.windowUpdate()
	s.mu.Unlock()
	if increment > 0 {
		s.conn.mu.Lock()
		if !s.over && !s.peerEnded {
			s.conn.enqueue(frame{kind: frameWindowUpdate, stream: s.id, value: increment})
		}
		s.conn.mu.Unlock()
	}
	return n, err
}

// receive waits for bytes of the response. It is called with mu held.
func (s *Stream) receive(b []byte) (int, error) {
	for {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case expired(s.readBy):
			return 0, os.ErrDeadlineExceeded
		}
		if n := s.in.read(b); n > 0 {
			return n, nil
		}
		if s.in.Over {
			return 0, s.in.End
		}
		wait(&s.readable, s.readBy)
	}
}

// Write sends the request: its head and the body that its framing announces.
// After a complete response, the rest of a body is discarded.
func (s *Stream) Write(b []byte) (int, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	err := s.sendRequest(b)
	switch {
	case err == errUnwanted:
		return len(b), nil
	case err != nil:
		return 0, err
	}
	return len(b), s.conn.flush()
}

// sendRequest sends what can be sent of the request, and keeps the rest. It is
// called with sending held.
func (s *Stream) sendRequest(b []byte) error {
	if err := s.writeError(); err != nil {
		return err
	}
	if len(s.rest) > 0 {
		b = append(s.rest, b...)
		s.rest = nil
	}
	if !s.headed {
		n, err := s.sendHead(b)
		if err != nil {
			return err
		}
		if n == 0 {
			s.rest = append([]byte(nil), b...)
			return nil
		}
		b = b[n:]
	}
	b, err := s.sendBody(b)
	if err != nil {
		return err
	}
	if len(b) > 0 {
		s.rest = append([]byte(nil), b...)
	}
	return nil
}

// writeError returns why nothing can be written now.
func (s *Stream) writeError() error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.sendErr == nil && expired(s.writeBy) {
		return os.ErrDeadlineExceeded
	}
	return s.sendErr
}

// requestLimits are wide: the edge has checked the request against the limits
// of its entry point before, and has added headers to it.
var requestLimits = h1.Limits{
	HeadBytes: 1 << 20, Fields: 4096, TargetBytes: 1 << 18, TrailerBytes: 1 << 16,
	Underscores: true, Hazards: ^normalize.Hazard(0),
}

// sendHead sends the head, once it is complete, and returns its length.
func (s *Stream) sendHead(b []byte) (int, error) {
	n, err := s.head.Parse(b, &requestLimits)
	if n == 0 || err != nil {
		return 0, err
	}
	s.headed = true
	s.mu.Lock()
	s.in.bodiless = s.head.MethodID == h1.MethodHead
	s.mu.Unlock()
	s.body.Reset(s.head.Framing, s.head.Length, true, &requestLimits)
	if err := s.conn.sendHead(s, &s.head, s.body.Done()); err != nil {
		if err == ErrRefused {
			s.markRefused()
		}
		return 0, err
	}
	return n, nil
}

// sendBody sends what there is of the body, and returns the part of it that is
// not a complete chunk yet.
func (s *Stream) sendBody(b []byte) ([]byte, error) {
	for len(b) > 0 {
		if s.body.Done() {
			return nil, errAfterEnd
		}
		data, used, err := s.body.Next(b)
		if err != nil {
			return nil, err
		}
		if used == 0 {
			break
		}
		b = b[used:]
		end := s.body.Done()
		switch trailers := &s.body.Trailers; {
		case end && trailers.Len() > 0:
			if len(data) > 0 {
				err = s.conn.sendData(s, data, false)
			}
			if err == nil {
				err = s.conn.sendTrailers(s, trailers)
			}
		case end || len(data) > 0:
			err = s.conn.sendData(s, data, end)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// takeWindow waits until the windows allow some of the wanted bytes, takes
// them, and returns how many. No bytes are always allowed, for an empty DATA
// frame that ends the stream.
func (s *Stream) takeWindow(want int) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for flushed := false; ; {
		if s.sendErr != nil {
			return 0, s.sendErr
		}
		if n := h2flow.Sendable(min(want, frameSize), &s.send, &c.send.SendWindow); n > 0 || want == 0 {
			s.send.Take(n)
			c.send.Take(n)
			return n, nil
		}
		if !flushed {
			// The endpoint grants more only once it has received what is
			// buffered.
			flushed = true
			c.mu.Unlock()
			err := c.flush()
			c.mu.Lock()
			if err != nil {
				return 0, err
			}
			continue
		}
		if expired(s.writeBy) {
			return 0, os.ErrDeadlineExceeded
		}
		wait(&s.writable, s.writeBy)
	}
}

// stopSending ends the sending with an error. It is called with Conn.mu held.
func (s *Stream) stopSending(why error) {
	if s.sendErr == nil {
		s.sendErr = why
		s.writable.Broadcast()
	}
}

// Close ends the stream, and cancels an exchange that is not complete at the
// endpoint.
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.in.Drop()
	s.readable.Broadcast()
	s.mu.Unlock()

	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	s.stopSending(net.ErrClosed)
	if s.over {
		return nil
	}
	if s.id != 0 {
		code := http2.ErrCodeCancel
		if s.peerEnded {
			code = http2.ErrCodeNo
		} else {
			c.suspect(s)
		}
		c.enqueue(frame{kind: frameReset, stream: s.id, value: uint32(code)})
	}
	c.remove(s)
	return nil
}

// markRefused ends a stream that the endpoint refused.
func (s *Stream) markRefused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
	s.finishReading(ErrRefused)
}

// connectionClosed ends a stream whose connection was closed.
func (s *Stream) connectionClosed(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishReading(streamError(cause, s.in.begun))
}

// fail ends the response with an error, which is read after what has come
// already.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishReading(err)
}

// finishReading is called with mu held.
func (s *Stream) finishReading(err error) {
	if !s.in.Over {
		s.in.Over, s.in.End = true, err
		s.readable.Broadcast()
	}
}

// SetDeadline sets both deadlines. One in the past ends reads and writes that
// wait.
func (s *Stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of Read.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.readBy = t
	s.readable.Broadcast()
	return nil
}

// SetWriteDeadline sets the deadline of Write. It bounds the wait for the
// endpoint's windows; writing to the connection has its own timeout.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.writeBy = t
	s.writable.Broadcast()
	return nil
}

// LocalAddr is the local address of the connection.
func (s *Stream) LocalAddr() net.Addr { return s.conn.net.LocalAddr() }

// RemoteAddr is the remote address of the connection.
func (s *Stream) RemoteAddr() net.Addr { return s.conn.net.RemoteAddr() }

var _ io.ReadWriteCloser = (*Stream)(nil)

func expired(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// wait waits for a condition, whose lock is held, or until a deadline; zero is
// none.
func wait(condition *sync.Cond, until time.Time) {
	if !until.IsZero() {
		timer := time.AfterFunc(time.Until(until), func() {
			condition.L.Lock()
			defer condition.L.Unlock()
			condition.Broadcast()
		})
		defer timer.Stop()
	}
	condition.Wait()
}
