package h2

import (
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/bridge"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

var _ bridge.Output = (*stream)(nil)

// Interim implements [bridge.Output]. 100 is said when the body is waited for.
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
	c.status(head.Status)
	for i := range head.Len() {
		if bridge.Passes(head.ID(i)) {
			c.encodeField(&head.Fields, i)
		}
	}
	final := !head.Interim()
	if final && bridge.SaysLength(head) {
		c.encode("content-length", c.lengthText(head.Length), false)
	}
	s.begun = s.begun || final
	c.sendBlock(s, end && (s.mayEnd() || isLastWord(head)))
	if final && c.late {
		c.refuseMore()
	}
	return nil
}

// isLastWord reports whether a head without a body is the status of a gRPC call.
// Such a client takes an end that comes after it, as held-back ones do, for a call
// without a status.
func isLastWord(head *h1.ResponseHead) bool {
	for i := range head.Len() {
		if head.ID(i) == normalize.FieldContentType {
			return strings.HasPrefix(normalize.View(head.Value(i)), "application/grpc")
		}
	}
	return false
}

// lengthText is a length as text. Answers tend to have the same one again.
func (c *session) lengthText(length int64) string {
	var space [20]byte
	text := strconv.AppendInt(space[:0], length, 10)
	last := &c.said[len(c.said)-1]
	if last.value != string(text) {
		last.value = string(text)
	}
	return last.value
}

// Data implements [bridge.Output].
func (s *stream) Data(piece []byte, end bool) error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n, err := s.awaitWindow(min(len(piece), dataSize))
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

// mayEnd reports whether the stream may be ended now that its answer is complete.
// Clients give up what is left of a request that is answered, so while one is
// still coming the end is held back until who serves it is done with it.
func (s *stream) mayEnd() bool {
	s.complete = true
	return s.peerEnded
}

// sendEnd sends the end that was held back.
func (c *session) sendEnd(s *stream) {
	if s.complete && !s.ended {
		c.sendData(s, nil, true)
	}
}

// awaitWindow waits until some of size bytes may be sent, and there is room for
// them. It says how many.
func (s *stream) awaitWindow(size int) (int, error) {
	c := s.session
	for {
		n := int(min(int64(size), max(s.window, 0), max(c.window, 0)))
		fits := len(c.out) == 0 || len(c.out)+frameHeaderSize+n <= outSize
		switch {
		case s.err != nil:
			return 0, s.err
		case c.lost != nil:
			return 0, c.lost
		case fits && (n > 0 || size == 0):
			return n, nil
		case s.writable.expired():
			return 0, os.ErrDeadlineExceeded
		case len(c.out) > 0 && !c.writing:
			_ = c.flush() // an error shows with the next look
			continue
		}
		if !fits {
			c.waiting++
		}
		s.writable.wait()
		if !fits {
			c.waiting--
		}
	}
}

// Trailers implements [bridge.Output]. They are the last word in gRPC too, so they
// are never held back.
func (s *stream) Trailers(trailers *h1.Fields) error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.complete = true
	for i := range trailers.Len() {
		c.encodeField(trailers, i)
	}
	c.sendBlock(s, true)
	return nil
}

// Flush implements [bridge.Output]. A client that leaves as soon as it has its
// answer is no error.
func (s *stream) Flush() error {
	c := s.session
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil || s.complete {
		return err
	}
	return c.lost
}

// sendContinue tells a client to go on with its body.
func (c *session) sendContinue(s *stream) {
	c.status(100)
	c.sendBlock(s, false)
}

// refuse answers a request that nobody serves.
func (c *session) refuse(s *stream, status int) {
	c.status(status)
	c.encode("content-length", "0", false)
	s.begun = true
	c.sendBlock(s, true)
	if c.late {
		c.refuseMore()
	}
	if !s.peerEnded {
		c.reset(s, http2.ErrCodeNo, net.ErrClosed)
	}
}

func (c *session) status(status int) {
	text := "200"
	if status != 200 {
		text = strconv.Itoa(status)
	}
	c.encode(":status", text, false)
}

// encodeField packs line i of some headers.
func (c *session) encodeField(fields *h1.Fields, i int) {
	id, said := fields.ID(i), &c.said[i%(len(c.said)-1)]
	name := id.String()
	if name == "" {
		if name = said.name; !strings.EqualFold(name, normalize.View(fields.Name(i))) {
			name = strings.ToLower(string(fields.Name(i)))
		}
	}
	value := said.value
	if value != normalize.View(fields.Value(i)) {
		value = string(fields.Value(i))
	}
	secret := id == normalize.FieldSetCookie
	if !secret && len(value) <= keptValue {
		*said = saying{name, value}
	}
	c.encode(name, value, secret)
}

// encode cannot fail: it writes to memory. What is secret is not entered in the
// table.
func (c *session) encode(name, value string, secret bool) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret})
}
