package h2

import (
	"net"
	"os"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
)

// stream is one request and its answer. To who serves it, it is a net.Conn on
// which the request comes as one of HTTP/1.1. What is not said to be otherwise
// is guarded by the session's mu.
type stream struct {
	session *session
	id      uint32

	// The request.
	in       inbox
	declared int64 // the length of the body, -1 when that was not said
	got      int64 // how much of the body has come
	room     int   // what the client may still send
	owed     int   // what was read and not given back to the client
	expects  bool  // the client waits for 100
	isHead   bool  // the method was HEAD

	// The answer.
	window    int64 // what the client takes yet
	begun     bool  // its head is on its way
	complete  bool  // all of it is, but perhaps for the end
	ended     bool  // the end is, too
	peerEnded bool  // all of the request has come
	call      sync.Mutex
	reply     *bridge.ResponseTranslator // guarded by call

	err      error // why nothing more can be read or written
	started  bool  // somebody serves it
	bided    bool  // it was held back
	canceled bool  // the context is over
	done     chan struct{}
	after    []*afterwards

	readable, writable waiter
}

var _ net.Conn = (*stream)(nil)

// waiter is one direction of a stream: who waits for it, and for how long.
type waiter struct {
	cond     sync.Cond
	waiting  int
	deadline time.Time
	timer    *time.Timer
}

func (w *waiter) expired() bool {
	return !w.deadline.IsZero() && !time.Now().Before(w.deadline)
}

// wait waits until something has changed, or the deadline.
func (w *waiter) wait() {
	if !w.deadline.IsZero() {
		if left := time.Until(w.deadline); w.timer == nil {
			w.timer = time.AfterFunc(left, func() {
				w.cond.L.Lock()
				defer w.cond.L.Unlock()
				w.cond.Broadcast()
			})
		} else {
			w.timer.Reset(left)
		}
	}
	w.waiting++
	w.cond.Wait()
	w.waiting--
}

// wake makes who waits look again.
func (w *waiter) wake() {
	if w.waiting > 0 {
		w.cond.Broadcast()
	}
}

func (w *waiter) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.wake()
}

// LocalAddr is the edge's end of the connection.
func (s *stream) LocalAddr() net.Addr { return s.session.local }

// RemoteAddr is the client's end of the connection.
func (s *stream) RemoteAddr() net.Addr { return s.session.remote }

// Read gives the request: its head, then its body, then io.EOF. A client that
// waits for it is told to go on when the body is waited for.
func (s *stream) Read(p []byte) (int, error) {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case s.err != nil:
			return 0, s.err
		case s.readable.expired():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		}
		if n, data := s.in.read(p); n > 0 {
			if data > 0 && c.consumed(s, data) {
				_ = c.flush() // an error shows with the next read
			}
			return n, nil
		}
		if s.in.Over {
			return 0, s.in.End
		}
		if s.expects {
			s.expects = false
			if s.got == 0 && !s.begun {
				c.sendContinue(s)
				_ = c.flush() // as above
				continue
			}
		}
		s.readable.wait()
	}
}

// Write takes the response. What it makes up is on its way to the client when
// Write returns.
func (s *stream) Write(p []byte) (int, error) {
	s.call.Lock()
	defer s.call.Unlock()
	if err := s.writeable(); err != nil {
		return 0, err
	}
	return s.reply.Write(p)
}

func (s *stream) writeable() error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.reply == nil:
		return net.ErrClosed
	case s.err != nil && !s.complete:
		return s.err
	case s.writable.expired():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Close ends what waits, and everything after it. A response that is not
// complete then is cut off.
func (s *stream) Close() error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err == net.ErrClosed {
		return net.ErrClosed
	}
	s.shut(net.ErrClosed)
	return nil
}

// shut ends reading and writing. What was not read is lost.
func (s *stream) shut(why error) {
	if s.err == nil || why == net.ErrClosed {
		s.err = why
	}
	s.session.credit(s.in.drop())
	s.readable.stop()
	s.writable.stop()
}

// SetDeadline replaces both deadlines.
func (s *stream) SetDeadline(t time.Time) error {
	if err := s.SetReadDeadline(t); err != nil {
		return err
	}
	return s.SetWriteDeadline(t)
}

// SetReadDeadline replaces the deadline of Read.
func (s *stream) SetReadDeadline(t time.Time) error { return s.setDeadline(&s.readable, t) }

// SetWriteDeadline replaces the deadline of Write. It bounds waiting for the
// windows of the client; writing to the connection has its own.
func (s *stream) SetWriteDeadline(t time.Time) error { return s.setDeadline(&s.writable, t) }

func (s *stream) setDeadline(w *waiter, t time.Time) error {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.err == net.ErrClosed {
		return net.ErrClosed
	}
	w.deadline = t
	w.wake()
	return nil
}
