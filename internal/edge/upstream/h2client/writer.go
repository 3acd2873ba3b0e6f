package h2client

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2wire"
	"slipway.dev/slipway/internal/edge/normalize"
)

// maxControls bounds the control frames that wait to be written. They are replies
// to frames of the endpoint, window updates and resets; an endpoint that reads never
// makes so many add up.
const maxControls = 1000

var _ h2wire.Owner = (*Conn)(nil)

// Taken implements [h2wire.Owner]: there is room for control frames and for streams.
func (c *Conn) Taken(by *eventloop.Task) {
	c.controls = 0
	c.wakeWaiting(by)
}

// WriteFailed implements [h2wire.Owner].
func (c *Conn) WriteFailed(err error) { c.closeWith(err) }

// wakeWaiting wakes the streams that wait for room. They wait again if it is taken.
func (c *Conn) wakeWaiting(by *eventloop.Task) {
	for s := range c.waitForRoom {
		s.writable.Wake(by)
	}
}

// mayAddControl counts a control frame that is about to be added, and reports whether it
// may be. It is called with mu held, as all of the following.
func (c *Conn) mayAddControl() bool {
	if c.over || c.flooded {
		return false
	}
	if c.controls == maxControls {
		c.flooded = true
		return false
	}
	c.controls++
	return true
}

// flush writes what waits, unless another does.
func (c *Conn) flush(by *eventloop.Task) error { return c.writer.Flush(by, c.streams.live > 1) }

// sendHead opens the stream at the endpoint. Streams have to be opened in the
// order of their identifiers, so the identifier is given when the frame is added.
func (c *Conn) sendHead(s *Stream, head *h1.Head, end bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.in.bodiless = head.MethodID == h1.MethodHead
	if _, err := s.awaitWindow(0); err != nil {
		return err
	}
	if c.over || c.goneAway {
		// That this side drains does not count: the stream was opened before.
		s.stopSending(ErrRefused, nil)
		s.refuse(nil)
		c.remove(s)
		return ErrRefused
	}
	s.id, s.send, s.sentAt = c.streams.next, c.send.Stream(), c.keepalive.now()
	c.streams.next += 2
	c.streams.open[s.id] = s
	for _, size := range c.settings.tableSizes {
		c.headers.encoder.SetMaxDynamicTableSize(size)
	}
	c.settings.tableSizes = nil
	c.headers.request(head, c.cfg.Secure)
	c.writer.Headers(s.id, c.headers.take(), end)
	s.ended = end
	return nil
}

// sendData sends a piece of the body, as the windows allow.
func (c *Conn) sendData(s *Stream, data []byte, end bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n, err := s.awaitWindow(min(len(data), frameSize))
		if err != nil {
			return err
		}
		s.send.Take(n)
		c.send.Take(n)
		last := n == len(data)
		c.writer.Data(s.id, data[:n], end && last)
		if last {
			if end {
				c.endSending(s)
			}
			return nil
		}
		data = data[n:]
	}
}

// sendTrailers ends the stream with trailers.
func (c *Conn) sendTrailers(s *Stream, trailers *h1.Fields) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := s.awaitWindow(0); err != nil {
		return err
	}
	for i := range trailers.Len() {
		c.headers.field(trailers, i)
	}
	c.writer.Headers(s.id, c.headers.take(), true)
	c.endSending(s)
	return nil
}

// endSending notes that the end of the request was sent.
func (c *Conn) endSending(s *Stream) {
	s.ended = true
	if s.peerEnded {
		c.remove(s)
	}
}

// headerEncoder encodes heads and trailers with HPACK.
type headerEncoder struct {
	encoder *hpack.Encoder
	block   bytes.Buffer
}

func (e *headerEncoder) init() { e.encoder = hpack.NewEncoder(&e.block) }

// take returns what was encoded. It holds until the next field.
func (e *headerEncoder) take() []byte {
	block := e.block.Bytes()
	e.block.Reset()
	return block
}

// request encodes the head of a request.
func (e *headerEncoder) request(head *h1.Head, secure bool) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	host, _ := head.Get(normalize.FieldHost)
	e.encode(":method", string(head.Method()), false)
	e.encode(":scheme", scheme, false)
	e.encode(":authority", string(host), false)
	e.encode(":path", string(head.Target()), false)
	for i := range head.Len() {
		switch id := head.ID(i); {
		case id == normalize.FieldHost, id == normalize.FieldContentLength, id == normalize.FieldTransferEncoding,
			id == normalize.FieldExpect, id.ConnectionOnly():
		default:
			e.field(&head.Fields, i)
		}
	}
	if head.Framing == h1.Fixed {
		e.encode("content-length", strconv.FormatInt(head.Length, 10), false)
	}
	if head.AcceptsTrailers {
		e.encode("te", "trailers", false)
	}
}

func (e *headerEncoder) field(fields *h1.Fields, i int) {
	id := fields.ID(i)
	name := id.String()
	if name == "" {
		name = strings.ToLower(string(fields.Name(i)))
	}
	// Credentials of one client must not share the dynamic table with the
	// requests of another, or the compressed length would reveal them (RFC 7541
	// section 7.1).
	secret := id == normalize.FieldAuthorization || id == normalize.FieldCookie
	e.encode(name, string(fields.Value(i)), secret)
}

// encode cannot fail: it writes to memory.
func (e *headerEncoder) encode(name, value string, secret bool) {
	_ = e.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: secret})
}
