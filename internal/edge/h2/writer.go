package h2

import (
	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h2wire"
)

// maxUnwritten bounds what waits to be written altogether. Replies to frames do not
// wait for room, and a client that provokes so many without reading them is
// disconnected.
const maxUnwritten = 256 << 10

var _ h2wire.Owner = (*session)(nil)

// flush writes what waits, unless another goroutine or task does. It is called with mu
// held, and releases it while it writes. by is the task that the caller is, if any.
func (c *session) flush(by *eventloop.Task) error { return c.writer.Flush(by, c.requests.active > 1) }

// Taken implements [h2wire.Owner]. It wakes the streams that wait for room.
func (c *session) Taken(by *eventloop.Task) {
	if c.waitForRoom == 0 {
		return
	}
	for _, s := range c.streams.open {
		s.writable.Wake(by)
	}
}

// WriteFailed implements [h2wire.Owner].
func (c *session) WriteFailed(err error) { c.abort(err) }

// sendHeaders sends the headers that were encoded.
func (c *session) sendHeaders(s *stream, end bool) {
	block := c.headers.buf.Bytes()
	c.writer.Headers(s.id, block, end)
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
	c.writer.Data(s.id, data, end)
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
	c.writer.Reset(id, code)
	c.streams.noteReset(id)
	c.accounting.exceed(c.accounting.countSent(&frame{kind: frameReset, stream: id, code: code}))
}
