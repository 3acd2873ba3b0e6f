package h1

import (
	"errors"
	"strconv"

	"slipway.dev/slipway/internal/edge/normalize"
)

// Peer is the identity of the client that is forwarded to backends. An empty value
// sends no header. X-Forwarded-Host is the client's Host.
type Peer struct {
	// Trusted reports that the client is a proxy whose X-Forwarded headers are
	// believed: X-Forwarded-For is appended to, and the others are kept where they
	// are present. From other clients none of them survives, in any spelling.
	Trusted bool
	// Address is the client's IP address: X-Forwarded-For and X-Real-Ip.
	Address string
	// Proto is the scheme the client used: X-Forwarded-Proto.
	Proto string
	// Port is the port the client came to: X-Forwarded-Port.
	Port string
	// Server is the name of this edge: X-Forwarded-Server.
	Server string
	// Hop is the identity of this edge in CDN-Loop, by which it detects that a
	// request comes back. Those of other proxies are kept.
	Hop string
}

// ForwardPlan is how a request's head is written for a backend. The zero value passes
// the request on as it came, without the headers about the client's own connection.
type ForwardPlan struct {
	// Target is the request target, canonical, in origin form. Nil forwards the
	// client's.
	Target []byte
	// Host replaces the client's Host.
	Host string
	// Peer is who the request comes from.
	Peer Peer
	// Edits change headers, the Peer's included.
	Edits []Edit
	// Upgrade forwards the client's Upgrade, if the Head has one. The body of the
	// response is then a tunnel, but only after 101: with any other status the
	// backend has not switched.
	Upgrade bool
	// Close sends Connection: close, so that the backend closes after its response.
	Close bool
	// Framing and Length are how the body will be sent. AsReceived sends it the way
	// it comes.
	Framing Framing
	Length  int64
}

// errTarget is an internal error: paths are normalised before they get here.
var errTarget = errors.New("the target to forward to is not a canonical path")

// notForwarded are the fields that are dropped, or written by the edge.
var notForwarded = func() (set fieldSet) {
	for i := range 256 {
		set[i] = normalize.Field(i).ConnectionOnly() || normalize.Field(i).Identity()
	}
	for _, id := range []normalize.Field{
		normalize.FieldHost, normalize.FieldContentLength, normalize.FieldTransferEncoding,
		normalize.FieldExpect, normalize.FieldTrailer,
	} {
		set[id] = true
	}
	return set
}()

// notForwardedTrusted keeps the identity headers of a trusted peer. X-Forwarded-For
// is appended to, and X-Forwarded-Server is always the edge's own.
var notForwardedTrusted = func() fieldSet {
	set := notForwarded
	for _, id := range []normalize.Field{
		normalize.FieldForwarded, normalize.FieldXForwardedHost, normalize.FieldXForwardedPort,
		normalize.FieldXForwardedProto, normalize.FieldXRealIP, normalize.FieldIdentityOther,
	} {
		set[id] = false
	}
	return set
}()

// AppendTo appends the head for the backend. It fails only on a Target or Host
// that would break the request line.
func (p *ForwardPlan) AppendTo(dst []byte, h *Head) ([]byte, error) {
	dst = append(dst, h.Method()...)
	dst = append(dst, ' ')
	if p.Target == nil {
		dst = h.URI.AppendTarget(dst)
	} else {
		if !printable(p.Target) {
			return nil, errTarget
		}
		dst = append(dst, p.Target...)
	}
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	if p.Host == "" {
		dst = append(dst, h.URI.Authority...)
	} else {
		if !printable(normalize.Bytes(p.Host)) {
			return nil, errTarget
		}
		dst = append(dst, p.Host...)
	}
	dst = append(dst, "\r\n"...)
	drop := &notForwarded
	if p.Peer.Trusted {
		drop = &notForwardedTrusted
	}
	pass := headCopy{fields: &h.Fields, named: h.named, edits: p.Edits, drop: drop}
	dst = pass.appendTo(dst)
	dst = p.appendFraming(dst, h)
	dst = p.appendPeer(dst, h)
	dst = AppendEdits(dst, p.Edits)
	dst = p.appendConnection(dst, h)
	return append(dst, "\r\n"...), nil
}

// appendFraming writes the body's length in its one spelling.
func (p *ForwardPlan) appendFraming(dst []byte, h *Head) []byte {
	framing, length := p.Framing, p.Length
	if framing == AsReceived {
		framing, length = h.Framing, h.Length
	}
	dst = appendLength(dst, framing, length)
	if framing == Chunked && h.Framing == Chunked {
		dst = appendAll(dst, &h.Fields, normalize.FieldTrailer)
	}
	return dst
}

