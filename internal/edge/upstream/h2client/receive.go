package h2client

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"
)

// readLoop takes in what the endpoint sends. It never waits for anything else,
// so no stream can hold up another.
func (c *Conn) readLoop() {
	err := c.readFrames()
	if errors.As(err, new(http2.ConnectionError)) {
		err = fmt.Errorf("the endpoint broke the rules of HTTP/2: %w", errors.Join(err, c.framer.ErrorDetail()))
	}
	c.shut(err)
}

func (c *Conn) readFrames() error {
	for first := true; ; first = false {
		read, err := c.framer.ReadFrame()
		var stream http2.StreamError
		if errors.As(err, &stream) {
			c.resetStream(stream)
			continue
		}
		if first && parted(err) {
			return errEarlyEnd
		}
		if first && notHTTP2(read, err) {
			return ErrNotHTTP2
		}
		if err != nil {
			return err
		}
		c.heard.Store(c.now())
		c.doubted.Store(false)
		if err := c.handle(read); err != nil {
			return err
		}
		if c.flooded.Load() {
			return ErrFlood
		}
	}
}

// notHTTP2 judges the first frame. A connection that just ends says nothing
// about the protocol.
func notHTTP2(first http2.Frame, err error) bool {
	if err != nil {
		return errors.Is(err, http2.ErrFrameTooLarge) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(http2.ConnectionError))
	}
	settings, ok := first.(*http2.SettingsFrame)
	return !ok || settings.IsAck()
}

