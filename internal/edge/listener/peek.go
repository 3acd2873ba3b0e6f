package listener

import (
	"errors"
	"io"
	"time"
)

// Protocol is the protocol of a client, as its first bytes show it.
type Protocol uint8

// The protocols.
const (
	ProtocolOther Protocol = iota // none of the others
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

// Peeked is what the first bytes of a connection show.
type Peeked struct {
	Protocol Protocol
	// ServerName is the name in a ClientHello as the client wrote it, empty
	// when there is none. It has many spellings; canonicalise it before
	// comparing it.
	ServerName string
}

// http2Preface is the start of an HTTP/2 connection (RFC 9113 section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Peek reads the first bytes ahead: the next Read returns them again. It waits
// for as many as it needs to decide, and for a whole ClientHello, within the
// connection's read deadline.
//
// When a ClientHello cannot be parsed, the protocol is ProtocolTLS and the
// error [ErrHelloMalformed] or [ErrHelloTooLarge]. Any other error is that of
// the connection.
func (c *Conn) Peek() (Peeked, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peeking.Store(true)
	defer c.peeking.Store(false)
	if until := c.peekDeadline.Load(); until != nil {
		_ = c.socket().SetReadDeadline(*until) // an error shows with the read
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

// SetPeekDeadline shortens the wait of a running or later Peek for a client
// that has not sent its first bytes. It has no effect after Peek.
func (c *Conn) SetPeekDeadline(until time.Time) {
	c.peekDeadline.Store(&until)
	if c.peeking.Load() {
		_ = c.socket().SetReadDeadline(until) // as above
	}
}

// classify detects the protocol by the first bytes. It reports false when there
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