func appendLength(dst []byte, framing Framing, length int64) []byte {
	switch framing {
	case Fixed:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, length, 10)
		dst = append(dst, "\r\n"...)
	case Chunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	return dst
}

// appendAll appends every line of a field.
func appendAll(dst []byte, f *Fields, id normalize.Field) []byte {
	for i := range f.list {
		if f.list[i].id == id {
			dst = f.appendLine(dst, i)
		}
	}
	return dst
}

// appendPeer writes who the client is. An edit of such a header wins.
func (p *ForwardPlan) appendPeer(dst []byte, h *Head) []byte {
	peer := &p.Peer
	switch edited := sets(p.Edits, normalize.FieldXForwardedFor); {
	case edited:
	case peer.Address == "" && peer.Trusted:
		dst = appendAll(dst, &h.Fields, normalize.FieldXForwardedFor)
	case peer.Address != "":
		dst = append(dst, "X-Forwarded-For: "...)
		if peer.Trusted {
			dst = appendJoined(dst, &h.Fields, normalize.FieldXForwardedFor)
		}
		dst = append(dst, peer.Address...)
		dst = append(dst, "\r\n"...)
	}
	if p.states(h, normalize.FieldXRealIP, peer.Address) {
		dst = appendField(dst, "X-Real-Ip", peer.Address)
	}
	if p.states(h, normalize.FieldXForwardedHost, normalize.View(h.URI.Authority)) {
		dst = appendField(dst, "X-Forwarded-Host", normalize.View(h.URI.Authority))
	}
	if p.states(h, normalize.FieldXForwardedProto, peer.Proto) {
		dst = appendField(dst, "X-Forwarded-Proto", peer.Proto)
	}
	if p.states(h, normalize.FieldXForwardedPort, peer.Port) {
		dst = appendField(dst, "X-Forwarded-Port", peer.Port)
	}
	if peer.Server != "" && !sets(p.Edits, normalize.FieldXForwardedServer) {
		dst = appendField(dst, "X-Forwarded-Server", peer.Server)
	}
	if peer.Hop != "" {
		dst = appendField(dst, "CDN-Loop", peer.Hop)
	}
	return dst
}

// states reports whether the edge writes an identity field itself: it has a value,
// no edit sets the field and no trusted peer has sent it.
func (p *ForwardPlan) states(h *Head, id normalize.Field, value string) bool {
	if value == "" || len(p.Edits) > 0 && sets(p.Edits, id) {
		return false
	}
	if !p.Peer.Trusted {
		return true
	}
	_, present := h.Get(id)
	return !present
}

// appendJoined appends the values of all lines of a field, each with a comma
// behind it.
func appendJoined(dst []byte, f *Fields, id normalize.Field) []byte {
	for i := range f.list {
		if f.list[i].id == id && f.list[i].value < f.list[i].stop {
			dst = append(dst, f.Value(i)...)
			dst = append(dst, ", "...)
		}
	}
	return dst
}

// appendConnection writes what concerns the connection to the backend.
func (p *ForwardPlan) appendConnection(dst []byte, h *Head) []byte {
	if h.AcceptsTrailers {
		dst = append(dst, "TE: trailers\r\n"...)
	}
	switch {
	case p.Upgrade && h.Upgrade() != nil:
		dst = append(dst, "Connection: Upgrade\r\nUpgrade: "...)
		dst = append(dst, h.Upgrade()...)
		dst = append(dst, "\r\n"...)
	case p.Close && h.AcceptsTrailers:
		dst = append(dst, "Connection: close, TE\r\n"...)
	case p.Close:
		dst = append(dst, "Connection: close\r\n"...)
	case h.AcceptsTrailers:
		dst = append(dst, "Connection: TE\r\n"...)
	}
	return dst
}

// RequestInfo returns the context in which the response is parsed.
func (p *ForwardPlan) RequestInfo(h *Head) RequestInfo {
	request := RequestInfo{Head: h.MethodID == MethodHead}
	if p.Upgrade {
		request.Upgrade = h.Upgrade()
	}
	return request
}

// printable reports whether b has visible ASCII characters only.
func printable(b []byte) bool {
	for _, c := range b {
		if c-0x21 > 0x7e-0x21 {
			return false
		}
	}
	return len(b) > 0
}
