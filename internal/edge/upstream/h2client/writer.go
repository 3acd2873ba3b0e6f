package h2client

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// maxQueue bounds the control frames that wait to be written. They are replies
// to frames of the endpoint and window updates; an endpoint that reads never
// makes so many add up.
const maxQueue = 1000

// frame is a control frame. The goroutines that send it must not wait for the
// endpoint, so it is queued: writeLoop writes it, or the next request that is
// sent.
type frame struct {
	kind   frameKind
	stream uint32
	value  uint32 // the increment of a window, or the code of a reset
	data   [8]byte
}

// controlQueue has the control frames that wait. The connection's mu guards
// frames.
type controlQueue struct {
	frames []frame
	wake   chan struct{} // has a value when frames wait
	// overflowed is set if there were more than maxQueue, which closes the
	// connection.
	overflowed atomic.Bool
}

func (q *controlQueue) add(f frame) {
	if len(q.frames) >= maxQueue {
		q.overflowed.Store(true)
		return
	}
	q.frames = append(q.frames, f)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// headerWriter is what frames are written with. Its mu comes before Conn.mu,
// and also guards the writing side of the framer.
type headerWriter struct {
	mu      sync.Mutex
	out     *bufio.Writer
	encoder *hpack.Encoder
	block   bytes.Buffer // the encoded fields of the head or trailers being sent
}

type frameKind uint8

const (
	frameWindowUpdate frameKind = iota
	frameReset
	framePing
	framePingAck
	frameSettingsAck
	frameGoAway
)

// enqueue queues a control frame. It is called with mu held.
func (c *Conn) enqueue(f frame) {
	if !c.over {
		c.control.add(f)
	}
}

// writeLoop writes queued frames, and closes the connection in the end.
func (c *Conn) writeLoop() {
	for {
		select {
		case <-c.control.wake:
			// An error closes the connection, and so ends this loop.
			_ = c.flush()
		case <-c.stop:
			c.sendGoAway()
			return
		}
	}
}

// sendGoAway closes a connection that is closed without an error, after its
// GOAWAY. Any other connection is closed already.
func (c *Conn) sendGoAway() {
	c.mu.Lock()
	regular := c.cause == errClosed
	c.mu.Unlock()
	if !regular {
		return
	}
	c.writer.mu.Lock()
	if c.net.SetWriteDeadline(time.Now().Add(goAwayTimeout)) == nil && c.writeQueued() == nil {
		_ = c.writer.out.Flush()
	}
	c.writer.mu.Unlock()
	_ = c.net.Close()
}

// flush writes queued and buffered frames to the connection.
func (c *Conn) flush() error {
	c.writer.mu.Lock()
	defer c.writer.mu.Unlock()
	err := c.prepare()
	if err == nil {
		err = c.writer.out.Flush()
	}
	return c.checkWrite(err)
}

// checkWrite closes the connection after a write that failed: it is not known
// how much of the frame was sent.
func (c *Conn) checkWrite(err error) error {
	if err != nil {
		c.closeWith(err)
	}
	return err
}

// prepare sets the write deadline and writes queued frames. It is called with
// the writer's mu held, as writeQueued is.
func (c *Conn) prepare() error {
	if err := c.net.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)); err != nil {
		return err
	}
	return c.writeQueued()
}

func (c *Conn) writeQueued() error {
	c.mu.Lock()
	queue := c.control.frames
	c.control.frames = nil
	c.mu.Unlock()
	for _, f := range queue {
		if err := c.write(f); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) write(f frame) error {
	switch f.kind {
	case frameWindowUpdate:
		return c.framer.WriteWindowUpdate(f.stream, f.value)
	case frameReset:
		return c.framer.WriteRSTStream(f.stream, http2.ErrCode(f.value))
	case framePing:
		return c.framer.WritePing(false, f.data)
	case framePingAck:
		return c.framer.WritePing(true, f.data)
	case frameSettingsAck:
		return c.framer.WriteSettingsAck()
	}
	return c.framer.WriteGoAway(0, http2.ErrCode(f.value), nil)
}

// sendHead opens the stream at the endpoint. Streams have to be opened in the
// order of their identifiers, so the identifier is given while the writer's mu
// is held. Queued frames are written before that: afterwards, one that resets
// this very stream could be among them.
func (c *Conn) sendHead(s *Stream, head *h1.Head, end bool) error {
	c.writer.mu.Lock()
	defer c.writer.mu.Unlock()
	// An error closes the connection, and register fails then.
	_ = c.checkWrite(c.prepare())
	tableSizes, err := c.register(s, end)
	if err != nil {
		return err
	}
	c.writer.block.Reset()
	for _, size := range tableSizes {
		c.writer.encoder.SetMaxDynamicTableSize(size)
	}
	c.encodeRequest(head)
	return c.checkWrite(c.writeBlock(s.id, end))
}

// register gives a stream its identifier. It returns the changes of the HPACK
// table size that the encoder has to apply before the head.
func (c *Conn) register(s *Stream, end bool) (tableSizes []uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.sendErr != nil:
		return nil, s.sendErr
	case c.over || c.goneAway:
		// That this side drains does not count: the stream was opened before.
		s.stopSending(ErrRefused)
		c.remove(s)
		return nil, ErrRefused
	}
	s.id, s.send, s.sentAt = c.streams.next, c.send.Stream(), c.keepalive.now()
	s.ended = end
	c.streams.next += 2
	c.streams.open[s.id] = s
	tableSizes, c.settings.tableSizes = c.settings.tableSizes, nil
	return tableSizes, nil
}

