package h1

import (
	"encoding/binary"

	"slipway.dev/slipway/internal/edge/normalize"
)

// Continue is the interim response that lets a client with Expect send its
// body. The edge sends it itself and does not forward Expect: a backend that
// responds early would leave a body in its connection for the next request.
const Continue = "HTTP/1.1 100 Continue\r\n\r\n"

// MaxInterim is how many interim responses (1xx) to read before a final one.
// A backend that sends more is broken.
const MaxInterim = 16

// RequestInfo is the part of a request that the parsing of its response depends on.
type RequestInfo struct {
	// Head reports that the method was HEAD: no body follows.
	Head bool
	// Upgrade is the protocol of the forwarded Upgrade, nil when there was none.
	Upgrade []byte
}

// ResponseHead is the head of a response from a backend. A backend is trusted not to
// attack, but not to frame correctly: ambiguous framing is refused here too.
type ResponseHead struct {
	Fields
	// Status is the code, 100 to 999.
	Status int
	// Minor is 0 for HTTP/1.0 and 1 for HTTP/1.1.
	Minor uint8
	// Reusable reports that the connection can carry another request once the body
	// has been read to its end.
	Reusable bool
	// Framing is how the body ends: NoBody, Fixed, Chunked or UntilClose.
	Framing Framing
	// Length is Content-Length, -1 when there is none. A response to HEAD has
	// one without a body.
	Length int64

	request RequestInfo
	reason  span
	named   []span
	at      lines
	lined   bool
}

// Reset prepares for the response to a request, and keeps the memory.
func (h *ResponseHead) Reset(info RequestInfo) {
	h.Fields.reset()
	*h = ResponseHead{Fields: h.Fields, named: h.named[:0], request: info}
}

// Reason is the reason phrase, which may be empty.
func (h *ResponseHead) Reason() []byte { return h.reason.of(h.buf) }

// Interim reports whether a final response is still to come. Pass interim ones
// on to clients of HTTP/1.1 only, and never 100: see [Continue].
func (h *ResponseHead) Interim() bool { return h.Status < 200 && h.Status != 101 }

// Parse reads a head from the start of buf, as [Head.Parse] does.
func (h *ResponseHead) Parse(buf []byte, limits *Limits) (n int, err error) {
	for {
		start := h.at.next
		end, err := h.at.cut(buf)
		if err != nil {
			return 0, err
		}
		if end < 0 && len(buf) < limits.HeadBytes {
			return 0, h.begin(buf)
		}
		if end < 0 || end+2 > limits.HeadBytes {
			return 0, ErrHeadTooLarge
		}
		h.at.next = end + 2
		switch {
		case !h.lined:
			h.lined = true
			err = h.statusLine(buf, start, end)
		case start == end:
			if err := h.finish(buf[:end+2]); err != nil {
				return 0, err
			}
			return end + 2, nil
		default:
			// Underscores are for backends to choose.
			err = h.add(buf, start, end, limits.Fields, true)
		}
		if err != nil {
			return 0, err
		}
	}
}

// begin refuses at once what does not start like HTTP/1: a backend that speaks
// another protocol may never send the end of a line.
func (h *ResponseHead) begin(buf []byte) error {
	if h.lined {
		return nil
	}
	n := min(len(buf), len("HTTP/1."))
	if string(buf[:n]) != "HTTP/1."[:n] {
		return ErrStatusLine
	}
	return nil
}

// statusLine reads "HTTP/1.1 200 OK". The reason may be missing, and so may
// the space before it.
func (h *ResponseHead) statusLine(buf []byte, start, end int) error {
	line := buf[start:end]
	if len(line) < len("HTTP/1.1 200") || line[8] != ' ' {
		return ErrStatusLine
	}
	switch binary.LittleEndian.Uint64(line) {
	case word(version11):
		h.Minor = 1
	case word(version10):
	default:
		return ErrStatusLine
	}
	for _, c := range line[9:12] {
		if c-'0' > 9 {
			return ErrStatusLine
		}
		h.Status = h.Status*10 + int(c-'0')
	}
	if h.Status < 100 || len(line) > 12 && line[12] != ' ' {
		return ErrStatusLine
	}
	if !cleanValue(line[12:]) {
		return controlError(line[12:])
	}
	h.reason = span{uint32(min(start+13, end)), uint32(end)}
	return nil
}

// finish judges the head as a whole, once its last line is in.
func (h *ResponseHead) finish(buf []byte) error {
	h.buf = buf
	c := control{named: h.named[:0]}
	if err := h.gather(&c); err != nil {
		return err
	}
	h.named = c.named
	framing, err := c.frame(h.Minor)
	if err != nil {
		return err
	}
	h.Length = -1
	if c.lengths > 0 {
		h.Length = c.length
	}
	if c.announce && framing == Chunked {
		if err := h.checkAnnounced(); err != nil {
			return err
		}
	}
	h.Reusable = !c.close && (h.Minor == 1 || c.keep)
	switch bodiless := h.Status < 200 || h.Status == 204; {
	case h.Status == 101:
		h.Framing, h.Reusable = NoBody, false
		return h.checkSwitch(&c)
	case bodiless:
		// Such a response has no body. If its headers announce one, the next bytes
		// on the connection are ambiguous.
		h.Framing = NoBody
		h.Reusable = h.Reusable && framing != Chunked && c.length == 0
	case h.request.Head || h.Status == 304:
		h.Framing = NoBody
	case framing == AsReceived:
		h.Framing, h.Reusable = UntilClose, false
	default:
		h.Framing = framing
	}
	return nil
}

// checkSwitch accepts 101 only for the protocol of the forwarded Upgrade.
func (h *ResponseHead) checkSwitch(c *control) error {
	if h.request.Upgrade == nil || !c.upgrade || c.upgrades != 1 {
		return ErrUnexpectedSwitch
	}
	if !normalize.SameField(c.protocol.of(h.buf), h.request.Upgrade) {
		return ErrUnexpectedSwitch
	}
	return nil
}
