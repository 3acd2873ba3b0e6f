package listener

import (
	"errors"
	"io"
	"time"
)

// Protocol is what a client speaks, as far as its first bytes tell.
type Protocol uint8

// The protocols.
const (
	ProtocolOther Protocol = iota // nothing that is known here
	ProtocolTLS
	ProtocolHTTP1
	ProtocolHTTP2 // HTTP/2 with prior knowledge, without TLS
)

// String is the protocol for logs.
func (p Protocol) String() string {
	switch p {
	case ProtocolTLS:
		return "tls"
	case ProtocolHTTP1:
		return "http/1.1"
	case ProtocolHTTP2:
		return "h2"
	}
	return "other"
}

// Peeked is what the first bytes of a connection say.
type Peeked struct {
	Protocol Protocol
	// ServerName is the name in a ClientHello as the client wrote it, empty
	// when there is none. It has many spellings; give it its canonical one
	// before comparing it with anything.
	ServerName string
}

// http2Preface is what an HTTP/2 client sends first (RFC 9113, section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Peek looks at the first bytes without taking them: they are read again by
// the next Read. It waits for as many as it needs to decide, and for a whole
// ClientHello, within the connection's read deadline.
//
// When a ClientHello cannot be read, the protocol is ProtocolTLS and the error
// [ErrHelloMalformed] or [ErrHelloTooLarge]. Any other error is the
// connection's own.
func (c *Conn) Peek() (Peeked, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peeking.Store(true)
	defer c.peeking.Store(false)
	if until := c.peekDeadline.Load(); until != nil {
		_ = c.tcp.SetReadDeadline(*until) // a connection that is gone shows with the read
	}
	var scanner helloScanner
	for {
		protocol, decided := classify(c.ahead.bytes())
		switch {
		case decided && protocol != ProtocolTLS:
			return Peeked{Protocol: protocol}, nil
		case decided:
			err := scanner.scan(c.ahead.bytes())
			if err == nil {
				name, err := helloServerName(scanner.message(c.ahead.bytes()))
				return Peeked{Protocol: ProtocolTLS, ServerName: name}, err
			}
			if !errors.Is(err, errMore) {
				return Peeked{Protocol: ProtocolTLS}, err
			}
		}
		if err := c.fill(maxLookahead); err != nil {
			if errors.Is(err, io.EOF) && len(c.ahead.bytes()) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return Peeked{Protocol: protocol}, err
		}
	}
}

// SetPeekDeadline gives a client that has not said what it wants until a moment to do so.
// It shortens the wait of a Peek that runs or comes, and of nothing else.
func (c *Conn) SetPeekDeadline(until time.Time) {
	c.peekDeadline.Store(&until)
	if c.peeking.Load() {
		_ = c.tcp.SetReadDeadline(until) // as above
	}
}

// classify tells protocols apart by their first bytes. It is false when there
// are too few of them.
func classify(b []byte) (Protocol, bool) {
	if len(b) == 0 {
		return ProtocolOther, false
	}
	switch {
	case b[0] == tlsHandshake:
		return ProtocolTLS, true
	case startsLike(b, http2Preface):
		if len(b) < len(http2Preface) {
			return ProtocolOther, false
		}
		return ProtocolHTTP2, true
	case isMethodByte(b[0]):
		return ProtocolHTTP1, true
	}
	return ProtocolOther, true
}

// isMethodByte reports whether a request line can start with c: all methods in
// use start with a letter.
func isMethodByte(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }
