//go:build linux

package eventloop

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// side is one direction of a connection, with at most one waiter.
type side struct {
	// state is isReady if there may be something to read, or room to write; nil if an event
	// has to come first; otherwise it is who waits for that.
	state   atomic.Pointer[waiter]
	expired atomic.Bool // the deadline has passed
	// deadline counts from the loop's epoch; 0 is none. It is guarded by Loop.mu.
	deadline int64
}

// set marks the side as ready, unless it is being waited for.
func (s *side) set() { s.state.CompareAndSwap(nil, isReady) }

// happened wakes who waits for an event. on is the loop that runs the caller and has the
// connection.
func (s *side) happened(on *Loop) {
	if s.state.Load() == isReady {
		return
	}
	if w := s.state.Swap(isReady); w != nil && w != isReady {
		w.wake(on, on)
	}
}

// interrupt wakes who waits without an event: the deadline has passed, or the connection
// was closed.
func (s *side) interrupt(of, on *Loop) {
	if w := s.state.Load(); w != nil && w != isReady && s.state.CompareAndSwap(w, nil) {
		w.wake(of, on)
	}
}

// parkers are the waiters of goroutines.
var parkers = sync.Pool{New: func() any { return &waiter{parked: make(chan struct{}, 1)} }}

// wait waits until a side is ready, its deadline passes or the connection is closed. A task that
// is on its loop must not be blocked as a goroutine is: the loop that would wake it is the
// thread that it blocks.
func (c *Conn) wait(s *side) error { return c.waitBy(s, c.task) }

func (c *Conn) waitBy(s *side, t *Task) error {
	if t.OnLoop() {
		return c.waitAs(s, &t.waiter)
	}
	w := parkers.Get().(*waiter)
	defer parkers.Put(w)
	return c.waitAs(s, w)
}

func (c *Conn) waitAs(s *side, w *waiter) error {
	for s.state.Load() != isReady {
		if err := c.over(s); err != nil {
			return err
		}
		if !s.state.CompareAndSwap(nil, w) {
			continue // it is ready now
		}
		// Close looks for a waiter after it has set its flag, so one of the two sees
		// the other. Who has taken the waiter wakes it.
		if c.over(s) != nil && s.state.CompareAndSwap(w, nil) {
			continue
		}
		w.park()
	}
	return c.over(s)
}

// over returns why a side must not be waited for any longer.
func (c *Conn) over(s *side) error {
	switch {
	case c.uses.Load() < 0:
		return net.ErrClosed
	case s.expired.Load():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// ReadOver returns why the connection cannot be read from any more: it was closed, or the
// deadline has passed.
func (c *Conn) ReadOver() error { return c.over(&c.read) }
