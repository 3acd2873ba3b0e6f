// Package rawh2 is an HTTP/2 client that sends exactly the frames of a test,
// valid or not: header blocks of any bytes, frames in any order.
//
// Frames are written unchanged, and a read never blocks beyond the deadline of
// the connection. The package validates nothing; that is the task of the server
// under test.
package rawh2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Field is a header field or pseudo-header field.
type Field = hpack.HeaderField

// F returns a field.
func F(name, value string) Field { return Field{Name: name, Value: value} }

// frameSize is the default SETTINGS_MAX_FRAME_SIZE, which every server accepts
// (RFC 9113, section 6.5.2).
const frameSize = 16384

// Conn is an HTTP/2 connection. One goroutine may write while another reads:
// acknowledgements of the reader are written under the same lock. A caller that
// uses the Framer directly has to hold Writing, unless no other goroutine
// reads.
type Conn struct {
	net.Conn
	*http2.Framer
	// Writing is held for each frame, and for each header block as a whole: no
	// frame may come between HEADERS and its CONTINUATION frames.
	Writing sync.Mutex

	// encoder has the HPACK state of the connection and writes to block.
	block   bytes.Buffer
	encoder *hpack.Encoder
}

// New starts HTTP/2 on a connection: it sends the preface and the settings. It
// does not wait for the settings of the server.
func New(conn net.Conn, settings ...http2.Setting) (*Conn, error) {
	c := &Conn{Conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.encoder = hpack.NewEncoder(&c.block)
	// The Framer would reject the invalid frames that tests are about, and it
	// decodes header blocks of responses into fields.
	c.AllowIllegalWrites = true
	c.SetReuseFrames()
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.MaxHeaderListSize = 1 << 20
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	return c, c.WriteSettings(settings...)
}

// Dial connects to an address without TLS, with prior knowledge of HTTP/2. The
// deadline applies to the dial and to all reads and writes.
func Dial(address string, deadline time.Time, settings ...http2.Setting) (*Conn, error) {
	conn, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c, err := New(conn, settings...)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// Block returns the header block of fields, in the given order and spelling. It
// changes the HPACK state, so each block has to be sent in the order of the
// calls.
func (c *Conn) Block(fields ...Field) []byte {
	c.block.Reset()
	for _, f := range fields {
		if err := c.encoder.WriteField(f); err != nil {
			panic(err) // a buffer takes everything
		}
	}
	return bytes.Clone(c.block.Bytes())
}

// Headers sends fields as one HEADERS frame and as many CONTINUATION frames as
// the block needs.
func (c *Conn) Headers(stream uint32, end bool, fields ...Field) error {
	c.Writing.Lock()
	defer c.Writing.Unlock()
	block := c.Block(fields...)
	first := block[:min(len(block), frameSize)]
	block = block[len(first):]
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end, EndHeaders: len(block) == 0})
	for err == nil && len(block) > 0 {
		next := block[:min(len(block), frameSize)]
		block = block[len(next):]
		err = c.WriteContinuation(stream, len(block) == 0, next)
	}
	return err
}

// Data sends one DATA frame. It ignores flow control.
func (c *Conn) Data(stream uint32, end bool, data string) error {
	c.Writing.Lock()
	defer c.Writing.Unlock()
	return c.WriteData(stream, end, []byte(data))
}

// Reply is the response on a stream.
type Reply struct {
	Status string
	Header []Field
	Body   []byte
	// Reset is the error code of RST_STREAM, or nil.
	Reset *http2.ErrCode
	// Ended is set when the server has ended or reset the stream.
	Ended bool
}

// Replies are the responses of a connection, by stream.
type Replies struct {
	Streams map[uint32]*Reply
	// GoAway is the error code of GOAWAY, or nil.
	GoAway *http2.ErrCode
	// Closed is set when the connection ended.
	Closed bool
}

// Collect reads frames until the given streams have ended or the connection is
// closed. It acknowledges SETTINGS and PING, and returns connection-level flow
// control credit for DATA. Only a timeout or an invalid header block is an
// error: a closed connection may be the expected result.
func (c *Conn) Collect(until ...uint32) (*Replies, error) {
	r := &Replies{Streams: map[uint32]*Reply{}}
	for {
		frame, err := c.ReadFrame()
		var stream http2.StreamError
		switch {
		case errors.As(err, &stream):
			return r, fmt.Errorf("the server sent a header block that is wrong: %w", err)
		case err != nil && isTimeout(err):
			return r, err
		case err != nil:
			r.Closed = true
			return r, nil
		}
		if err := c.take(r, frame); err != nil {
			r.Closed = true
			return r, nil
		}
		if r.over(until) {
			return r, nil
		}
	}
}

// over reports whether all given streams have ended.
func (r *Replies) over(streams []uint32) bool {
	for _, id := range streams {
		if reply := r.Streams[id]; reply == nil || !reply.Ended {
			return false
		}
	}
	return true
}

// take records a frame and writes the response that the protocol requires. An
// error means that the connection is closed.
func (c *Conn) take(r *Replies, frame http2.Frame) error {
	c.Writing.Lock()
	defer c.Writing.Unlock()
	id := frame.Header().StreamID
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		code := f.ErrCode
		r.GoAway = &code
	case *http2.RSTStreamFrame:
		code := f.ErrCode
		r.at(id).Reset, r.at(id).Ended = &code, true
	case *http2.MetaHeadersFrame:
		reply := r.at(id)
		// A final status replaces an interim one (1xx); trailers have none and
		// leave it as it is.
		if status := f.PseudoValue("status"); status >= "200" || reply.Status == "" {
			reply.Status = status
		}
		reply.Header = append(reply.Header, f.RegularFields()...)
		reply.Ended = reply.Ended || f.StreamEnded()
	case *http2.DataFrame:
		reply := r.at(id)
		reply.Body = append(reply.Body, f.Data()...)
		reply.Ended = reply.Ended || f.StreamEnded()
		if n := uint32(len(f.Data())); n > 0 {
			return c.WriteWindowUpdate(0, n)
		}
	}
	return nil
}

// at returns the response of a stream, which it creates on the first frame.
func (r *Replies) at(stream uint32) *Reply {
	reply := r.Streams[stream]
	if reply == nil {
		reply = &Reply{}
		r.Streams[stream] = reply
	}
	return reply
}

// isTimeout reports whether an error is an expired deadline.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
