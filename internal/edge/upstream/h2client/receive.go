package h2client

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h2wire"
	"slipway.dev/slipway/internal/edge/httperr"
)

// read handles the frames of the endpoint, until the connection ends. It never waits for
// anything else, so that no stream can block another. It is run for a task on an event loop,
// and by a goroutine otherwise.
func (c *Conn) read(task *eventloop.Task) {
	c.task = task
	err := c.readFrames()
	if errors.As(err, new(http2.ConnectionError)) {
		err = fmt.Errorf("the endpoint broke the HTTP/2 protocol: %w", errors.Join(err, c.framer.ErrorDetail()))
	}
	c.mu.Lock()
	c.closeWith(err) // it may be closing already, which is why reading ended
	c.mu.Unlock()
	if task != nil {
		task.Leave() // the end waits for more than the connection
	}
	c.finish()
}

func (c *Conn) readFrames() error {
	for first := true; ; first = false {
		read, err := c.readFrame()
		stream, ofStream := errors.AsType[http2.StreamError](err)
		switch {
		case ofStream:
		case first && isDisconnect(err):
			return errEarlyEnd
		case first && notHTTP2(read, err):
			return ErrNotHTTP2
		case err != nil:
			return err
		}
		c.mu.Lock()
		if ofStream {
			c.resetStream(stream)
		} else {
			err = c.handle(read)
		}
		flooded := c.flooded
		c.mu.Unlock()
		switch {
		case err != nil && !ofStream:
			return err
		case flooded:
			return ErrFlood
		}
	}
}

// readFrame reads a frame. Before it waits for the endpoint, it has written what waits.
func (c *Conn) readFrame() (http2.Frame, error) {
	if c.in.Buffered() < h2wire.FrameHeaderSize {
		c.beforeWait()
	}
	header, err := c.framer.ReadFrameHeader()
	if err != nil {
		return nil, err
	}
	if c.in.Buffered() < int(header.Length) {
		c.beforeWait()
	}
	return c.framer.ReadFrameForHeader(header)
}

// beforeWait is called before the reader may wait. What was added since the last wait is
// written together.
func (c *Conn) beforeWait() {
	c.waited = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writer.FlushAsync(c.task)
}

// notHTTP2 reports whether the first frame shows that the endpoint does not
// speak HTTP/2. A connection that just ends does not show it.
func notHTTP2(first http2.Frame, err error) bool {
	if err != nil {
		return errors.Is(err, http2.ErrFrameTooLarge) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(http2.ConnectionError))
	}
	settings, ok := first.(*http2.SettingsFrame)
	return !ok || settings.IsAck()
}

