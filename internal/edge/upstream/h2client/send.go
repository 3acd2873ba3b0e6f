package h2client

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// maxQueue bounds the frames that wait to be written. They are answers to what
// the endpoint sends, and window updates; one that reads never lets so many
// add up.
const maxQueue = 1000

// frame is one that need not wait for anybody: those who send it must not
// block, so writeLoop writes it, or whoever writes next.
type frame struct {
	kind   frameKind
	stream uint32
	value  uint32 // the increment of a window, or the code of a reset
	data   [8]byte
}

type frameKind uint8

const (
	frameWindow frameKind = iota
	frameReset
	framePing
	framePong
	frameSettingsAck
	frameGoAway
)

// enqueue is called with mu held.
func (c *Conn) enqueue(f frame) {
	if c.over {
		return
	}
	if len(c.queue) >= maxQueue {
		c.flooded.Store(true)
		return
	}
	c.queue = append(c.queue, f)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes what is queued, and closes the connection in the end.
func (c *Conn) writeLoop() {
	for {
		select {
		case <-c.wake:
			// An error ends the connection, and so this.
			_ = c.flush()
		case <-c.stop:
			c.farewell()
			return
		}
	}
}

// farewell closes a connection that was at rest, with a goodbye. Any other is
// closed already.
func (c *Conn) farewell() {
	c.mu.Lock()
	retired := c.cause == errRetired
	c.mu.Unlock()
	if !retired {
		return
	}
	c.writing.Lock()
	if c.net.SetWriteDeadline(time.Now().Add(farewellTime)) == nil && c.drain() == nil {
		_ = c.out.Flush()
	}
	c.writing.Unlock()
	_ = c.net.Close()
}

// flush writes out what is queued and buffered.
func (c *Conn) flush() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.prepare()
	if err == nil {
		err = c.out.Flush()
	}
	return c.lost(err)
}

// lost ends the connection after a write that failed: nobody knows how much of
// it went out.
func (c *Conn) lost(err error) error {
	if err != nil {
		c.shut(err)
	}
	return err
}

// prepare sets the deadline and writes what is queued. It is called with
// writing held, as drain is.
func (c *Conn) prepare() error {
	if err := c.net.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)); err != nil {
		return err
	}
	return c.drain()
}

func (c *Conn) drain() error {
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
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
	case frameWindow:
		return c.framer.WriteWindowUpdate(f.stream, f.value)
	case frameReset:
		return c.framer.WriteRSTStream(f.stream, http2.ErrCode(f.value))
	case framePing:
		return c.framer.WritePing(false, f.data)
	case framePong:
		return c.framer.WritePing(true, f.data)
	case frameSettingsAck:
		return c.framer.WriteSettingsAck()
	}
	return c.framer.WriteGoAway(0, http2.ErrCode(f.value), nil)
}

// sendHead opens the stream at the endpoint. The numbers of streams have to go
// out in order, so one is given while writing is held. What is queued goes out
// before that: after it, a frame that resets this very stream could be there.
func (c *Conn) sendHead(s *Stream, head *h1.Head, end bool) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	// An error ends the connection, so that there is no number.
	_ = c.lost(c.prepare())
	tables, err := c.number(s, end)
	if err != nil {
		return err
	}
	c.block.Reset()
	for _, size := range tables {
		c.encoder.SetMaxDynamicTableSize(size)
	}
	c.encodeRequest(head)
	return c.lost(c.writeBlock(s.id, end))
}

// number makes the stream one that the endpoint knows.
func (c *Conn) number(s *Stream, end bool) (tables []uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.barred != nil:
		return nil, s.barred
	case c.over || c.goneAway:
		// The edge's own wish to leave does not count: the stream was promised.
		s.forbid(ErrRefused)
		c.finish(s)
		return nil, ErrRefused
	}
	s.id, s.window, s.sentAt = c.next, c.initial, c.now()
	s.ended = end
	c.next += 2
	c.streams[s.id] = s
	tables, c.tables = c.tables, nil
	return tables, nil
}

// encodeRequest writes the head in HPACK.
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
	// What proves who a client is must not be compressed with what another
	// client sends, or its length would tell.
	secret := id == normalize.FieldAuthorization || id == normalize.FieldCookie
	c.encode(name, string(fields.Value(i)), secret)
}

// encode cannot fail: it writes to memory.
func (c *Conn) encode(name, value string, secret bool) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret})
}

// writeBlock writes the encoded fields, in as many frames as they need.
func (c *Conn) writeBlock(id uint32, end bool) error {
	block := c.block.Bytes()
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

// sendData sends a piece of the body, as the windows allow.
func (c *Conn) sendData(s *Stream, data []byte, end bool) error {
	for {
		n, err := s.take(len(data))
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
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.prepare(); err != nil {
		return c.lost(err)
	}
	if err := c.stillOpen(s, end, len(data)); err != nil {
		return err
	}
	return c.lost(c.framer.WriteData(s.id, end, data))
}

// sendTrailers ends the stream with trailers.
func (c *Conn) sendTrailers(s *Stream, trailers *h1.Fields) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.prepare(); err != nil {
		return c.lost(err)
	}
	if err := c.stillOpen(s, true, 0); err != nil {
		return err
	}
	c.block.Reset()
	for i := range trailers.Len() {
		c.encodeField(trailers, i)
	}
	return c.lost(c.writeBlock(s.id, true))
}

// stillOpen looks once more, right before a frame is written: after the one
// that resets a stream there must be no other of it. What was taken from the
// connection's window for nothing is given back.
func (c *Conn) stillOpen(s *Stream, end bool, taken int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.barred != nil {
		c.window += int64(taken)
		return s.barred
	}
	if end {
		s.ended = true
		if s.peerEnded {
			c.finish(s)
		}
	}
	return nil
}
