package h1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Reader reads messages from one connection. It holds a small buffer while it
// waits for a head, and a large one only while a body or a large head comes.
// All but Interrupt is for one goroutine at a time.
//
// A head that was read stays in place while its body is read, until the next
// head is read, Release or Close.
type Reader struct {
	conn net.Conn
	pool *BufferPool
	buf  []byte
	r, w int // buf[r:w] has not been used yet

	waiting      atomic.Bool // for the first byte of a head
	interrupted  atomic.Bool
	pinned       bool // the last head is in buf, before r
	inherited    bool // armed is that of InheritDeadline, and no head was read
	heads        int
	armed        time.Time     // the read deadline that the connection has
	pollInterval time.Duration // see Await
	lastWait     time.Duration // how long the last wait for a head could be

	combined writeAndWait
	times    Timeouts
	head     []byte // the buffer of the last head, while buf is another
}

// Init makes a Reader ready to read from conn, with buffers from pool.
func (r *Reader) Init(conn net.Conn, pool *BufferPool, times Timeouts) {
	r.conn, r.pool, r.times = conn, pool, times
}

// SetTimeouts changes how long the waits that come are bounded.
func (r *Reader) SetTimeouts(times Timeouts) { r.times = times }

// InheritDeadline takes over the read deadline that the connection has. It is that of
// the first head, and so is not set once more.
func (r *Reader) InheritDeadline(until time.Time) {
	r.armed, r.inherited = until, !until.IsZero()
}

// Preload gives the Reader bytes that were received already, before its first read. They
// are in a buffer of its pool, which becomes the Reader's.
func (r *Reader) Preload(received []byte) {
	r.buf, r.w = received[:cap(received)], len(received)
}

// SetPollInterval divides the waits for the heads of responses into pieces of about the given
// time: a wait ends with ErrIdle after one, and ReadResponse can be called again
// to go on. The first may be much shorter, because moving the deadline of a
// connection is expensive when many are used in turn. 0 makes it one piece.
func (r *Reader) SetPollInterval(piece time.Duration) { r.pollInterval = piece }

// LastWait is how long the wait was that ended with ErrIdle.
func (r *Reader) LastWait() time.Duration { return r.lastWait }

// ReadRequest reads the head of the next request. It returns io.EOF when the
// client has closed the connection between requests, ErrIdle when it sent
// nothing in time, and an [httperr.Error] for what is not a request.
func (r *Reader) ReadRequest(h *Head, limits *Limits) error {
	h.Reset()
	wait := r.times.Idle
	if r.heads == 0 {
		wait = r.times.Head
	}
	return r.readHead(h, limits, wait)
}

// ReadNextRequest is ReadRequest after another request, with a wait of its own for
// the first byte. It can be called again after ErrIdle.
func (r *Reader) ReadNextRequest(h *Head, limits *Limits, wait time.Duration) error {
	h.Reset()
	r.heads = max(r.heads, 1)
	return r.readHead(h, limits, wait)
}

// Quiet reports whether there is nothing to read for a connection whose Read does
// not wait, but fails as after a deadline. Heads that were read are no longer valid.
func (r *Reader) Quiet() bool {
	r.unpin()
	if r.w > 0 {
		return false
	}
	r.makeRoom(smallBuffer)
	return errors.Is(r.readOnce(), os.ErrDeadlineExceeded)
}

// ReadResponse reads the head of the next response, interim ones included: see
// MaxInterim.
func (r *Reader) ReadResponse(h *ResponseHead, request RequestInfo, limits *Limits) error {
	h.Reset(request)
	wait := r.times.Idle
	if r.pollInterval > 0 {
		wait = r.pollInterval
	}
	return r.readHead(h, limits, wait)
}

// Unread returns what was received and not used yet. After the body of the
// only message, anything here is unexpected.
func (r *Reader) Unread() []byte { return r.buf[r.r:r.w] }

