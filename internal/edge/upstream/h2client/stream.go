package h2client

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
	"slipway.dev/slipway/internal/edge/normalize"
)

// Stream carries one exchange. It is a net.Conn: one user may write while another
// reads, and any goroutine may call Close, which cancels an exchange that is not
// complete, and set deadlines. The users are goroutines, or the one task that it was
// opened for, until that leaves its event loop.
//
// sending is for the one who writes, and comes before the connection's mu, which
// guards the rest.
type Stream struct {
	conn   *Conn
	task   *eventloop.Task // it was opened for; nil for goroutines
	reused bool

	// The request, guarded by sending.
	sending sync.Mutex
	head    h1.Head
	body    h1.Body
	headed  bool   // the head was sent
	rest    []byte // what was written and is not a complete head or chunk yet

	id        uint32 // 0 until the head is sent
	sentAt    int64
	send      h2flow.SendWindow
	writable  eventloop.Cond
	sendErr   error // why nothing more is sent
	ended     bool  // the end of the request was sent
	peerEnded bool  // the end of the response has come
	over      bool  // both, or it was reset

	in       responseBuffer
	readable eventloop.Cond
	refused  bool
	closed   bool
}

func newStream(c *Conn, by *eventloop.Task, reused bool) *Stream {
	s := &Stream{conn: c, task: by, reused: reused}
	s.writable.Init(&c.mu)
	s.readable.Init(&c.mu)
	s.in.window, s.in.Pool = h2flow.NewReceiveWindow(streamWindow), c.cfg.Pool
	return s
}

// Reused reports whether the connection had streams before, or refused this
// one: its failure is no sign of an unhealthy endpoint then.
func (s *Stream) Reused() bool { return s.reused || s.Refused() }

// Refused reports whether the endpoint refused the request before processing
// it.
func (s *Stream) Refused() bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.refused
}

// Takes reports whether the windows allow a body of a size, before its request is written.
func (s *Stream) Takes(size int) bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	window := c.send.Stream()
	return h2flow.Sendable(size, &window, &c.send.SendWindow) == size
}

// Read reads the response. Before its first byte, io.EOF means that the
// connection was closed; see [ErrRefused] too.
func (s *Stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := s.receive(b)
	if increment := s.in.windowUpdate(); increment > 0 && !s.over && !s.peerEnded && c.mayAddControl() {
		c.writer.WindowUpdate(s.id, increment)
		c.writer.FlushAsync(s.task)
	}
	return n, err
}

// receive waits for bytes of the response. It is called with mu held.
func (s *Stream) receive(b []byte) (int, error) {
	for {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case s.readable.Expired():
			return 0, os.ErrDeadlineExceeded
		}
		if n := s.in.read(b); n > 0 {
			return n, nil
		}
		if s.in.Over {
			return 0, s.in.End
		}
		s.readable.Wait(s.task)
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
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return len(b), s.conn.flush(s.task)
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
	if s.sendErr == nil && s.writable.Expired() {
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
	s.body.Reset(s.head.Framing, s.head.Length, true, &requestLimits)
	if err := s.conn.sendHead(s, &s.head, s.body.Done()); err != nil {
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

// awaitWindow waits until the windows allow some of the wanted bytes and the writer has
// room for them, and returns how many. No bytes are always allowed, for what is not
// DATA and for an empty frame that ends the stream. It is called with mu held, and releases it while
// it waits.
func (s *Stream) awaitWindow(want int) (int, error) {
	c := s.conn
	for {
		n := h2flow.Sendable(want, &s.send, &c.send.SendWindow)
		fits := c.writer.HasRoom(n)
		switch {
		case s.sendErr != nil:
			return 0, s.sendErr
		case s.id == 0 && (c.over || c.goneAway), fits && (n > 0 || want == 0):
			return n, nil
		case c.writer.Err() != nil:
			return 0, c.writer.Err()
		case s.writable.Expired():
			return 0, os.ErrDeadlineExceeded
		case c.writer.Pending() > 0 && !c.writer.Writing():
			// The endpoint grants more only once it has received what waits.
			_ = c.flush(s.task) // an error shows in the next round
			continue
		}
		if !fits {
			c.waitForRoom[s] = struct{}{}
		}
		s.writable.Wait(s.task)
		delete(c.waitForRoom, s)
	}
}

// The methods below are called with the connection's mu held. by is the task that calls them,
// or nil.

// stopSending ends the sending with an error.
func (s *Stream) stopSending(why error, by *eventloop.Task) {
	if s.sendErr == nil {
		s.sendErr = why
		s.writable.Wake(by)
	}
}

// refuse ends a stream that the endpoint refused.
func (s *Stream) refuse(by *eventloop.Task) {
	s.refused = true
	s.finishReading(ErrRefused, by)
}

// finishReading ends the response with an error, which is read after what has come already.
func (s *Stream) finishReading(err error, by *eventloop.Task) {
	if !s.in.Over {
		s.in.Over, s.in.End = true, err
		s.readable.Wake(by)
	}
}

// Close ends the stream, and cancels an exchange that is not complete at the
// endpoint.
func (s *Stream) Close() error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.in.Drop()
	s.stopSending(net.ErrClosed, nil)
	s.readable.Stop()
	s.writable.Stop()
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
		if c.mayAddControl() {
			c.writer.Reset(s.id, code)
			c.writer.FlushAsync(nil)
		}
	}
	c.remove(s)
	return nil
}

// SetDeadline sets both deadlines. One in the past ends reads and writes that
// wait.
func (s *Stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of Read.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.readable.SetDeadline(t)
	return nil
}

// SetWriteDeadline sets the deadline of Write. It bounds the wait for the
// endpoint's windows; writing to the connection has its own timeout.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.writable.SetDeadline(t)
	return nil
}

// LocalAddr is the local address of the connection.
func (s *Stream) LocalAddr() net.Addr { return s.conn.net.LocalAddr() }

// RemoteAddr is the remote address of the connection.
func (s *Stream) RemoteAddr() net.Addr { return s.conn.net.RemoteAddr() }

var _ io.ReadWriteCloser = (*Stream)(nil)