// encodeRequest encodes the head with HPACK.
func (c *Conn) encodeRequest(head *h1.Head) {
	scheme := "http"
	if c.cfg.Secure {
		scheme = "https"
	}
	host, _ := head.Get(normalize.FieldHost)
	c.encode(":method", string(head.Method()), false)
	c.encode(":scheme", scheme, false)
	c.encode(":authority", string(host), false)
	c.encode(":path", string(head.Target()), false)
	for i := range head.Len() {
		switch id := head.ID(i); {
		case id == normalize.FieldHost, id == normalize.FieldContentLength, id == normalize.FieldTransferEncoding,
			id == normalize.FieldExpect, id.ConnectionOnly():
		default:
			c.encodeField(&head.Fields, i)
		}
	}
	if head.Framing == h1.Fixed {
		c.encode("content-length", strconv.FormatInt(head.Length, 10), false)
	}
	if head.AcceptsTrailers {
		c.encode("te", "trailers", false)
	}
}

func (c *Conn) encodeField(fields *h1.Fields, i int) {
	id := fields.ID(i)
	name := id.String()
	if name == "" {
		name = strings.ToLower(string(fields.Name(i)))
	}
	// Credentials of one client must not share the dynamic table with the
	// requests of another, or the compressed length would reveal them (RFC 7541
	// section 7.1).
	secret := id == normalize.FieldAuthorization || id == normalize.FieldCookie
	c.encode(name, string(fields.Value(i)), secret)
}

// encode cannot fail: it writes to memory.
func (c *Conn) encode(name, value string, secret bool) {
	_ = c.writer.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret})
}

// writeBlock writes the encoded fields: HEADERS and as many CONTINUATION frames
// as they need.
func (c *Conn) writeBlock(id uint32, end bool) error {
	block := c.writer.block.Bytes()
	part := block[:min(len(block), frameSize)]
	block = block[len(part):]
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: part, EndStream: end, EndHeaders: len(block) == 0,
	})
	for err == nil && len(block) > 0 {
		part = block[:min(len(block), frameSize)]
		block = block[len(part):]
		err = c.framer.WriteContinuation(id, len(block) == 0, part)
	}
	return err
}

// sendData sends a piece of the body, as far as the windows allow.
func (c *Conn) sendData(s *Stream, data []byte, end bool) error {
	for {
		n, err := s.takeWindow(len(data))
		if err != nil {
			return err
		}
		last := n == len(data)
		if err := c.writeData(s, data[:n], end && last); err != nil || last {
			return err
		}
		data = data[n:]
	}
}

func (c *Conn) writeData(s *Stream, data []byte, end bool) error {
	c.writer.mu.Lock()
	defer c.writer.mu.Unlock()
	if err := c.prepare(); err != nil {
		return c.checkWrite(err)
	}
	if err := c.checkOpen(s, end, len(data)); err != nil {
		return err
	}
	return c.checkWrite(c.framer.WriteData(s.id, end, data))
}

// sendTrailers ends the stream with trailers.
func (c *Conn) sendTrailers(s *Stream, trailers *h1.Fields) error {
	c.writer.mu.Lock()
	defer c.writer.mu.Unlock()
	if err := c.prepare(); err != nil {
		return c.checkWrite(err)
	}
	if err := c.checkOpen(s, true, 0); err != nil {
		return err
	}
	c.writer.block.Reset()
	for i := range trailers.Len() {
		c.encodeField(trailers, i)
	}
	return c.checkWrite(c.writeBlock(s.id, true))
}

// checkOpen checks again, right before a frame is written, that the stream may
// send: no frame of a stream may follow the one that resets it. What was taken
// from the window of the connection is returned if it may not.
func (c *Conn) checkOpen(s *Stream, end bool, taken int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.sendErr != nil {
		c.send.Take(-taken)
		return s.sendErr
	}
	if end {
		s.ended = true
		if s.peerEnded {
			c.remove(s)
		}
	}
	return nil
}
