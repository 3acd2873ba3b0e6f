package h2

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// outSize is how many bytes may wait to be written before DATA waits for
	// them.
	outSize = 2 * maxFrame
	// maxUnwritten bounds what waits altogether. Replies to frames do not wait
	// for room, and a client that provokes so many without reading them is
	// disconnected.
	maxUnwritten = 256 << 10
	// tlsWriteSize is how much one write of TLS is given. The client has the
	// write timeout to take it.
	tlsWriteSize = 16 << 10
	// writeRounds is how often a writer takes along what others have added
	// before it leaves the rest to a goroutine of its own.
	writeRounds = 4
	// dataSize is the most data of a frame: it fits a TLS record with its
	// header.
	dataSize = maxFrame - frameHeaderSize
)

// frameWriter has the frames that wait to be written, and writes them. One
// goroutine at a time writes; the others only add frames. The session's mu
// guards it, except where a field has another note.
type frameWriter struct {
	conn     net.Conn
	socket   *eventloop.Conn // that of an event loop, whose writes do not wait; nil for none
	pool     *h1.BufferPool
	timeout  time.Duration // for each write
	maxWrite int           // how many bytes one write is given

	out     []byte    // whole frames that wait; from the pool
	writing bool      // a goroutine writes, and takes along what is added to out
	idle    sync.Cond // signalled when writing ends
	waiting int       // streams that wait for room in out
	err     error     // why nothing can be written any more

	// closing is set if the connection is ended for an error of its client: the
	// deadline is that of the GOAWAY, and no write extends it.
	closing atomic.Bool
	// deadline is the write deadline that is set. It belongs to the goroutine
	// that writes.
	deadline time.Time
}

func (w *frameWriter) init(cfg *Config, conn net.Conn, mu *sync.Mutex) {
	w.conn, w.pool, w.timeout = conn, cfg.Handler.Pool, cfg.WriteTimeout
	w.idle.L = mu
	w.maxWrite = 1 << 30
	if _, secure := conn.(interface{ ConnectionState() tls.ConnectionState }); secure {
		w.maxWrite = tlsWriteSize
	}
}

// close lets go of the buffer. Writes fail afterwards.
func (w *frameWriter) close() {
	w.err = errEnded
	w.pool.Put(w.out)
	w.out = nil
}

// reserve makes room for a frame. The buffer grows by what the pool has.
func (w *frameWriter) reserve(size int) {
	need := len(w.out) + size
	if need <= cap(w.out) {
		return
	}
	grown := w.pool.Get(max(need, 2*cap(w.out)))[:len(w.out)]
	copy(grown, w.out)
	w.pool.Put(w.out)
	w.out = grown
}

// hasRoom reports whether DATA of a size need not wait for earlier frames.
func (w *frameWriter) hasRoom(size int) bool {
	return len(w.out) == 0 || len(w.out)+frameHeaderSize+size <= outSize
}

func (w *frameWriter) addWindowUpdate(id uint32, increment int) {
	w.reserve(frameHeaderSize + 4)
	w.out = appendUint32(w.out, frameWindowUpdate, id, uint32(increment))
}

func (w *frameWriter) addGoAway(last uint32, code http2.ErrCode) {
	w.reserve(frameHeaderSize + 8)
	w.out = appendGoAway(w.out, last, code)
}

func (w *frameWriter) addPing(flags uint8, data [8]byte) {
	w.reserve(frameHeaderSize + len(data))
	w.out = appendPing(w.out, flags, data)
}

func (w *frameWriter) addSettingsAck() {
	w.reserve(frameHeaderSize)
	w.out = appendFrame(w.out, frameSettings, flagAck, 0, 0)
}

