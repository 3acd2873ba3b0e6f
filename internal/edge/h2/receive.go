package h2

import (
	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
	"slipway.dev/slipway/internal/edge/httperr"
)

// handle does what a frame demands. An error closes the connection. It is
// called with mu held, as are all functions here.
func (c *session) handle(read http2.Frame) error {
	if !c.reader.settled {
		// The first frame has to be SETTINGS (RFC 9113 section 3.4).
		if f, ok := read.(*http2.SettingsFrame); !ok || f.IsAck() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.reader.settled = true
	}
	switch f := read.(type) {
	case *http2.HeadersFrame:
		return c.onHeaders(f)
	case *http2.ContinuationFrame:
		return c.decodeHeaders(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return c.onData(f)
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.WindowUpdateFrame:
		return c.onWindowUpdate(f)
	case *http2.RSTStreamFrame:
		return c.onReset(f)
	case *http2.PingFrame:
		c.onPing(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return c.resetInvalid(http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol})
		}
	case *http2.GoAwayFrame:
		c.refuseNewStreams()
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	// Frames of other types are ignored (RFC 9113 section 4.1).
	return nil
}

// pendingHeaders is the block of headers that is being read, which may take
// several frames.
type pendingHeaders struct {
	stream  *stream // whose trailers they are; nil for a request
	id      uint32
	ends    bool // the stream ends with them
	ignored bool // the stream was reset, or is beyond GOAWAY
	refused bool // there are too many streams
	onSelf  bool // the stream depends on itself
}

// onHeaders handles the start of a request, or of its trailers. A block that is
// ignored or refused has to be decoded too, because the next ones depend on it.
func (c *session) onHeaders(f *http2.HeadersFrame) error {
	id := f.StreamID
	h := pendingHeaders{stream: c.streams.open[id], id: id, ends: f.StreamEnded(), onSelf: f.HasPriority() && f.Priority.StreamDep == id}
	switch {
	case id%2 == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case h.stream != nil:
	case id > c.streams.last:
		c.streams.last = id
		h.ignored = id > c.streams.allowed
		h.refused = !h.ignored && len(c.streams.open) >= c.cfg.MaxStreams
	case c.streams.wasReset(id):
		h.ignored = true
	default:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.reader.pending = h
	c.reader.headers.begin(!h.ignored && !h.refused)
	return c.decodeHeaders(f.HeaderBlockFragment(), f.HeadersEnded())
}

// decodeHeaders decodes a fragment of a block of headers, and handles the block
// with its last one.
func (c *session) decodeHeaders(fragment []byte, last bool) error {
	tooLarge, err := c.reader.headers.decode(fragment)
	if err == nil && last {
		err = c.reader.headers.end()
	}
	switch {
	case err != nil:
		return http2.ConnectionError(http2.ErrCodeCompression)
	case tooLarge:
		c.accounting.exceed(ReasonBlock)
		return nil
	case !last:
		return nil
	}
	switch h := &c.reader.pending; {
	case h.ignored:
	case h.refused:
		c.sendReset(h.id, http2.ErrCodeRefusedStream)
	case h.stream != nil:
		c.onTrailers(h.stream, h.ends)
	case h.onSelf:
		c.sendReset(h.id, http2.ErrCodeProtocol)
	default:
		c.onRequest(h.id, h.ends)
	}
	return nil
}

// onRequest opens a stream for a request and queues it. A malformed request
// resets its stream; one that HTTP/1.1 would refuse too gets a response with a
// status.
func (c *session) onRequest(id uint32, ends bool) {
	if c.reader.headers.truncated {
		s := &stream{session: c, id: id, peerEnded: ends}
		c.streams.open[id] = s
		c.reject(s, h1.ErrHeadTooLarge.Status)
		return
	}
	r, err := c.reader.composer.request(&c.reader.headers, ends)
	broken := httperr.Of(err)
	if err != nil && broken.Status == 0 {
		c.sendReset(id, broken.Code)
		return
	}
	s := &stream{
		session: c, id: id, contentLength: r.length,
		receive: h2flow.NewReceiveWindow(c.cfg.StreamWindow), send: c.flow.send.Stream(),
		peerEnded: ends, expectsContinue: r.expects, isHead: r.isHead,
	}
	c.streams.open[id] = s
	if err != nil {
		c.reject(s, broken.Status)
		return
	}
	s.in = requestBuffer{head: r.head, Backlog: h1.Backlog{Pool: c.pool, Text: r.head, Chunked: r.framing == h1.Chunked}}
	if ends {
		s.in.finish(nil)
	}
	s.readable.Init(&c.mu)
	s.writable.Init(&c.mu)
	c.requests.queue = append(c.requests.queue, s)
}

// onTrailers handles trailers, which end a request.
func (c *session) onTrailers(s *stream, ends bool) {
	b := &c.reader.headers
	switch {
	case s.peerEnded:
		c.resetBroken(s, errClosedStream)
	case !ends || b.malformed || b.truncated || b.pseudo > 0:
		c.resetBroken(s, errMalformed)
	default:
		c.onEnd(s, c.reader.composer.trailers(b))
	}
}

// onEnd handles the end of a request. tail is what follows a chunked body.
func (c *session) onEnd(s *stream, tail []byte) {
	if s.contentLength >= 0 && s.received != s.contentLength {
		c.resetBroken(s, errShort)
		return
	}
	s.peerEnded = true
	s.in.finish(tail)
	s.readable.Wake(c.task)
	if s.ended {
		c.remove(s)
		return
	}
	c.sendEnd(s)
}

// onData handles a piece of a body. The whole frame counts against the windows,
// with its padding. What no handler will read is returned to the window at
// once, so that it does not block other streams.
func (c *session) onData(f *http2.DataFrame) error {
	size, data := int(f.Length), f.Data()
	if !c.flow.receive.Receive(size) {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	s, err := c.streams.find(f.StreamID)
	if err != nil {
		return err
	}
	var why *httperr.Error
	switch {
	case s == nil:
		c.returnConn(size)
		if f.StreamID <= c.streams.allowed && !c.streams.wasReset(f.StreamID) {
			c.sendReset(f.StreamID, http2.ErrCodeStreamClosed)
		}
		return nil
	case s.peerEnded:
		why = errClosedStream
	case s.contentLength >= 0 && s.received+int64(len(data)) > s.contentLength:
		why = errLong
	case !s.receive.Receive(size):
		why = errWindow
	}
	if why != nil {
		c.returnConn(size)
		c.resetBroken(s, why)
		return nil
	}
	s.received += int64(len(data))
	unused := size - len(data) // padding
	if s.err != nil {
		unused = size // the handler has closed the stream
	} else {
		s.in.Add(data)
		s.readable.Wake(c.task)
	}
	if unused > 0 {
		c.returnWindow(s, unused)
	}
	if f.StreamEnded() {
		c.onEnd(s, lastChunk)
	}
	return nil
}

// returnWindow returns consumed bytes to the windows of a stream and of the
// connection. It reports whether it added a frame that has to be written. A
// stream whose request has ended needs no window.
func (c *session) returnWindow(s *stream, n int) (added bool) {
	added = c.returnConn(n)
	s.receive.Consume(n)
	if s.peerEnded || s.err != nil {
		return added
	}
	increment := s.receive.Update(min(c.cfg.StreamWindow/2, s.receive.Available()))
	if increment == 0 {
		return added
	}
	c.writer.WindowUpdate(s.id, increment)
	return true
}

// connUpdate is how many bytes are worth a WINDOW_UPDATE of the connection.
const connUpdate = 16 << 10

// returnConn returns consumed bytes to the window of the connection.
func (c *session) returnConn(n int) (added bool) {
	w := &c.flow.receive
	w.Consume(n)
	if c.over {
		return false
	}
	increment := w.Update(min(connUpdate, w.Available()))
	if increment == 0 {
		return false
	}
	c.writer.WindowUpdate(0, increment)
	return true
}

// maxSettings is how many settings one frame may have.
const maxSettings = 100

func (c *session) onSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if f.NumSettings() > maxSettings {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingInitialWindowSize:
			return c.resizeWindows(s.Val)
		case http2.SettingHeaderTableSize:
			c.headers.setTableSize(s.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.writer.SettingsAck()
	return nil
}

// resizeWindows changes the send windows of all streams.
func (c *session) resizeWindows(initial uint32) error {
	change := c.flow.send.SetInitial(initial)
	for _, s := range c.streams.open {
		if !s.send.Grow(change) {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		s.writable.Wake(c.task)
	}
	return nil
}

func (c *session) onWindowUpdate(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 {
		s, err := c.streams.find(f.StreamID)
		if s == nil {
			return err
		}
		if !s.send.Grow(int64(f.Increment)) {
			c.resetBroken(s, errWindow)
			return nil
		}
		s.writable.Wake(c.task)
		return nil
	}
	if !c.flow.send.Grow(int64(f.Increment)) {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	for _, s := range c.streams.open {
		s.writable.Wake(c.task)
	}
	return nil
}

// onReset ends a stream that the client cancelled.
func (c *session) onReset(f *http2.RSTStreamFrame) error {
	s, err := c.streams.find(f.StreamID)
	if s != nil {
		s.fail(errCanceled)
		c.remove(s)
	}
	return err
}

// onPing acknowledges a PING. An acknowledgement has done its work as a frame:
// the keepalive only needs to see one.
func (c *session) onPing(f *http2.PingFrame) {
	if !f.IsAck() {
		c.writer.PingAck(f.Data)
	}
}

// resetInvalid resets a stream because of an invalid frame.
func (c *session) resetInvalid(invalid http2.StreamError) error {
	if s := c.streams.open[invalid.StreamID]; s != nil {
		c.reset(s, invalid.Code, invalid)
	} else {
		c.sendReset(invalid.StreamID, invalid.Code)
	}
	return nil
}
