package bridge

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// conn is one stream as a connection.
type conn struct {
	ends   ends
	in     side
	out    side
	stream *stream
}

var _ net.Conn = (*conn)(nil)

// longAgo is a deadline that ends what the library waits for.
var longAgo = time.Unix(1, 0)

func newConn(ctx context.Context, s *stream, control *http.ResponseController) *conn {
	c := &conn{ends: addressesOf(ctx), stream: s}
	// The library answers for a stream that is gone; there is nothing to add.
	c.in.interrupt = func() { _ = control.SetReadDeadline(longAgo) }
	c.out.interrupt = func() { _ = control.SetWriteDeadline(longAgo) }
	return c
}

// LocalAddr is the edge's end of the connection that the stream belongs to.
func (c *conn) LocalAddr() net.Addr { return c.ends.local }

// RemoteAddr is the client's end of that connection.
func (c *conn) RemoteAddr() net.Addr { return c.ends.remote }

// Read gives the request: its head, then its body, then io.EOF.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.in.begin(); err != nil {
		return 0, err
	}
	n, err := c.stream.upload.read(p)
	return n, c.in.end(err)
}

// Write takes the response. What it makes up is on its way to the client when
// Write returns.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.out.begin(); err != nil {
		return 0, err
	}
	n, err := c.stream.response.Write(p)
	if err = c.out.end(err); err != nil {
		return 0, err
	}
	return n, nil
}

// Close ends what waits, and everything after it. A response that is not
// complete then is cut off.
func (c *conn) Close() error {
	first := c.in.shut()
	c.out.shut()
	if !first {
		return net.ErrClosed
	}
	return nil
}

// finish closes the conn and returns when nobody is inside it any more.
func (c *conn) finish() {
	_ = c.Close()
	c.in.waitIdle()
	c.out.waitIdle()
}

// SetDeadline replaces both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.in.setDeadline(t); err != nil {
		return err
	}
	return c.out.setDeadline(t)
}

// SetReadDeadline replaces the deadline of Read.
func (c *conn) SetReadDeadline(t time.Time) error { return c.in.setDeadline(t) }

// SetWriteDeadline replaces the deadline of Write.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(t) }

// side is one direction of a conn. One call runs at a time, and it can be
// ended: by a deadline or by Close. The deadlines of the library are used for
// that moment only: a client must not pay for a backend that is slow.
type side struct {
	interrupt func() // makes the call in the library return

	call sync.Mutex // held while a call runs

	mu       sync.Mutex
	running  bool
	err      error // nothing runs any more
	deadline time.Time
	timer    *time.Timer
	armed    time.Time // when the timer fires, zero when it will not
}

// begin starts a call, or says why none can be made.
func (s *side) begin() error {
	s.call.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	if err == nil && s.expired() {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		s.call.Unlock()
		return err
	}
	s.running = true
	s.arm()
	return nil
}

// end ends a call. An error that an interruption caused becomes its reason.
func (s *side) end(err error) error {
	s.mu.Lock()
	s.running = false
	if err != nil && s.err != nil {
		err = s.err
	}
	s.mu.Unlock()
	s.call.Unlock()
	return err
}

func (s *side) expired() bool {
	return !s.deadline.IsZero() && !time.Now().Before(s.deadline)
}

// arm sees to it that the timer fires by the deadline. One that fires earlier
// is let be: it looks again then.
func (s *side) arm() {
	if s.deadline.IsZero() || !s.armed.IsZero() && !s.armed.After(s.deadline) {
		return
	}
	s.armed = s.deadline
	wait := time.Until(s.deadline)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.expire)
		return
	}
	s.timer.Reset(wait)
}

// expire is the timer's.
func (s *side) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = time.Time{}
	switch {
	case !s.running:
		// The next call looks at the deadline itself.
	case s.expired():
		s.cut(os.ErrDeadlineExceeded)
	default:
		s.arm()
	}
}

// cut ends the call that runs. The library's stream cannot be used after that.
func (s *side) cut(reason error) {
	if s.err == nil {
		s.err = reason
		s.interrupt()
	}
}

func (s *side) setDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == net.ErrClosed {
		return s.err
	}
	s.deadline = t
	switch {
	case !s.running:
	case s.expired():
		s.cut(os.ErrDeadlineExceeded)
	default:
		s.arm()
	}
	return nil
}

// shut lets nothing run any more, and reports whether that is news.
func (s *side) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == net.ErrClosed {
		return false
	}
	if s.running {
		s.cut(net.ErrClosed)
	}
	s.err = net.ErrClosed
	if s.timer != nil {
		s.timer.Stop()
	}
	return true
}

// waitIdle waits for the call that runs. It does not take long after shut.
func (s *side) waitIdle() {
	s.call.Lock()
	defer s.call.Unlock()
}
