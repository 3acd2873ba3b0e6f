package bridge

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// conn is one stream as a net.Conn. in and out are independent: an upload may wait
// while the response is written.
type conn struct {
	ends   ends
	in     side
	out    side
	stream *stream
}

var _ net.Conn = (*conn)(nil)

// longAgo is a deadline that ends every wait in the library.
var longAgo = time.Unix(1, 0)

// newConn returns the conn of a stream, with interrupts through its controller.
func newConn(ctx context.Context, s *stream, control *http.ResponseController) *conn {
	c := &conn{ends: addressesOf(ctx), stream: s}
	// An error means that the stream is gone, which ends the wait too.
	c.in.interrupt = func() { _ = control.SetReadDeadline(longAgo) }
	c.out.interrupt = func() { _ = control.SetWriteDeadline(longAgo) }
	return c
}

// LocalAddr is the edge's end of the connection that the stream belongs to.
func (c *conn) LocalAddr() net.Addr { return c.ends.local }

// RemoteAddr is the client's end of that connection.
func (c *conn) RemoteAddr() net.Addr { return c.ends.remote }

// Read reads the request: its head, then its body, then io.EOF.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.in.begin(); err != nil {
		return 0, err
	}
	n, err := c.stream.upload.read(p)
	return n, c.in.end(err)
}

// Write writes the response. It is flushed to the client when Write returns.
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

// Close ends the calls that wait and refuses later ones. A response that is not
// complete then is cut off.
func (c *conn) Close() error {
	first := c.in.shut()
	c.out.shut()
	if !first {
		return net.ErrClosed
	}
	return nil
}

// finish closes the conn and returns when no call is inside it any more.
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

// side is one direction of a conn. One call runs at a time, and a deadline or Close
// can interrupt it. The deadlines of the library are used for that moment only: the
// time of a slow backend must not count against a client.
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

// begin starts a call, or returns why none can be made.
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

// end ends a call. An error that an interruption caused is replaced by the reason of
// the interruption.
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

// expired reports whether the deadline has passed. mu is held.
func (s *side) expired() bool {
	return !s.deadline.IsZero() && !time.Now().Before(s.deadline)
}

// arm sets the timer to the deadline. A timer that fires earlier is kept: it rearms
// itself then, which is cheaper than a reset for each call.
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

// expire runs when the timer fires.
func (s *side) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = time.Time{}
	switch {
	case !s.running:
		// The next call checks the deadline itself.
	case s.expired():
		s.cut(os.ErrDeadlineExceeded)
	default:
		s.arm()
	}
}

// cut interrupts the call that runs. The library's stream cannot be used after that.
func (s *side) cut(reason error) {
	if s.err == nil {
		s.err = reason
		s.interrupt()
	}
}

// setDeadline applies to the call that runs, too.
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

// shut refuses later calls, and reports whether it was the first to do so.
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

// waitIdle waits for the call that runs, which ends soon after shut.
func (s *side) waitIdle() {
	s.call.Lock()
	defer s.call.Unlock()
}