// handle handles a frame. It is called with mu held, as are the functions below.
func (c *Conn) handle(read http2.Frame) error {
	if c.waited {
		// The clock is read only after a wait: frames that came together have the same time.
		c.waited = false
		c.keepalive.received()
	}
	switch f := read.(type) {
	case *http2.MetaHeadersFrame:
		c.keepalive.traffic = true
		return c.onHeaders(f)
	case *http2.DataFrame:
		c.keepalive.traffic = true
		return c.onData(f)
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.WindowUpdateFrame:
		return c.onWindowUpdate(f)
	case *http2.RSTStreamFrame:
		return c.onReset(f)
	case *http2.GoAwayFrame:
		c.onGoAway(f)
	case *http2.PingFrame:
		if !f.IsAck() && c.mayAddControl() {
			c.writer.PingAck(f.Data)
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	// Frames of other types are ignored (RFC 9113 section 4.1).
	return nil
}

// find returns the stream with an identifier: nil for one that has ended, an
// error for one that was never opened.
func (c *Conn) find(id uint32) (*Stream, error) {
	if id%2 == 0 || id >= c.streams.next {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.streams.open[id], nil
}

func (c *Conn) onHeaders(f *http2.MetaHeadersFrame) error {
	s, err := c.find(f.StreamID)
	if s == nil {
		return err
	}
	if err := s.onHeaders(f); err != nil {
		c.resetBroken(s, err)
		return nil
	}
	if f.StreamEnded() {
		c.onEnd(s)
	}
	return nil
}

// onData handles a piece of a body. The window of the connection is returned at
// once, that of the stream when the piece is read.
func (c *Conn) onData(f *http2.DataFrame) error {
	size := int(f.Length)
	if !c.receive.Receive(size) {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.receive.Consume(size)
	if increment := c.receive.Update(connWindow / 2); increment > 0 && c.mayAddControl() {
		c.writer.WindowUpdate(0, increment)
	}
	s, err := c.find(f.StreamID)
	if s == nil {
		return err
	}
	err = s.onData(f)
	if code := http2.ConnectionError(0); errors.As(err, &code) {
		return code
	}
	if err != nil {
		c.resetBroken(s, err)
		return nil
	}
	if f.StreamEnded() {
		c.onEnd(s)
	}
	return nil
}

// onEnd handles the end of a response.
func (c *Conn) onEnd(s *Stream) {
	if err := s.onEnd(); err != nil {
		c.resetBroken(s, err)
		return
	}
	s.peerEnded = true
	if s.ended {
		c.remove(s)
	}
}

// resetBroken resets a stream whose response breaks a rule.
func (c *Conn) resetBroken(s *Stream, err error) { c.reset(s, httperr.Of(err).Code, err) }

// reset resets a stream because of a frame of the endpoint.
func (c *Conn) reset(s *Stream, code http2.ErrCode, why error) {
	if !s.over && c.mayAddControl() {
		c.writer.Reset(s.id, code)
	}
	s.stopSending(why, c.task)
	c.remove(s)
	s.finishReading(why, c.task)
}

// resetStream resets the stream of an invalid frame.
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
	err := f.ForeachSetting(func(setting http2.Setting) error {
		if err := setting.Valid(); err != nil {
			return err
		}
		switch setting.ID {
		case http2.SettingMaxConcurrentStreams:
			c.settings.maxStreams = int(min(setting.Val, maxStreams))
		case http2.SettingInitialWindowSize:
			return c.resizeWindows(setting.Val)
		case http2.SettingHeaderTableSize:
			c.settings.addTableSize(setting.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.mayAddControl() {
		c.writer.SettingsAck()
	}
	if c.settings.maxStreams > 0 && !c.started {
		c.signalStarted(c.task)
	}
	return nil
}

// maxTableSizes bounds the changes of the table size that wait to be applied.
const maxTableSizes = 2

// addTableSize keeps a change of the HPACK table size for the encoder. Of many
// changes only the smallest and the last count (RFC 7541 section 4.2).
func (p *peerSettings) addTableSize(size uint32) {
	if len(p.tableSizes) == maxTableSizes {
		p.tableSizes = []uint32{min(p.tableSizes[0], p.tableSizes[1])}
	}
	p.tableSizes = append(p.tableSizes, size)
}

// resizeWindows changes the send windows of all streams.
func (c *Conn) resizeWindows(initial uint32) error {
	change := c.send.SetInitial(initial)
	for _, s := range c.streams.open {
		if !s.send.Grow(change) {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		s.writable.Wake(c.task)
	}
	return nil
}

func (c *Conn) onWindowUpdate(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 {
		s, err := c.find(f.StreamID)
		if s == nil {
			return err
		}
		if !s.send.Grow(int64(f.Increment)) {
			c.resetBroken(s, errWindow)
		}
		s.writable.Wake(c.task)
		return nil
	}
	if !c.send.Grow(int64(f.Increment)) {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	for _, s := range c.streams.open {
		s.writable.Wake(c.task)
	}
	return nil
}

// onReset handles a stream that the endpoint reset. A response that is complete
// stays so: NO_ERROR then means that the rest of the request is not needed (RFC
// 9113 section 8.1).
func (c *Conn) onReset(f *http2.RSTStreamFrame) error {
	s, err := c.find(f.StreamID)
	if s == nil {
		return err
	}
	why := error(&ResetError{f.ErrCode})
	refused := f.ErrCode == http2.ErrCodeRefusedStream && !s.in.begun
	if refused {
		why = ErrRefused
	}
	if s.peerEnded && f.ErrCode == http2.ErrCodeNo {
		s.stopSending(errUnwanted, c.task)
	} else {
		s.stopSending(why, c.task)
	}
	c.remove(s)
	if refused {
		s.refuse(c.task)
	} else {
		s.finishReading(why, c.task)
	}
	return nil
}

// onGoAway stops opening streams. Those that the endpoint will not process are
// refused; the others go on.
func (c *Conn) onGoAway(f *http2.GoAwayFrame) {
	c.draining, c.goneAway = true, true
	for id, s := range c.streams.open {
		if id <= f.LastStreamID {
			continue
		}
		s.stopSending(ErrRefused, c.task)
		c.remove(s)
		if s.in.begun {
			s.finishReading(&ResetError{http2.ErrCodeRefusedStream}, c.task)
		} else {
			s.refuse(c.task)
		}
	}
	c.wakeWaiting(c.task) // those that have sent nothing yet
	if c.streams.live == 0 {
		c.keepalive.wakeAfter(0)
	}
}
