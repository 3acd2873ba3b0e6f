package h2

import (
	"slices"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
)

// handle does what a frame asks for. An error ends the connection. It is called
// with mu held, as is all here.
func (c *session) handle(read http2.Frame) error {
	if !c.settled {
		// The first frame has to be SETTINGS.
		if f, ok := read.(*http2.SettingsFrame); !ok || f.IsAck() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.settled = true
	}
	switch f := read.(type) {
	case *http2.HeadersFrame:
		return c.onHeaders(f)
	case *http2.ContinuationFrame:
		return c.unpack(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return c.onData(f)
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.WindowUpdateFrame:
		return c.onWindow(f)
	case *http2.RSTStreamFrame:
		return c.onReset(f)
	case *http2.PingFrame:
		c.onPing(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return c.streamFault(http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol})
		}
	case *http2.GoAwayFrame:
		c.refuseMore()
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	// Frames of other kinds are ignored, as RFC 9113 section 4.1 asks.
	return nil
}

// opening is a block of headers that is being read.
type opening struct {
	stream  *stream // whose trailers they are; nil for a request
	id      uint32
	ends    bool // the stream ends with them
	ignored bool // they mean nothing
	refused bool // there are too many streams
	itself  bool // the stream depends on itself
}

// onHeaders takes in the start of a request, or of its trailers.
func (c *session) onHeaders(f *http2.HeadersFrame) error {
	id := f.StreamID
	o := opening{stream: c.streams[id], id: id, ends: f.StreamEnded(), itself: f.HasPriority() && f.Priority.StreamDep == id}
	switch {
	case id%2 == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case o.stream != nil:
	case id > c.last:
		c.last = id
		o.ignored = id > c.allowed
		o.refused = !o.ignored && len(c.streams) >= c.cfg.MaxStreams
	case slices.Contains(c.recent[:], id):
		o.ignored = true
	default:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.opening = o
	c.header.begin(!o.ignored && !o.refused)
	return c.unpack(f.HeaderBlockFragment(), f.HeadersEnded())
}

// unpack takes in a part of a block of headers.
func (c *session) unpack(part []byte, last bool) error {
	tooLarge, err := c.header.add(part)
	if err == nil && last {
		err = c.header.end()
	}
	switch {
	case err != nil:
		return http2.ConnectionError(http2.ErrCodeCompression)
	case tooLarge:
		c.judge(ReasonBlock)
		return nil
	case !last:
		return nil
	}
	switch o := &c.opening; {
	case o.ignored:
	case o.refused:
		c.sendReset(o.id, http2.ErrCodeRefusedStream)
	case o.stream != nil:
		c.onTrailers(o.stream, o.ends)
	case o.itself:
		c.sendReset(o.id, http2.ErrCodeProtocol)
	default:
		c.onRequest(o.id, o.ends)
	}
	return nil
}

// onRequest takes in a request.
func (c *session) onRequest(id uint32, ends bool) {
	if c.header.truncated {
		s := &stream{session: c, id: id, peerEnded: ends}
		c.streams[id] = s
		c.refuse(s, h1.ErrHeadTooLarge.Status())
		return
	}
	r, err := c.composer.request(&c.header, ends)
	status := 0
	if err != nil && err != errMalformed {
		status = h1.StatusOf(err)
	}
	if err != nil && status == 0 {
		c.sendReset(id, http2.ErrCodeProtocol)
		return
	}
	s := &stream{
		session: c, id: id, declared: r.length, room: c.cfg.StreamWindow, window: c.initial,
		peerEnded: ends, expects: r.expects, isHead: r.headers,
	}
	c.streams[id] = s
	if status != 0 {
		c.refuse(s, status)
		return
	}
	s.in = inbox{head: r.head, Backlog: h1.Backlog{Pool: c.pool, Text: r.head, Chunked: r.framing == h1.Chunked}}
	if ends {
		s.in.finish(nil)
	}
	s.readable.cond.L, s.writable.cond.L = &c.mu, &c.mu
	c.queue = append(c.queue, s)
}

// onTrailers takes in the end of a request.
func (c *session) onTrailers(s *stream, ends bool) {
	b := &c.header
	switch {
	case s.peerEnded:
		c.reset(s, http2.ErrCodeStreamClosed, errClosedStream)
	case !ends || b.malformed || b.truncated || b.pseudo > 0:
		c.reset(s, http2.ErrCodeProtocol, errMalformed)
	default:
		c.endOf(s, c.composer.trailers(b))
	}
}

// endOf takes in the end of a request. tail is what follows a body in chunks.
func (c *session) endOf(s *stream, tail []byte) {
	if s.declared >= 0 && s.got != s.declared {
		c.reset(s, http2.ErrCodeProtocol, errShort)
		return
	}
	s.peerEnded = true
	s.in.finish(tail)
	s.readable.wake()
	if s.ended {
		c.drop(s)
		return
	}
	c.sendEnd(s)
}

// find gives the stream with a number: nil for one that is over, an error for
// one that never was.
func (c *session) find(id uint32) (*stream, error) {
	if id%2 == 0 || id > c.last {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.streams[id], nil
}

func (c *session) onData(f *http2.DataFrame) error {
	size, data := int(f.Length), f.Data()
	if c.room -= size; c.room < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	s, err := c.find(f.StreamID)
	if err != nil {
		return err
	}
	code, why := http2.ErrCodeNo, error(nil)
	switch {
	case s == nil:
		c.credit(size)
		if f.StreamID <= c.allowed && !slices.Contains(c.recent[:], f.StreamID) {
			c.sendReset(f.StreamID, http2.ErrCodeStreamClosed)
		}
		return nil
	case s.peerEnded:
		code, why = http2.ErrCodeStreamClosed, errClosedStream
	case s.declared >= 0 && s.got+int64(len(data)) > s.declared:
		code, why = http2.ErrCodeProtocol, errLong
	case size > s.room:
		code, why = http2.ErrCodeFlowControl, errWindow
	}
	if why != nil {
		c.credit(size)
		c.reset(s, code, why)
		return nil
	}
	s.room -= size
	s.got += int64(len(data))
	unused := size - len(data) // padding
	if s.err != nil {
		unused = size // nobody reads it
	} else {
		s.in.Add(data)
		s.readable.wake()
	}
	if unused > 0 {
		c.consumed(s, unused)
	}
	if f.StreamEnded() {
		c.endOf(s, lastChunk)
	}
	return nil
}

// consumed gives back to the client what it sent and is held no more. It reports
// whether there is a frame to write for that.
func (c *session) consumed(s *stream, n int) bool {
	given := c.credit(n)
	if s.owed += n; s.peerEnded || s.err != nil || s.owed < c.cfg.StreamWindow/2 && s.owed < s.room {
		return given
	}
	c.sendWindow(s.id, s.owed)
	s.room += s.owed
	s.owed = 0
	return true
}

// creditStep is what is worth giving back of the window of all streams.
const creditStep = 16 << 10

// credit gives back what was taken of the window of all streams.
func (c *session) credit(n int) bool {
	if c.owed += n; c.owed == 0 || c.owed < creditStep && c.owed < c.room || c.over {
		return false
	}
	c.sendWindow(0, c.owed)
	c.room += c.owed
	c.owed = 0
	return true
}

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
			return c.resize(int64(s.Val))
		case http2.SettingHeaderTableSize:
			c.encoder.SetMaxDynamicTableSize(s.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.reserve(frameHeaderSize)
	c.out = appendFrame(c.out, frameSettings, flagAck, 0, 0)
	return nil
}

// maxSettings is how many settings one frame may have.
const maxSettings = 100

// resize changes the windows of all streams.
func (c *session) resize(initial int64) error {
	change := initial - c.initial
	c.initial = initial
	for _, s := range c.streams {
		if s.window += change; s.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		s.writable.wake()
	}
	return nil
}

func (c *session) onWindow(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 {
		s, err := c.find(f.StreamID)
		if s == nil {
			return err
		}
		if s.window += int64(f.Increment); s.window > maxWindow {
			c.reset(s, http2.ErrCodeFlowControl, errWindow)
			return nil
		}
		s.writable.wake()
		return nil
	}
	if c.window += int64(f.Increment); c.window > maxWindow {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	for _, s := range c.streams {
		s.writable.wake()
	}
	return nil
}

// onReset takes in that the client gave a request up.
func (c *session) onReset(f *http2.RSTStreamFrame) error {
	s, err := c.find(f.StreamID)
	if s != nil {
		s.fail(errGivenUp)
		c.drop(s)
	}
	return err
}

func (c *session) onPing(f *http2.PingFrame) {
	if f.IsAck() {
		return // it has been heard
	}
	c.reserve(frameHeaderSize + len(f.Data))
	c.out = appendPing(c.out, flagAck, f.Data)
}

// streamFault resets a stream because of a frame that cannot be.
func (c *session) streamFault(fault http2.StreamError) error {
	if s := c.streams[fault.StreamID]; s != nil {
		c.reset(s, fault.Code, fault)
	} else {
		c.sendReset(fault.StreamID, fault.Code)
	}
	return nil
}
