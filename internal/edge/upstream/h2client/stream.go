package h2client

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// Stream carries one exchange. It is a net.Conn: one side may be written while
// the other is read, and Close ends both from anywhere. A request that is not
// complete then, or a response, is cancelled.
type Stream struct {
	conn   *Conn
	reused bool

	// What is sent. The writer's own, under sending.
	sending sync.Mutex
	head    h1.Head
	body    h1.Body
	headed  bool
	rest    []byte // of what was written and cannot be used yet

	// Guarded by Conn.mu.
	id        uint32 // 0 until the head is sent
	sentAt    int64
	window    int64
	writeBy   time.Time
	writable  sync.Cond
	barred    error // why nothing more is sent
	ended     bool  // the end of the request was sent
	peerEnded bool  // the end of the response has come
	over      bool  // both, or it was reset

	mu       sync.Mutex // guards the rest
	in       inbox
	readBy   time.Time
	readable sync.Cond
	refused  bool
	closed   bool
}

func newStream(c *Conn, reused bool) *Stream {
	s := &Stream{conn: c, reused: reused}
	s.writable.L, s.readable.L = &c.mu, &s.mu
	s.in.room, s.in.Pool = streamWindow, c.cfg.Pool
	return s
}

// Reused reports whether its connection had streams before, or refused this
// one: that says nothing about the endpoint.
func (s *Stream) Reused() bool { return s.reused || s.Refused() }

// Refused reports whether the endpoint said that it has not looked at the
// request.
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
	credit := s.in.credit()
	s.mu.Unlock()
	if credit > 0 {
		s.conn.mu.Lock()
		if !s.over && !s.peerEnded {
			s.conn.enqueue(frame{kind: frameWindow, stream: s.id, value: credit})
		}
		s.conn.mu.Unlock()
	}
	return n, err
}

func (s *Stream) receive(b []byte) (int, error) {
	for {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case past(s.readBy):
			return 0, os.ErrDeadlineExceeded
		}
		if n := s.in.read(b); n > 0 {
			return n, nil
		}
		if s.in.Over {
			return 0, s.in.End
		}
		await(&s.readable, s.readBy)
	}
}

// Write sends the request: its head and, as its framing says, its body. After a
// complete response that ended the stream, the rest of a body is thrown away.
func (s *Stream) Write(b []byte) (int, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	err := s.send(b)
	switch {
	case err == errUnwanted:
		return len(b), nil
	case err != nil:
		return 0, err
	}
	return len(b), s.conn.flush()
}

func (s *Stream) send(b []byte) error {
	if err := s.writeFault(); err != nil {
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

// writeFault says why nothing can be written now.
func (s *Stream) writeFault() error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.barred == nil && past(s.writeBy) {
		return os.ErrDeadlineExceeded
	}
	return s.barred
}

// requestLimits are wide: the edge has judged the request by its own limits
// before it wrote it, and added to it.
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
			s.refuse()
		}
		return 0, err
	}
	return n, nil
}

// sendBody sends what there is of the body, and returns what cannot be used
// yet.
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

// take waits until some of want bytes may be sent, and takes them from the
// windows. Nothing may always be sent.
func (s *Stream) take(want int) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for flushed := false; ; {
		if s.barred != nil {
			return 0, s.barred
		}
		if n := min(int64(want), frameSize, s.window, c.window); n > 0 || want == 0 {
			n = max(n, 0)
			s.window -= n
			c.window -= n
			return int(n), nil
		}
		if !flushed {
			// The endpoint gives more only when it sees what there is.
			flushed = true
			c.mu.Unlock()
			err := c.flush()
			c.mu.Lock()
			if err != nil {
				return 0, err
			}
			continue
		}
		if past(s.writeBy) {
			return 0, os.ErrDeadlineExceeded
		}
		await(&s.writable, s.writeBy)
	}
}

// forbid ends the sending. It is called with Conn.mu held.
func (s *Stream) forbid(why error) {
	if s.barred == nil {
		s.barred = why
		s.writable.Broadcast()
	}
}

// Close ends the stream. What is not complete is cancelled at the endpoint.
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
	s.forbid(net.ErrClosed)
	if s.over {
		return nil
	}
	if s.id != 0 {
		code := http2.ErrCodeCancel
		if s.peerEnded {
			code = http2.ErrCodeNo
		} else {
			c.doubt(s)
		}
		c.enqueue(frame{kind: frameReset, stream: s.id, value: uint32(code)})
	}
	c.finish(s)
	return nil
}

// refuse ends a stream that the endpoint has not looked at.
func (s *Stream) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
	s.finishReading(ErrRefused)
}

// breakOff ends a stream whose connection ended.
func (s *Stream) breakOff(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishReading(broken(cause, s.in.begun))
}

// fail ends the reading with an error, after what has come already.
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

// SetDeadline bounds reads and writes. One that is past ends those that wait.
func (s *Stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline bounds reads.
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

// SetWriteDeadline bounds writes, as far as they wait for the endpoint to take
// more of this stream. What the connection itself takes has its own bound.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.writeBy = t
	s.writable.Broadcast()
	return nil
}

// LocalAddr is that of the connection.
func (s *Stream) LocalAddr() net.Addr { return s.conn.net.LocalAddr() }

// RemoteAddr is that of the connection.
func (s *Stream) RemoteAddr() net.Addr { return s.conn.net.RemoteAddr() }

var _ io.ReadWriteCloser = (*Stream)(nil)

func past(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// await waits for a condition, whose lock is held, or until a moment.
func await(condition *sync.Cond, until time.Time) {
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
