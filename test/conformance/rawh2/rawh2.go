// Package rawh2 is a client of HTTP/2 that says exactly what a test wants it
// to say, right or wrong: header blocks of any bytes, frames in any order.
//
// It promises that what is written goes out as it was given, and that reading
// never waits longer than the deadline. It refuses nothing; that is for the
// server under test.
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

// Field is a header field, pseudo or not.
type Field = hpack.HeaderField

// F is a field.
func F(name, value string) Field { return Field{Name: name, Value: value} }

// frameSize is what every server takes.
const frameSize = 16384

// Conn is a connection of HTTP/2. One goroutine may write while another reads:
// what reading answers is written under the same lock. Whoever uses the Framer
// itself holds Writing meanwhile, unless nobody reads.
type Conn struct {
	net.Conn
	*http2.Framer
	// Writing is held for each frame that is written, and for each block of
	// headers as a whole.
	Writing sync.Mutex

	block   bytes.Buffer
	encoder *hpack.Encoder
}

// New begins HTTP/2 on a connection: it sends the preface and the settings.
func New(conn net.Conn, settings ...http2.Setting) (*Conn, error) {
	c := &Conn{Conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.encoder = hpack.NewEncoder(&c.block)
	c.AllowIllegalWrites = true
	c.SetReuseFrames()
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.MaxHeaderListSize = 1 << 20
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	return c, c.WriteSettings(settings...)
}

// Dial connects to an address without encryption, with a deadline for all that
// is done on the connection.
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

// Block is the header block of fields, in the order and the spelling given.
func (c *Conn) Block(fields ...Field) []byte {
	c.block.Reset()
	for _, f := range fields {
		if err := c.encoder.WriteField(f); err != nil {
			panic(err) // a buffer takes everything
		}
	}
	return bytes.Clone(c.block.Bytes())
}

// Headers sends fields as one block, in as many frames as it needs.
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

// Data sends a DATA frame.
func (c *Conn) Data(stream uint32, end bool, data string) error {
	c.Writing.Lock()
	defer c.Writing.Unlock()
	return c.WriteData(stream, end, []byte(data))
}

// Reply is what came back on a stream.
type Reply struct {
	Status string
	Header []Field
	Body   []byte
	// Reset is the code with which the server ended the stream, if it did.
	Reset *http2.ErrCode
	// Ended says that the stream is over.
	Ended bool
}

// Replies are those of a connection, by stream.
type Replies struct {
	Streams map[uint32]*Reply
	// GoAway is the code with which the server ended the connection, if it did.
	GoAway *http2.ErrCode
	// Closed says that the connection ended.
	Closed bool
}

// Collect reads until these streams are over, or the connection is. It
// acknowledges settings and gives credit for what it reads.
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

func (r *Replies) over(streams []uint32) bool {
	for _, id := range streams {
		if reply := r.Streams[id]; reply == nil || !reply.Ended {
			return false
		}
	}
	return true
}

// take notes what a frame says. An error means that the connection is gone.
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

func (r *Replies) at(stream uint32) *Reply {
	reply := r.Streams[stream]
	if reply == nil {
		reply = &Reply{}
		r.Streams[stream] = reply
	}
	return reply
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
