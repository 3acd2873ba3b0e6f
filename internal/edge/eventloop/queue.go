//go:build linux

package eventloop

import (
	"errors"
	"sync"
)

// A connection of HTTP/2 is read and written by different tasks, and package tls has a lock for all
// that it writes: what a client demands with a key update is written by the reader. A task
// that waited for room in the socket with that lock would have the reader wait for it, and so
// the loop, which then finds out about no room. So nothing waits within a write: what
// the socket does not take is queued, and its writer waits outside.

// maxQueued bounds what is queued beyond the last write of the one who drains.
const maxQueued = 64 << 10

// errQueued is returned when a client provokes responses and reads none of them.
var errQueued = errors.New("the peer reads nothing of what it has to be sent")

// writeQueue has what was written and the socket did not take.
type writeQueue struct {
	mu    sync.Mutex // guards the rest, and is held while the socket is written to
	bytes []byte     // in order
	from  int        // what was written of them
}

// QueueWrites makes Write return at once, with everything taken: Drain waits for the socket. It
// is called before the connection has more than one user.
func (c *Conn) QueueWrites() { c.queue.Store(new(writeQueue)) }

// write writes what the socket takes and queues the rest.
func (q *writeQueue) write(c *Conn, p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	if q.empty() {
		var err error
		if n, err = c.writeSome(p); err != nil {
			return n, err
		}
	}
	if len(q.bytes)-q.from > maxQueued {
		return n, errQueued
	}
	q.bytes = append(q.bytes, p[n:]...)
	return len(p), nil
}

func (q *writeQueue) empty() bool { return q.from == len(q.bytes) }

// flush writes what the socket takes, and reports whether that was all.
func (q *writeQueue) flush(c *Conn) (n int, all bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.empty() {
		n, err = c.writeSome(q.bytes[q.from:])
		q.from += n
	}
	if q.empty() {
		q.bytes, q.from = nil, 0 // few clients are slow
	}
	return n, q.empty(), err
}

// Queued reports whether something waits to be written.
func (c *Conn) Queued() bool {
	q := c.queue.Load()
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.empty()
}

// Drain waits until everything that was queued has been written, within the write deadline, and
// returns how much that was. One at a time may wait: the caller is the task by, or a
// goroutine if that is nil or away.
func (c *Conn) Drain(by *Task) (written int, err error) {
	q := c.queue.Load()
	if q == nil {
		return 0, nil
	}
	for {
		n, all, err := q.flush(c)
		if written += n; all || err != nil {
			return written, err
		}
		// As in Write: the event for room may have come before the state is cleared.
		c.write.state.Store(nil)
		n, all, err = q.flush(c)
		if written += n; all || err != nil {
			c.write.set()
			return written, err
		}
		if n > 0 {
			c.write.set()
			continue
		}
		if err := c.waitBy(&c.write, by); err != nil {
			return written, err
		}
	}
}
