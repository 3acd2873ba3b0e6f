package h1

import (
	"encoding/binary"

	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
)

// Method is a request method that the edge gives a meaning to.
type Method uint8

// The methods. MethodOther is every other one, WebDAV's for example.
const (
	MethodOther Method = iota
	MethodGet
	MethodHead
	MethodPost
	MethodPut
	MethodDelete
	MethodOptions
	MethodPatch
	MethodTrace
)

const (
	version10 = "HTTP/1.0"
	version11 = "HTTP/1.1"
	// maxMethod bounds methods; the longest registered one has 16 letters.
	maxMethod = 32
)

// Head is the head of a request. The zero value is ready for Parse; reusing a
// Head after Reset makes parsing free of allocations.
type Head struct {
	Fields
	// URI is the canonical reading of the target and Host. Match, authorise
	// and forward this, never the raw bytes.
	URI normalize.URI
	// MethodID identifies the common methods without comparing bytes.
	MethodID Method
	// Minor is 0 for HTTP/1.0 and 1 for HTTP/1.1.
	Minor uint8
	// KeepAlive reports that the client keeps the connection open.
	KeepAlive bool
	// ExpectContinue reports that the client waits for 100 Continue before it sends
	// the body. Send [Continue] once the body is wanted.
	ExpectContinue bool
	// AcceptsTrailers reports that the client accepts trailers.
	AcceptsTrailers bool
	// Passed reports that there is a CDN-Loop: the request has passed proxies that
	// add one, perhaps this edge itself.
	Passed bool
	// Framing is how the body ends: NoBody, Fixed or Chunked.
	Framing Framing
	// Length is the length of a body that is Fixed.
	Length int64

	method, target, upgrade span
	named                   []span
	at                      lines
	begun, lined            bool
}

// Reset clears the Head but keeps the memory.
func (h *Head) Reset() {
	h.Fields.reset()
	*h = Head{Fields: h.Fields, URI: h.URI, named: h.named[:0]}
}

// Method is the method as it was sent.
func (h *Head) Method() []byte { return h.method.of(h.buf) }

// Target is the request target as it was sent, for logs. Use URI for anything
// else.
func (h *Head) Target() []byte { return h.target.of(h.buf) }

// Upgrade is the protocol of the client's Upgrade, nil when there is none that the
// edge would forward. See [ForwardPlan.Upgrade].
func (h *Head) Upgrade() []byte {
	if h.upgrade.stop == 0 {
		return nil
	}
	return h.upgrade.of(h.buf)
}

// Parse reads a head from the start of buf. It returns its length once it is
// complete, and 0 when more bytes are needed: call it again with the same
// bytes and more behind them, at the same or another address. The Head refers
// to buf until Reset. After an error only Reset is of use.
func (h *Head) Parse(buf []byte, limits *Limits) (n int, err error) {
	if !h.begun {
		if more, err := h.begin(buf); more || err != nil {
			return 0, err
		}
	}
	for {
		start := h.at.next
		end, err := h.at.cut(buf)
		if err != nil {
			return 0, err
		}
		if end < 0 {
			return 0, h.checkSize(len(buf), limits)
		}
		if end+2 > limits.HeadBytes {
			return 0, h.checkSize(end+2, limits)
		}
		h.at.next = end + 2
		switch {
		case !h.lined:
			h.lined = true
			err = h.requestLine(buf, start, end, limits)
		case start == end:
			if err := h.finish(buf[:end+2], limits); err != nil {
				return 0, err
			}
			return end + 2, nil
		default:
			err = h.add(buf, start, end, limits.Fields, limits.Underscores)
		}
		if err != nil {
			return 0, err
		}
	}
}

