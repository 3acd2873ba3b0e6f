package h2

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// outSize is how much may wait to be written before more data waits for it.
	outSize = 2 * maxFrame
	// outMost is how much may altogether: answers to frames do not wait, and who
	// sends so many without reading is cut off.
	outMost = 256 << 10
	// writePiece is how much one write is given. The client has the write timeout
	// to take it.
	writePiece = 16 << 10
	// writeTurns is how often who writes takes along what others have added before
	// it leaves the rest to them.
	writeTurns = 4
	// keptBlock bounds the memory for blocks between requests.
	keptBlock = 4 << 10
	// keptValue is the longest value that is kept to be said again.
	keptValue = 256
	// dataSize is the most data of a frame: it fits a record of TLS with its header.
	dataSize = maxFrame - frameHeaderSize
)

// sender is the part of a session that frames are written with. All of it is
// guarded by the session's mu, but for what a write itself needs.
type sender struct {
	out     []byte // whole frames that are to be written; from the pool
	writing bool   // somebody is writing, and will take along what is in out
	lost    error  // why nothing can be written any more
	window  int64  // what the client takes of all streams
	initial int64  // the window of a new stream
	waiting int    // streams that wait for room in out
	encoder *hpack.Encoder
	block   bytes.Buffer
	said    [16]saying

	armed time.Time // the write deadline; belongs to who writes
}

// saying is a header that was sent, to send it again without making it anew.
type saying struct{ name, value string }

func (w *sender) init() {
	w.window, w.initial = firstWindow, firstWindow
	w.encoder = hpack.NewEncoder(&w.block)
}

// reserve makes room for a frame. The buffer grows by what the pool has.
func (c *session) reserve(size int) {
	need := len(c.out) + size
	if need <= cap(c.out) {
		return
	}
	grown := c.pool.Get(max(need, 2*cap(c.out)))[:len(c.out)]
	copy(grown, c.out)
	c.pool.Put(c.out)
	c.out = grown
}

// flush writes what is to be written, unless somebody else does: that one takes
// it along. It is called with mu held, and gives it up while it writes.
func (c *session) flush() error {
	if c.writing || c.lost != nil {
		return c.lost
	}
	c.writing = true
	if c.active > 1 {
		// Others that are about to have something to write get to add it: a write
		// costs more than all that it takes to make an answer.
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	return c.writeOut(writeTurns)
}

// kick has what is to be written be written by another goroutine.
func (c *session) kick() {
	if c.writing || c.lost != nil || len(c.out) == 0 {
		return
	}
	c.writing = true
	go c.goOn()
}

// goOn writes until there is nothing more.
func (c *session) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.writeOut(1 << 30) // an error ends the connection
}

// writeOut writes for so many turns, and leaves the rest to a goroutine of its
// own.
func (c *session) writeOut(turns int) (err error) {
	for len(c.out) > 0 && c.lost == nil {
		if turns == 0 {
			go c.goOn()
			return nil
		}
		turns--
		buf := c.out
		c.out = nil
		c.makeRoom()
		c.mu.Unlock()
		err = c.writeAll(buf)
		c.pool.Put(buf)
		c.mu.Lock()
		if err != nil {
			c.lose(err)
		}
	}
	c.writing = false
	c.quiet.Broadcast()
	return err
}

// makeRoom wakes up the streams that wait for room in out.
func (c *session) makeRoom() {
	if c.waiting == 0 {
		return
	}
	for _, s := range c.streams {
		s.writable.wake()
	}
}

// writeAll writes to the connection. The client has a write timeout for each
// piece, and where the connection can say so, for each byte.
func (c *session) writeAll(buf []byte) error {
	for len(buf) > 0 {
		if err := c.armWrite(); err != nil {
			return err
		}
		n, err := c.conn.Write(buf[:min(len(buf), c.piece)])
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.hurried.Load()) {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// armWrite sets the write deadline, if the one that is set will not do:
// setting one costs as much as unpacking headers.
func (c *session) armWrite() error {
	wait := c.cfg.WriteTimeout
	if wait == 0 || c.hurried.Load() {
		return nil
	}
	slack := min(wait/8, time.Second)
	if left := time.Until(c.armed); left >= wait && left <= wait+slack {
		return nil
	}
	c.armed = time.Now().Add(wait + slack)
	if err := c.conn.SetWriteDeadline(c.armed); err != nil {
		return err
	}
	if c.hurried.Load() {
		// It ended meanwhile, and has its own deadline.
		return c.conn.SetWriteDeadline(time.Now().Add(partingTime))
	}
	return nil
}

// sendBlock sends the headers that were packed.
func (c *session) sendBlock(s *stream, end bool) {
	block := c.block.Bytes()
	c.reserve(len(block) + frameHeaderSize*(1+len(block)/maxFrame))
	c.out = appendBlock(c.out, s.id, block, end)
	if c.block.Reset(); c.block.Cap() > keptBlock {
		c.block = bytes.Buffer{}
	}
	f := frame{kind: frameHeaders, stream: s.id}
	if end {
		f.flags = flagEndStream
	}
	c.sent(s, &f)
}

func (c *session) sendData(s *stream, data []byte, end bool) {
	f := frame{kind: frameData, stream: s.id}
	if end {
		f.flags = flagEndStream
	}
	c.reserve(frameHeaderSize + len(data))
	c.out = append(appendFrame(c.out, frameData, f.flags, s.id, len(data)), data...)
	s.window -= int64(len(data))
	c.window -= int64(len(data))
	c.sent(s, &f)
}

// sent notes what was sent on a stream.
func (c *session) sent(s *stream, f *frame) {
	c.judge(c.ledger.fromServer(f))
	if !f.has(flagEndStream) {
		return
	}
	s.ended = true
	if s.peerEnded {
		c.drop(s)
	}
}

// sendReset resets a stream, which may be one that is gone.
func (c *session) sendReset(id uint32, code http2.ErrCode) {
	c.reserve(frameHeaderSize + 4)
	c.out = appendNumber(c.out, frameReset, id, uint32(code))
	c.recent[c.resets%len(c.recent)] = id
	c.resets++
	c.judge(c.ledger.fromServer(&frame{kind: frameReset, stream: id, code: code}))
}

func (c *session) sendWindow(id uint32, increment int) {
	c.reserve(frameHeaderSize + 4)
	c.out = appendNumber(c.out, frameWindowUpdate, id, uint32(increment))
}

func (c *session) sendGoAway(last uint32, code http2.ErrCode) {
	c.reserve(frameHeaderSize + 8)
	c.out = appendGoAway(c.out, last, code)
}
