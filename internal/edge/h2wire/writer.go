package h2wire

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// outSize is how many bytes may wait to be written before DATA waits for
	// them.
	outSize = 2 * MaxFrame
	// tlsWriteSize is how much one write of TLS is given. The peer has the write
	// timeout to take it.
	tlsWriteSize = 16 << 10
	// writeRounds is how often a writer takes along what others have added
	// before it leaves the rest to a goroutine of its own.
	writeRounds = 4
)

// Owner is the connection that a Writer belongs to. Its methods are called with its
// lock held.
type Owner interface {
	// Taken is called when what waited is about to be written, so that there is room
	// again. by is the task that the caller is, or nil.
	Taken(by *eventloop.Task)
	// WriteFailed is called after a write that failed. It is not known how much of a
	// frame was sent, so the connection is of no use any more.
	WriteFailed(error)
}

// Config is what a Writer works with.
type Config struct {
	Owner Owner
	Mu    *sync.Mutex // of the owner
	Conn  net.Conn
	Pool  *h1.BufferPool
	// Timeout bounds each write; 0 does not.
	Timeout time.Duration
}

// Writer has the frames that wait to be written, and writes them. One user of the
// connection at a time writes; the others only add frames. The owner's lock guards
// it, except where a field has another note.
type Writer struct {
	owner    Owner
	mu       *sync.Mutex
	conn     net.Conn
	socket   *eventloop.Conn // that of an event loop, whose writes do not wait; nil for none
	pool     *h1.BufferPool
	timeout  time.Duration
	maxWrite int // how many bytes one write is given

	out     []byte    // whole frames that wait; from the pool
	writing bool      // one user writes, and takes along what is added to out
	idle    sync.Cond // signalled when writing ends
	err     error     // why nothing can be written any more

	// last is set if the connection is about to be closed: it is the deadline of its last
	// frames, and no write extends it. It needs no lock.
	last atomic.Pointer[time.Time]
	// deadline is the write deadline that is set. It belongs to the one who writes.
	deadline time.Time
}

// Init makes a Writer ready. Where an event loop has the socket, writes are queued from then on.
func (w *Writer) Init(cfg Config) {
	*w = Writer{owner: cfg.Owner, mu: cfg.Mu, conn: cfg.Conn, pool: cfg.Pool, timeout: cfg.Timeout, maxWrite: 1 << 30}
	w.idle.L = cfg.Mu
	if _, secure := cfg.Conn.(interface{ ConnectionState() tls.ConnectionState }); secure {
		w.maxWrite = tlsWriteSize
	}
	if w.socket = eventloop.Of(cfg.Conn); w.socket != nil {
		w.socket.QueueWrites()
	}
}

// Looped reports whether an event loop has the socket.
func (w *Writer) Looped() bool { return w.socket != nil }

// Pending is how many bytes wait to be written.
func (w *Writer) Pending() int { return len(w.out) }

// Writing reports whether what waits is written without Flush.
func (w *Writer) Writing() bool { return w.writing }

// Err is why nothing can be written any more.
func (w *Writer) Err() error { return w.err }

// HasRoom reports whether DATA of a size need not wait for earlier frames.
func (w *Writer) HasRoom(size int) bool {
	return len(w.out) == 0 || len(w.out)+FrameHeaderSize+size <= outSize
}

// Fail ends all writing.
func (w *Writer) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Close is Fail once nothing is written any more. It gives the memory back.
func (w *Writer) Close(err error) {
	w.err = err
	w.pool.Put(w.out)
	w.out = nil
}

// Hurry gives the peer so much time for all that is still to be written.
func (w *Writer) Hurry(timeout time.Duration) {
	until := time.Now().Add(timeout)
	w.last.Store(&until)
	_ = w.conn.SetWriteDeadline(until) // a connection that is gone shows with the write
}

// Await waits until no user writes. The caller must not be on an event loop.
func (w *Writer) Await() {
	for w.writing {
		w.idle.Wait()
	}
}

// Idle reports whether an event loop has the socket and no user writes to it.
func (w *Writer) Idle() bool { return w.socket != nil && !w.writing && !w.queued() }

// Detach takes the socket out of its event loop, while no user writes. leave makes the caller a
// goroutine, without the lock, and goOn then reports, with it, whether that still makes sense.
func (w *Writer) Detach(leave func(), goOn func() bool) (err error) {
	w.writing = true // no other user writes meanwhile
	w.mu.Unlock()
	leave()
	w.mu.Lock()
	if goOn() {
		if err = eventloop.Detach(w.conn); err == nil {
			w.socket = nil
		}
	}
	w.endWriting()
	return err
}