// writeAll writes to the connection, without the lock. The client has the write
// timeout for each write, and where a write reports how far it got, for each
// byte.
func (w *frameWriter) writeAll(buf []byte, by *eventloop.Task) error {
	for len(buf) > 0 {
		if err := w.setDeadline(); err != nil {
			return err
		}
		n, err := w.conn.Write(buf[:min(len(buf), w.maxWrite)])
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || w.closing.Load()) {
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
func (w *frameWriter) drain(by *eventloop.Task) error {
	for w.socket != nil {
		n, err := w.socket.Drain(by)
		if err == nil {
			return nil
		}
		if n == 0 || w.maxWrite == tlsWriteSize || !errors.Is(err, os.ErrDeadlineExceeded) || w.closing.Load() {
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
func (w *frameWriter) setDeadline() error {
	if w.timeout == 0 || w.closing.Load() {
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
	if w.closing.Load() {
		// goAway ran meanwhile, and its deadline was just overwritten.
		return w.conn.SetWriteDeadline(time.Now().Add(goAwayTimeout))
	}
	return nil
}

// flush writes what waits, unless another goroutine does: that one takes it
// along. It is called with mu held, and releases it while it writes. by is the task that
// the caller is, if any.
func (c *session) flush(by *eventloop.Task) error {
	w := &c.writer
	if w.writing || w.err != nil || len(w.out) == 0 {
		return w.err
	}
	w.writing = true
	if c.requests.active > 1 {
		// Requests that are about to have something to write get to add it: a
		// write costs more than all that it takes to make a response.
		c.mu.Unlock()
		if by == nil {
			runtime.Gosched()
		} else {
			by.Yield()
		}
		c.mu.Lock()
	}
	return c.writeOut(writeRounds, by)
}

// flushAsync writes what waits in another goroutine, or in another task if the caller is
// one. It is called with mu held.
func (c *session) flushAsync(by *eventloop.Task) {
	w := &c.writer
	if w.writing || w.err != nil || len(w.out) == 0 && !w.queued() {
		return
	}
	w.writing = true
	c.startFlush(by)
}

// startFlush starts flushAll.
func (c *session) startFlush(by *eventloop.Task) {
	if by.OnLoop() {
		by.Start(c.flushAll)
	} else {
		go c.flushAll(nil)
	}
}

// flushAll writes until nothing waits. The caller has set writing.
func (c *session) flushAll(by *eventloop.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.writeOut(1<<30, by) // an error closes the connection
}

// queued reports whether package tls has written something that the socket did not take: a
// response to a client that changed its key.
func (w *frameWriter) queued() bool { return w.socket != nil && w.socket.Queued() }

// writeOut writes for a number of rounds, each of which takes all that waits,
// and leaves the rest to another goroutine. It is called with mu held and with
// writing set, and releases mu while it writes.
func (c *session) writeOut(rounds int, by *eventloop.Task) (err error) {
	w := &c.writer
	for (len(w.out) > 0 || w.queued()) && w.err == nil {
		if rounds == 0 {
			c.startFlush(by)
			return nil
		}
		rounds--
		buf := w.out
		w.out = nil
		c.wakeWriters()
		c.mu.Unlock()
		err = w.writeAll(buf, by)
		if err == nil && len(buf) == 0 {
			err = w.drain(by)
		}
		c.pool.Put(buf)
		c.mu.Lock()
		if err != nil {
			c.abort(err)
		}
	}
	w.writing = false
	w.idle.Broadcast()
	return err
}

// wakeWriters wakes up the streams that wait for room in out.
func (c *session) wakeWriters() {
	if c.writer.waiting == 0 {
		return
	}
	for _, s := range c.streams.open {
		s.writable.wake()
	}
}

// sendHeaders sends the headers that were encoded.
func (c *session) sendHeaders(s *stream, end bool) {
	block := c.headers.buf.Bytes()
	c.writer.reserve(len(block) + frameHeaderSize*(1+len(block)/maxFrame))
	c.writer.out = appendHeaders(c.writer.out, s.id, block, end)
	c.headers.reset()
	f := frame{kind: frameHeaders, stream: s.id}
	if end {
		f.flags = flagEndStream
	}
	c.countSent(s, &f)
}

// sendData sends a DATA frame. The caller has found that the windows allow it.
func (c *session) sendData(s *stream, data []byte, end bool) {
	f := frame{kind: frameData, stream: s.id}
	if end {
		f.flags = flagEndStream
	}
	c.writer.reserve(frameHeaderSize + len(data))
	c.writer.out = append(appendFrame(c.writer.out, frameData, f.flags, s.id, len(data)), data...)
	s.send.Take(len(data))
	c.flow.send.Take(len(data))
	c.countSent(s, &f)
}

// countSent accounts for a frame of a stream, and ends the stream with its last
// one.
func (c *session) countSent(s *stream, f *frame) {
	c.accounting.exceed(c.accounting.countSent(f))
	if !f.has(flagEndStream) {
		return
	}
	s.ended = true
	if s.peerEnded {
		c.remove(s)
	}
}

// sendReset sends RST_STREAM, also for a stream that has ended already.
func (c *session) sendReset(id uint32, code http2.ErrCode) {
	c.writer.reserve(frameHeaderSize + 4)
	c.writer.out = appendUint32(c.writer.out, frameReset, id, uint32(code))
	c.streams.noteReset(id)
	c.accounting.exceed(c.accounting.countSent(&frame{kind: frameReset, stream: id, code: code}))
}