func (c *Conn) handle(read http2.Frame) error {
	switch f := read.(type) {
	case *http2.MetaHeadersFrame:
		c.talked.Store(true)
		return c.onHeaders(f)
	case *http2.DataFrame:
		c.talked.Store(true)
		return c.onData(f)
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.WindowUpdateFrame:
		return c.onWindow(f)
	case *http2.RSTStreamFrame:
		return c.onReset(f)
	case *http2.GoAwayFrame:
		c.onGoAway(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.mu.Lock()
			c.enqueue(frame{kind: framePong, data: f.Data})
			c.mu.Unlock()
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	// Frames of other kinds are ignored, as RFC 9113 section 4.1 asks.
	return nil
}

// find gives the stream with a number: nil for one that is over, an error for
// one that never was.
func (c *Conn) find(id uint32) (*Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id%2 == 0 || id >= c.next {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.streams[id], nil
}

func (c *Conn) onHeaders(f *http2.MetaHeadersFrame) error {
	s, err := c.find(f.StreamID)
	if s == nil {
		return err
	}
	if fault := s.takeHeaders(f); fault != nil {
		c.reset(s, http2.ErrCodeProtocol, fault)
		return nil
	}
	if f.StreamEnded() {
		c.endOf(s)
	}
	return nil
}

func (c *Conn) onData(f *http2.DataFrame) error {
	c.taken += int64(f.Length)
	if c.taken > connWindow {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	if c.taken >= connWindow/2 {
		c.mu.Lock()
		c.enqueue(frame{kind: frameWindow, value: uint32(c.taken)})
		c.mu.Unlock()
		c.taken = 0
	}
	s, err := c.find(f.StreamID)
	if s == nil {
		return err
	}
	fault := s.takeData(f)
	if code := http2.ConnectionError(0); errors.As(fault, &code) {
		return code
	}
	if fault != nil {
		c.reset(s, http2.ErrCodeProtocol, fault)
		return nil
	}
	if f.StreamEnded() {
		c.endOf(s)
	}
	return nil
}

// endOf takes in the end of a response.
func (c *Conn) endOf(s *Stream) {
	if fault := s.takeEnd(); fault != nil {
		c.reset(s, http2.ErrCodeProtocol, fault)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.peerEnded = true
	if s.ended {
		c.finish(s)
	}
}

// reset breaks off one exchange because of what the endpoint sent.
func (c *Conn) reset(s *Stream, code http2.ErrCode, why error) {
	c.mu.Lock()
	if !s.over {
		c.enqueue(frame{kind: frameReset, stream: s.id, value: uint32(code)})
	}
	s.forbid(why)
	c.finish(s)
	c.mu.Unlock()
	s.fail(why)
}

// resetStream is for a frame that could not be read.
func (c *Conn) resetStream(e http2.StreamError) {
	why := error(e)
	if detail := c.framer.ErrorDetail(); detail != nil {
		why = fmt.Errorf("%w: %w", why, detail)
	}
	if s, err := c.find(e.StreamID); err == nil && s != nil {
		c.reset(s, e.Code, why)
	}
}

func (c *Conn) onSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(setting http2.Setting) error {
		if err := setting.Valid(); err != nil {
			return err
		}
		switch setting.ID {
		case http2.SettingMaxConcurrentStreams:
			c.limit = int(min(setting.Val, maxStreams))
		case http2.SettingInitialWindowSize:
			return c.resize(int64(setting.Val))
		case http2.SettingHeaderTableSize:
			if len(c.tables) == maxTables {
				// The smallest and the last are all that count.
				c.tables = []uint32{min(c.tables[0], c.tables[1])}
			}
			c.tables = append(c.tables, setting.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.enqueue(frame{kind: frameSettingsAck})
	if c.limit > 0 {
		c.begin()
	}
	return nil
}

// maxTables bounds the changes of the table size that are waiting to be used.
const maxTables = 2

// resize changes the windows of all streams. It is called with mu held.
func (c *Conn) resize(initial int64) error {
	change := initial - c.initial
	c.initial = initial
	for _, s := range c.streams {
		if s.window+change > lastID {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		s.window += change
		s.writable.Broadcast()
	}
	return nil
}

func (c *Conn) onWindow(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 {
		s, err := c.find(f.StreamID)
		if s == nil {
			return err
		}
		c.mu.Lock()
		s.window += int64(f.Increment)
		overflow := s.window > lastID
		s.writable.Broadcast()
		c.mu.Unlock()
		if overflow {
			c.reset(s, http2.ErrCodeFlowControl, protocolFault("a window is too large"))
		}
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window += int64(f.Increment)
	if c.window > lastID {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	for _, s := range c.streams {
		s.writable.Broadcast()
	}
	return nil
}

// onReset takes in that the endpoint broke off one exchange. A response that
// is complete stays so: NO_ERROR then says that the rest of the request is not
// wanted (RFC 9113 section 8.1).
func (c *Conn) onReset(f *http2.RSTStreamFrame) error {
	s, err := c.find(f.StreamID)
	if s == nil {
		return err
	}
	begun := s.begun()
	why := error(&ResetError{f.ErrCode})
	refused := f.ErrCode == http2.ErrCodeRefusedStream && !begun
	if refused {
		why = ErrRefused
	}
	c.mu.Lock()
	if s.peerEnded && f.ErrCode == http2.ErrCodeNo {
		s.forbid(errUnwanted)
	} else {
		s.forbid(why)
	}
	c.finish(s)
	c.mu.Unlock()
	if refused {
		s.refuse()
	} else {
		s.fail(why)
	}
	return nil
}

// onGoAway stops opening streams. Those that the endpoint will not look at are
// refused; the others go on.
func (c *Conn) onGoAway(f *http2.GoAwayFrame) {
	c.mu.Lock()
	c.leaving, c.goneAway = true, true
	var refused []*Stream
	for id, s := range c.streams {
		if id > f.LastStreamID {
			refused = append(refused, s)
			s.forbid(ErrRefused)
			c.finish(s)
		}
	}
	if c.live == 0 {
		c.wakeAfter(0)
	}
	c.mu.Unlock()
	for _, s := range refused {
		if s.begun() {
			s.fail(&ResetError{http2.ErrCodeRefusedStream})
		} else {
			s.refuse()
		}
	}
}