// begin checks the first bytes: one empty line is skipped, as RFC 9112 section 2.2
// recommends, and a byte that cannot start a method is refused at once, so that a
// TLS handshake on a plain port need not wait for a line to end.
func (h *Head) begin(buf []byte) (more bool, err error) {
	skip := 0
	if len(buf) > 0 && buf[0] == '\r' {
		if len(buf) == 1 {
			return true, nil
		}
		if buf[1] != '\n' {
			return false, ErrBareCR
		}
		skip = 2
	}
	if len(buf) == skip {
		return true, nil
	}
	switch c := buf[skip]; {
	case c == '\n':
		return false, ErrBareLF
	case c == ' ' || c == '\t' || c == '\r':
		return false, ErrRequestLine
	case c-'A' >= 26:
		return false, ErrMethod
	}
	h.begun, h.at = true, lines{next: skip, seen: skip}
	return false, nil
}

// checkSize refuses a head that has size bytes and is not complete, if it is over a
// limit.
func (h *Head) checkSize(size int, limits *Limits) error {
	if !h.lined && size-h.at.next > limits.TargetBytes+maxMethod+len(version11)+4 {
		return ErrTargetTooLong
	}
	if size >= limits.HeadBytes {
		return ErrHeadTooLarge
	}
	return nil
}

// requestLine parses "method target version". The version is compared as one word of
// eight bytes.
func (h *Head) requestLine(buf []byte, start, end int, limits *Limits) error {
	line := buf[start:end]
	space := 0
	for space < len(line) && (line[space]-'A' < 26 || line[space] == '-' || line[space] == '_') {
		space++
	}
	if space == 0 || space > maxMethod || space == len(line) || line[space] != ' ' {
		return methodError(line)
	}
	method := line[:space]
	if string(method) == "CONNECT" {
		return ErrConnect
	}
	h.method = span{uint32(start), uint32(start + space)}
	h.MethodID = methodOf(method)
	tail := len(line) - len(version11) - 1 // the space before the version
	if tail <= space || line[tail] != ' ' {
		return versionError(line[space+1:])
	}
	switch binary.LittleEndian.Uint64(line[tail+1:]) {
	case word(version11):
		h.Minor = 1
	case word(version10):
	default:
		return versionError(line[space+1:])
	}
	if tail == space+1 {
		return ErrRequestLine
	}
	target := line[space+1 : tail]
	if len(target) > limits.TargetBytes {
		return ErrTargetTooLong
	}
	h.target = span{uint32(start + space + 1), uint32(start + tail)}
	return nil
}

// word is the first eight bytes of s as a number, to compare them in one go.
func word(s string) uint64 { return binary.LittleEndian.Uint64(normalize.Bytes(s)) }

func methodOf(method []byte) Method {
	switch string(method) {
	case "GET":
		return MethodGet
	case "HEAD":
		return MethodHead
	case "POST":
		return MethodPost
	case "PUT":
		return MethodPut
	case "DELETE":
		return MethodDelete
	case "OPTIONS":
		return MethodOptions
	case "PATCH":
		return MethodPatch
	case "TRACE":
		return MethodTrace
	}
	return MethodOther
}

// methodError returns why a request line does not start with a method and a space.
func methodError(line []byte) *httperr.Error {
	for i, c := range line {
		switch {
		case c == '\t' || c == ' ':
			if i == 0 || c == '\t' {
				return ErrRequestLine
			}
			return ErrMethod
		case c < 0x20 || c == 0x7f:
			return controlError(line)
		case c-'A' >= 26 && c != '-' && c != '_':
			return ErrMethod
		}
	}
	return ErrRequestLine
}

// lineError returns the error of a byte that is not allowed in a request line.
func lineError(line []byte) *httperr.Error {
	for _, c := range line {
		if c == '\t' || c == ' ' {
			return ErrRequestLine
		}
	}
	return controlError(line)
}

// versionError returns the error at the end of a request line: an unsupported
// version, or none.
func versionError(rest []byte) *httperr.Error {
	for _, c := range rest {
		if c != ' ' && (c < 0x20 || c == 0x7f) {
			return lineError(rest)
		}
	}
	n := len(rest)
	if n >= 9 && rest[n-9] == ' ' && string(rest[n-8:n-3]) == "HTTP/" &&
		rest[n-3]-'0' < 10 && rest[n-2] == '.' && rest[n-1]-'0' < 10 {
		return ErrVersionUnsupported
	}
	return ErrVersion
}
