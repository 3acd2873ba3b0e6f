package h1

import (
	"bytes"
	"cmp"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
)

// Framing is how the end of a body is found (RFC 9112, 6.3).
type Framing uint8

const (
	// AsReceived, in a plan, keeps the framing that the message came with.
	AsReceived Framing = iota
	// NoBody: the message ends with its head.
	NoBody
	// Fixed: the body has a length known in advance, which may be 0.
	Fixed
	// Chunked: the body comes in chunks, and then trailers.
	Chunked
	// UntilClose: the body of a response ends with the connection.
	UntilClose
)

// maxOptions bounds the header names that Connection can list: each is
// compared with every header.
const maxOptions = 16

// control is the combined meaning of the headers about connection and body.
type control struct {
	host     []byte
	hosts    int
	length   int64
	lengths  int
	codings  int
	chunked  bool // the only coding is chunked
	close    bool
	keep     bool
	upgrade  bool // Connection has upgrade
	upgrades int
	protocol span // of the last Upgrade
	trailers bool // TE has trailers
	announce bool // there is a Trailer
	passed   bool // there is a CDN-Loop
	named    []span
}

// gather reads the headers about framing and connection, in one pass.
func (f *Fields) gather(c *control) error {
	for i := range f.list {
		line := &f.list[i]
		if line.id == normalize.FieldOther || line.id > normalize.FieldUpgrade {
			continue
		}
		value := f.buf[line.value:line.stop]
		switch line.id {
		case normalize.FieldHost:
			c.host = value
			c.hosts++
		case normalize.FieldContentLength:
			c.lengths++
			length, ok := parseLength(value)
			if !ok {
				return ErrLength
			}
			c.length = length
		case normalize.FieldTransferEncoding:
			c.codings++
			c.chunked = c.codings == 1 && normalize.EqualFold(value, "chunked")
		case normalize.FieldConnection:
			if err := f.options(c, line.value, value); err != nil {
				return err
			}
		case normalize.FieldUpgrade:
			c.upgrades++
			c.protocol = span{line.value, line.stop}
		case normalize.FieldTE:
			for element, rest := nextElement(value); ; element, rest = nextElement(rest) {
				c.trailers = c.trailers || normalize.EqualFold(element, "trailers")
				if rest == nil {
					break
				}
			}
		case normalize.FieldTrailer:
			c.announce = true
		case normalize.FieldCDNLoop:
			c.passed = true
		}
	}
	return nil
}

// options reads a Connection header. Names that a client may not have removed are
// ignored: the edge decides about those.
func (f *Fields) options(c *control, at uint32, list []byte) error {
	base := list
	for {
		option, rest := nextElement(list)
		switch {
		case len(option) == 0:
			// Lists may have empty elements.
		case normalize.EqualFold(option, "close"):
			c.close = true
		case normalize.EqualFold(option, "keep-alive"):
			c.keep = true
		case normalize.EqualFold(option, "upgrade"):
			c.upgrade = true
		case !token(option) || len(c.named) == maxOptions:
			return ErrConnectionList
		default:
			if id := normalize.FieldOf(option); !id.Settled() && !id.ConnectionOnly() {
				// Both end where the buffer ends, so the difference of their
				// capacities is the distance of their starts.
				start := at + uint32(cap(base)-cap(option))
				c.named = append(c.named, span{start, start + uint32(len(option))})
			}
		}
		if rest == nil {
			return nil
		}
		list = rest
	}
}

// parseLength reads a Content-Length: digits only, and no more than fit.
func parseLength(value []byte) (int64, bool) {
	if len(value) == 0 || len(value) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range value {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return int64(n), n <= 1<<63-1
}

// frame decides how a body ends that both kinds of messages can have: Fixed,
// Chunked, or AsReceived when neither length is given.
func (c *control) frame(minor uint8) (Framing, error) {
	switch {
	case c.codings > 0 && minor == 0:
		return 0, ErrCodingVersion
	case c.codings > 0 && c.lengths > 0:
		return 0, ErrTwoLengths
	case c.codings > 0 && !c.chunked:
		return 0, ErrCoding
	case c.lengths > 1:
		return 0, ErrLengthTwice
	case c.codings > 0:
		return Chunked, nil
	case c.lengths > 0:
		return Fixed, nil
	}
	return AsReceived, nil
}

// checkAnnounced refuses a Trailer that names what may not be a trailer.
func (f *Fields) checkAnnounced() error {
	for i := range f.list {
		if f.list[i].id != normalize.FieldTrailer {
			continue
		}
		for element, rest := nextElement(f.Value(i)); ; element, rest = nextElement(rest) {
			if normalize.FieldOf(element).HeadOnly() {
				return ErrTrailerName
			}
			if rest == nil {
				break
			}
		}
	}
	return nil
}

// finish validates the head as a whole, once its last line has come.
func (h *Head) finish(buf []byte, limits *Limits) error {
	h.buf = buf
	c := control{named: h.named[:0]}
	if err := h.gather(&c); err != nil {
		return err
	}
	h.named = c.named
	if c.hosts > 1 {
		return ErrHostTwice
	}
	if c.hosts == 0 && h.Minor == 1 {
		return ErrNoHost
	}
	framing, err := c.frame(h.Minor)
	if err != nil {
		return err
	}
	h.Framing, h.Length = framing, c.length
	if framing == AsReceived {
		h.Framing = NoBody
	}
	if c.announce && framing == Chunked {
		if err := h.checkAnnounced(); err != nil {
			return err
		}
	}
	h.KeepAlive = !c.close && (h.Minor == 1 || c.keep)
	h.AcceptsTrailers = c.trailers && h.Minor == 1
	h.Passed = c.passed
	if c.upgrade && c.upgrades == 1 && h.Minor == 1 && forwardable(c.protocol.of(buf), limits.Upgrades) {
		h.upgrade = c.protocol
	}
	if err := h.expect(); err != nil {
		return err
	}
	err = h.URI.Resolve(normalize.Raw{
		Target:       h.Target(),
		Host:         c.host,
		Options:      h.MethodID == MethodOptions,
		HostOptional: c.hosts == 0,
	}, limits.Hazards)
	if err != nil && (bytes.ContainsAny(h.Target(), " \t") || !cleanValue(h.Target())) {
		// A blank or control character breaks the line, not the target.
		return lineError(h.Target())
	}
	return err
}

// expect reads Expect. HTTP/1.0 has none, and without a body there is nothing
// to wait for.
func (h *Head) expect() error {
	for i := range h.list {
		if h.list[i].id != normalize.FieldExpect || h.Minor == 0 {
			continue
		}
		if !normalize.EqualFold(h.Value(i), "100-continue") {
			return ErrExpectation
		}
		h.ExpectContinue = h.Framing == Chunked || h.Framing == Fixed && h.Length > 0
	}
	return nil
}

// forwardable reports whether protocol is one that the edge passes on in an
// Upgrade: exactly one of those that are allowed. A backend that switches to h2c,
// for example, takes further requests unseen.
func forwardable(protocol []byte, allowed string) bool {
	for name := range strings.SplitSeq(cmp.Or(allowed, "websocket"), ",") {
		if normalize.EqualFold(protocol, name) {
			return true
		}
	}
	return false
}
