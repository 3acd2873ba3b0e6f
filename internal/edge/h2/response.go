package h2

import (
	"net"
	"os"
	"strings"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
	"slipway.dev/slipway/internal/edge/h2wire"
	"slipway.dev/slipway/internal/edge/normalize"
)

var _ bridge.Output = (*stream)(nil)

// Interim implements [bridge.Output]. 100 is left out here: Read sends it when
// the handler waits for the body.
func (s *stream) Interim(head *h1.ResponseHead) error {
	if head.Status == 100 {
		return nil
	}
	return s.sendHead(head, false)
}

// Head implements [bridge.Output].
func (s *stream) Head(head *h1.ResponseHead, end bool) error { return s.sendHead(head, end) }

func (s *stream) sendHead(head *h1.ResponseHead, end bool) error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	c.headers.status(head.Status)
	for i := range head.Len() {
		if bridge.Passes(head.ID(i)) {
			c.headers.field(&head.Fields, i)
		}
	}
	s.finishHead(head, end)
	return nil
}

// SendResponse sends a whole final response as a plan passes it on, and reports whether it
// did: one that has to wait for the client's windows, or that follows something
// written, is the caller's to write. It takes the parsed head, so that no text is made
// of it and parsed again.
func (s *stream) SendResponse(plan *h1.ResponsePlan, head *h1.ResponseHead, body []byte) (sent bool, err error) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	fits := len(body) <= h2wire.DataSize && c.writer.HasRoom(len(body)) && h2flow.Sendable(len(body), &s.send, &c.flow.send.SendWindow) == len(body)
	if s.reply != nil || s.headSent || s.err != nil || c.writer.Err() != nil || !fits {
		return false, nil
	}
	c.headers.status(head.Status)
	lines := 0
	plan.Lines(head, func(id normalize.Field, name, value string) {
		c.headers.line(lines, id, name, value)
		lines++
	})
	s.finishHead(head, len(body) == 0)
	if ends := s.mayEnd(); len(body) > 0 {
		c.sendData(s, body, ends)
	}
	return true, c.flush(s.task)
}

// finishHead sends the headers that were encoded of a head, with its length.
func (s *stream) finishHead(head *h1.ResponseHead, end bool) {
	c := s.session
	final := !head.Interim()
	if final && bridge.SendsLength(head) {
		c.headers.contentLength(head.Length)
	}
	s.headSent = s.headSent || final
	c.sendHeaders(s, end && (s.mayEnd() || isGRPCStatus(head)))
	if final && c.acceptedDraining {
		c.refuseNewStreams()
	}
}

// isGRPCStatus reports whether a head without a body is the status of a gRPC
// call, which gRPC calls Trailers-Only. Such a client takes an END_STREAM that
// comes in a frame of its own for a call without a status, so the end is not
// held back.
func isGRPCStatus(head *h1.ResponseHead) bool {
	for i := range head.Len() {
		if head.ID(i) == normalize.FieldContentType {
			return strings.HasPrefix(normalize.View(head.Value(i)), "application/grpc")
		}
	}
	return false
}

// Data implements [bridge.Output].
func (s *stream) Data(piece []byte, end bool) error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n, err := s.awaitWindow(min(len(piece), h2wire.DataSize))
		if err != nil {
			return err
		}
		last := n == len(piece)
		ends := end && last && s.mayEnd()
		if n > 0 || ends {
			c.sendData(s, piece[:n], ends)
		}
		if last {
			return nil
		}
		piece = piece[n:]
	}
}

// mayEnd notes that the response is complete and reports whether END_STREAM may
// be sent now. Clients stop an upload when its response ends, so while the
// request is still coming the end is held back until the handler is done with
// it.
func (s *stream) mayEnd() bool {
	s.complete = true
	return s.peerEnded
}

// sendEnd sends the END_STREAM that was held back.
func (c *session) sendEnd(s *stream) {
	if s.complete && !s.ended {
		c.sendData(s, nil, true)
	}
}

// awaitWindow waits until the windows allow some of size bytes and the writer
// has room for them, and returns how many. It is called with mu held, and
// releases it while it waits.
func (s *stream) awaitWindow(size int) (int, error) {
	c := s.session
	for {
		n := h2flow.Sendable(size, &s.send, &c.flow.send.SendWindow)
		fits := c.writer.HasRoom(n)
		switch {
		case s.err != nil:
			return 0, s.err
		case c.writer.Err() != nil:
			return 0, c.writer.Err()
		case fits && (n > 0 || size == 0):
			return n, nil
		case s.writable.Expired():
			return 0, os.ErrDeadlineExceeded
		case c.writer.Pending() > 0 && !c.writer.Writing():
			_ = c.flush(s.task) // an error shows in the next round
			continue
		}
		if !fits {
			c.waitForRoom++
		}
		s.writable.Wait(s.task)
		if !fits {
			c.waitForRoom--
		}
	}
}

// Trailers implements [bridge.Output]. They carry the status of gRPC, so their
// end is never held back.
func (s *stream) Trailers(trailers *h1.Fields) error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.complete = true
	for i := range trailers.Len() {
		c.headers.field(trailers, i)
	}
	c.sendHeaders(s, true)
	return nil
}

// Flush implements [bridge.Output]. A client that disconnects as soon as it has
// its response is no error.
func (s *stream) Flush() error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(s.task); err != nil || s.complete {
		return err
	}
	return c.writer.Err()
}

// sendContinue sends 100, on which the client sends its body.
func (c *session) sendContinue(s *stream) {
	c.headers.status(100)
	c.sendHeaders(s, false)
}

// reject responds with a status to a request that no handler gets.
func (c *session) reject(s *stream, status int) {
	c.headers.status(status)
	c.headers.encode("content-length", "0", false)
	s.headSent = true
	c.sendHeaders(s, true)
	if c.acceptedDraining {
		c.refuseNewStreams()
	}
	if !s.peerEnded {
		c.reset(s, http2.ErrCodeNo, net.ErrClosed)
	}
}