func (w *Writer) endWriting() {
	w.writing = false
	w.idle.Broadcast()
}

// Flush writes what waits, unless another user does: that one takes it along. It
// releases the lock while it writes. by is the task that the caller is, if any. busy is
// set if others are about to have something to write: they get to add it, because a write
// costs more than all that it takes to make a message.
func (w *Writer) Flush(by *eventloop.Task, busy bool) error {
	if w.writing || w.err != nil || len(w.out) == 0 {
		return w.err
	}
	w.writing = true
	if busy {
		w.mu.Unlock()
		if by == nil {
			runtime.Gosched()
		} else {
			by.Yield()
		}
		w.mu.Lock()
	}
	return w.writeOut(writeRounds, by)
}

// FlushAsync writes what waits in another goroutine, or in another task if the caller is
// one.
func (w *Writer) FlushAsync(by *eventloop.Task) {
	if w.writing || w.err != nil || len(w.out) == 0 && !w.queued() {
		return
	}
	w.writing = true
	w.startFlush(by)
}

// startFlush starts flushAll.
func (w *Writer) startFlush(by *eventloop.Task) {
	if by.OnLoop() {
		by.Start(w.flushAll)
	} else {
		go w.flushAll(nil)
	}
}

// flushAll writes until nothing waits. The caller has set writing.
func (w *Writer) flushAll(by *eventloop.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.writeOut(1<<30, by) // an error closes the connection
}

// queued reports whether package tls has written something that the socket did not take: a
// response to a peer that changed its key.
func (w *Writer) queued() bool { return w.socket != nil && w.socket.Queued() }

// writeOut writes for a number of rounds, each of which takes all that waits,
// and leaves the rest to another goroutine. It is called with writing set, and
// releases the lock while it writes.
func (w *Writer) writeOut(rounds int, by *eventloop.Task) (err error) {
	for (len(w.out) > 0 || w.queued()) && w.err == nil {
		if rounds == 0 {
			w.startFlush(by)
			return nil
		}
		rounds--
		buf := w.out
		w.out = nil
		w.owner.Taken(by)
		w.mu.Unlock()
		err = w.writeAll(buf, by)
		if err == nil && len(buf) == 0 {
			err = w.drain(by)
		}
		w.pool.Put(buf)
		w.mu.Lock()
		if err != nil {
			w.Fail(err)
			w.owner.WriteFailed(err)
		}
	}
	w.endWriting()
	return err
}

// writeAll writes to the connection, without the lock. The peer has the write
// timeout for each write, and where a write reports how far it got, for each
// byte.
func (w *Writer) writeAll(buf []byte, by *eventloop.Task) error {
	for len(buf) > 0 {
		if err := w.setDeadline(); err != nil {
			return err
		}
		n, err := w.conn.Write(buf[:min(len(buf), w.maxWrite)])
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || w.last.Load() != nil) {
			return err
		}
		buf = buf[n:]
		if err := w.drain(by); err != nil {
			return err
		}
	}
	return nil
}

// drain waits for what a write left in the queue of the socket, with the same timeouts.
func (w *Writer) drain(by *eventloop.Task) error {
	for w.socket != nil {
		n, err := w.socket.Drain(by)
		if err == nil {
			return nil
		}
		if n == 0 || w.maxWrite == tlsWriteSize || !errors.Is(err, os.ErrDeadlineExceeded) || w.last.Load() != nil {
			return err
		}
		if err := w.setDeadline(); err != nil {
			return err
		}
	}
	return nil
}

// setDeadline sets the write deadline, unless the one that is set is about
// right: setting one costs as much as decoding the headers of a request.
func (w *Writer) setDeadline() error {
	if w.timeout == 0 || w.last.Load() != nil {
		return nil
	}
	slack := min(w.timeout/8, time.Second)
	if left := time.Until(w.deadline); left >= w.timeout && left <= w.timeout+slack {
		return nil
	}
	w.deadline = time.Now().Add(w.timeout + slack)
	if err := w.conn.SetWriteDeadline(w.deadline); err != nil {
		return err
	}
	if until := w.last.Load(); until != nil {
		// Hurry ran meanwhile, and its deadline was just overwritten.
		return w.conn.SetWriteDeadline(*until)
	}
	return nil
}