// Discard uses up bytes that Unread returned.
func (r *Reader) Discard(n int) { r.r += n }

// Interrupt makes a wait for the first byte of a request end with
// ErrInterrupted, now or when it is next begun. A message that has begun to
// come is not disturbed. It may be called from any goroutine.
func (r *Reader) Interrupt() {
	r.interrupted.Store(true)
	if r.waiting.Load() {
		// Best effort: the connection may be gone already.
		_ = r.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// Release gives all buffers back, as far as they hold nothing unread. Heads
// that were read are no longer valid. Use it on connections that are kept for
// later.
func (r *Reader) Release() {
	r.unpin()
	if r.r == r.w {
		r.pool.Put(r.buf)
		r.buf, r.r, r.w = nil, 0, 0
	}
}

// Close gives all buffers back and forgets what was unread. It does not close
// the connection.
func (r *Reader) Close() {
	r.r, r.w = 0, 0
	r.Release()
}

// headParser is a Head or a ResponseHead.
type headParser interface {
	Parse(buf []byte, limits *Limits) (int, error)
}

// readHead parses what has been read and reads more until the head is complete. The
// deadline of the first head is set before its first byte, so that dripping bytes
// cannot extend it.
func (r *Reader) readHead(parser headParser, limits *Limits, wait time.Duration) error {
	r.unpin()
	until := time.Time{} // the head has to be complete by then
	for {
		if r.w > 0 {
			n, err := parser.Parse(r.buf[:r.w], limits)
			if err != nil {
				return err
			}
			if n > 0 {
				r.r, r.pinned, r.inherited = n, true, false
				r.heads++
				return nil
			}
		}
		r.makeRoom(limits.HeadBytes)
		var err error
		switch {
		case r.w == 0:
			err = r.waitForHead(wait)
		case until.IsZero() && r.heads == 0 && r.pollInterval <= 0 && !r.armed.IsZero():
			// The first head has had its deadline since before its first byte.
			until = r.armed
			err = r.read(until)
		default:
			if until.IsZero() && r.times.Head > 0 {
				until = time.Now().Add(r.times.Head)
			}
			err = r.read(until)
		}
		if err != nil {
			return err
		}
	}
}

// waitForHead waits for the first bytes of a head.
func (r *Reader) waitForHead(wait time.Duration) error {
	until := r.armed
	if !r.inherited {
		until = r.headDeadline(wait)
	}
	r.waiting.Store(true)
	err := r.arm(until)
	if err == nil && r.interrupted.Load() {
		err = ErrInterrupted
	}
	if err == nil {
		err = r.writeThenRead()
	}
	r.waiting.Store(false)
	switch {
	case err == nil || err == ErrInterrupted || err == io.EOF:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded) && r.interrupted.Load():
		return ErrInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrIdle
	}
	return fmt.Errorf("read a head: %w", err)
}

// read reads more of a message that has begun.
func (r *Reader) read(until time.Time) error { return r.readWith(until, nil) }

// readWith is read, to a pipe unless that is nil.
func (r *Reader) readWith(until time.Time, to *splice) error {
	for {
		err := r.arm(until)
		if err != nil {
			return err
		}
		if to == nil {
			err = r.readOnce()
		} else {
			err = to.fill()
		}
		switch {
		case err == nil:
			return nil
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("read a message: %w", err)
		}
		// An Interrupt that raced with the first byte has overwritten the deadline.
		if !r.interrupted.Load() || !until.IsZero() && !time.Now().Before(until) {
			return fmt.Errorf("the rest of a message did not come in time: %w", err)
		}
		r.armed = time.Unix(1, 0)
	}
}

// fill reads more of a body, of which so many bytes are expected.
func (r *Reader) fill(expected int64) error {
	if r.pinned && r.head == nil {
		r.detach(expected)
	}
	switch {
	case r.buf == nil:
		r.buf = r.pool.getBody(expected)
	case r.r == r.w:
		r.r, r.w = 0, 0
		if len(r.buf) < bodyBuffer && expected > int64(len(r.buf)) {
			r.pool.Put(r.buf)
			r.buf = r.pool.getBody(expected)
		}
	case r.w == len(r.buf) && r.r == 0:
		// Only a trailer can need that much at once.
		return ErrTrailerTooLarge
	case r.w == len(r.buf):
		r.w, r.r = copy(r.buf, r.buf[r.r:r.w]), 0
	}
	return r.read(r.lazyDeadline(r.times.Body))
}

// readOnce reads what there is. Some connections return nothing and no error,
// but not for ever.
func (r *Reader) readOnce() error {
	for range 64 {
		n, err := r.conn.Read(r.buf[r.w:])
		if n > 0 {
			// An error along with bytes comes again with the next read.
			r.w += n
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// headDeadline is the deadline of a wait for a head. A piece of a wait keeps an
// earlier deadline that is set already: the caller continues the wait anyway.
func (r *Reader) headDeadline(wait time.Duration) time.Time {
	if r.pollInterval <= 0 {
		return r.lazyDeadline(wait)
	}
	most := wait + wait/8
	if r.lastWait = time.Until(r.armed); r.lastWait < wait/8 || r.lastWait > most {
		r.lastWait = most
		return time.Now().Add(most)
	}
	return r.armed
}

// lazyDeadline returns a deadline wait from now, or up to an eighth later if
// that is the one already set: setting one costs as much as parsing a head.
func (r *Reader) lazyDeadline(wait time.Duration) time.Time {
	return lazyDeadline(r.armed, wait)
}

func lazyDeadline(armed time.Time, wait time.Duration) time.Time {
	if wait <= 0 {
		return time.Time{}
	}
	slack := min(wait/8, time.Second)
	// Until reads one clock, Now two, and this is done four times a request.
	if ahead := time.Until(armed); ahead >= wait && ahead <= wait+slack {
		return armed
	}
	return time.Now().Add(wait + slack)
}

// arm sets the read deadline, unless it is set already: that is a system call less
// for most requests.
func (r *Reader) arm(until time.Time) error {
	if until.Equal(r.armed) {
		return nil
	}
	r.armed = until
	return r.conn.SetReadDeadline(until)
}

// makeRoom grows the buffer, so that more of a head can be read.
func (r *Reader) makeRoom(most int) {
	if r.w < len(r.buf) {
		return
	}
	size := smallBuffer
	if len(r.buf) >= largeBuffer {
		size = max(2*len(r.buf), most)
	} else if len(r.buf) > 0 {
		size = largeBuffer
	}
	grown := r.pool.Get(size)
	copy(grown, r.buf[:r.w])
	r.pool.Put(r.buf)
	r.buf = grown
}

// detach moves the unread bytes to a buffer of their own, so that the head stays in
// place while the body is read.
func (r *Reader) detach(expected int64) {
	r.head = r.buf
	r.buf = r.pool.getBody(expected)
	r.w, r.r = copy(r.buf, r.head[r.r:r.w]), 0
}

// unpin releases the last head and moves the unread bytes to the front of the
// smallest buffer that they fit.
func (r *Reader) unpin() {
	r.pinned = false
	unread := r.buf[r.r:r.w]
	switch {
	case r.head != nil && len(unread) < len(r.head) && len(r.head) == smallBuffer:
		copy(r.head, unread)
		r.pool.Put(r.buf)
		r.buf, r.head = r.head, nil
	case len(r.buf) > smallBuffer && len(unread) < smallBuffer:
		small := r.pool.Get(smallBuffer)
		copy(small, unread)
		r.pool.Put(r.buf)
		r.buf = small
	case r.r > 0:
		copy(r.buf, unread)
	}
	if r.head != nil {
		r.pool.Put(r.head)
		r.head = nil
	}
	r.r, r.w = 0, len(unread)
}
