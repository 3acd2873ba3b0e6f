package h2

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h2flow"
)

// stream is one request and its response. To its handler it is a net.Conn on
// which the request arrives as an HTTP/1.1 message. The session's mu guards all
// fields, except where they have another note.
type stream struct {
	session *session
	id      uint32
	task    *eventloop.Task // serves it on an event loop; nil where a goroutine does

	// The request.
	in              requestBuffer
	contentLength   int64 // -1 when the request has none
	received        int64 // bytes of the body that came
	receive         h2flow.ReceiveWindow
	expectsContinue bool // the client waits for 100 before it sends the body
	isHead          bool // the method is HEAD
	peerEnded       bool // the request is complete

	// The response.
	send     h2flow.SendWindow
	headSent bool // its final head was sent
	complete bool // all of it was sent, except perhaps for END_STREAM
	ended    bool // END_STREAM was sent
	writeMu  sync.Mutex
	reply    *bridge.ResponseTranslator // guarded by writeMu; nil before the first Write and after the handler

	err        error // why nothing more can be read or written
	started    bool  // a handler serves it
	delayed    bool  // its start was delayed
	canceled   bool  // its context is cancelled
	done       chan struct{}
	afterFuncs []*afterFunc
	// closeOnCancel is closed with the context; nil for none.
	closeOnCancel net.Conn

	readable, writable eventloop.Cond
}

var _ net.Conn = (*stream)(nil)

// LocalAddr is the edge's address of the connection.
func (s *stream) LocalAddr() net.Addr { return s.session.local }

// RemoteAddr is the client's address of the connection.
func (s *stream) RemoteAddr() net.Addr { return s.session.remote }

// Read reads the request: its head, then its body, then io.EOF. A client that
// waits for 100 gets it when the handler begins to wait for the body.
func (s *stream) Read(p []byte) (int, error) {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case s.err != nil:
			return 0, s.err
		case s.readable.Expired():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		}
		if n, data := s.in.read(p); n > 0 {
			if data > 0 && c.returnWindow(s, data) {
				_ = c.flush(s.task) // an error shows with the next read
			}
			return n, nil
		}
		if s.in.Over {
			return 0, s.in.End
		}
		if s.expectsContinue {
			s.expectsContinue = false
			if s.received == 0 && !s.headSent {
				c.sendContinue(s)
				_ = c.flush(s.task) // as above
				continue
			}
		}
		s.readable.Wait(s.task)
	}
}

// TakeHead gives the head of the request to the caller, in a buffer of the pool: Read
// would copy it to another one. It returns nil if there is none, or none any more.
func (s *stream) TakeHead() []byte {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err != nil {
		return nil // Read returns it
	}
	return s.in.takeHead()
}

// Arrived returns how much of the body of the request has come, and whether that is all: then
// Read does not wait.
func (s *stream) Arrived() (size int64, all bool) {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.received, s.in.Over && s.in.End == io.EOF && s.err == nil
}

// Write takes the response as an HTTP/1.1 message. The frames that it makes of
// it have been written, or are being written, when Write returns.
func (s *stream) Write(p []byte) (int, error) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if err := s.writeError(); err != nil {
		return 0, err
	}
	if s.reply == nil {
		s.reply = s.session.server.reply(s)
	}
	return s.reply.Write(p)
}

// writeError returns why nothing can be written now. It is called with writeMu
// held.
func (s *stream) writeError() error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.reply == nil && s.complete:
		return net.ErrClosed // SendResponse has sent all, or the handler is done
	case s.err != nil && !s.complete:
		return s.err
	case s.writable.Expired():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Close ends Read and Write, also those that wait. A response that is not
// complete then is truncated: finish resets its stream.
func (s *stream) Close() error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err == net.ErrClosed {
		return net.ErrClosed
	}
	s.closeWith(net.ErrClosed)
	return nil
}

// closeWith ends reading and writing with an error. What was not read is
// dropped, and returned to the window of the connection.
func (s *stream) closeWith(why error) {
	if s.err == nil || why == net.ErrClosed {
		s.err = why
	}
	s.session.returnConn(s.in.drop())
	s.readable.Stop()
	s.writable.Stop()
}

// SetDeadline sets both deadlines.
func (s *stream) SetDeadline(t time.Time) error {
	if err := s.SetReadDeadline(t); err != nil {
		return err
	}
	return s.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of Read.
func (s *stream) SetReadDeadline(t time.Time) error { return s.setDeadline(&s.readable, t) }

// SetWriteDeadline sets the deadline of Write. It bounds the wait for the
// client's windows; writing to the connection has its own timeout.
func (s *stream) SetWriteDeadline(t time.Time) error { return s.setDeadline(&s.writable, t) }

func (s *stream) setDeadline(w *eventloop.Cond, t time.Time) error {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.err == net.ErrClosed {
		return net.ErrClosed
	}
	w.SetDeadline(t)
	return nil
}
