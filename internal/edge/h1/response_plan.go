package h1

import (
	"strconv"

	"slipway.dev/slipway/internal/edge/normalize"
)

// ResponsePlan is how a response's head is written for a client.
type ResponsePlan struct {
	// Edits change headers.
	Edits []Edit
	// Close sends Connection: close.
	Close bool
	// Framing and Length are how the body will be sent. AsReceived sends it the way
	// it comes. See [ResponseFraming].
	Framing Framing
	Length  int64
	// Minor is the client's HTTP version: HTTP/1.0 needs Connection: keep-alive.
	Minor uint8
}

// notReturned are the fields that are dropped, or written by the edge.
var notReturned = func() (set fieldSet) {
	for i := range 256 {
		set[i] = normalize.Field(i).ConnectionOnly()
	}
	set[normalize.FieldContentLength] = true
	set[normalize.FieldTransferEncoding] = true
	set[normalize.FieldTrailer] = true
	return set
}()

// ResponseFraming returns how to send a response's body to the client of a
// request, and whether the connection to the client can stay open after it.
// A body of UntilClose framing is sent in chunks to clients of HTTP/1.1; to those of
// HTTP/1.0 it ends with their connection too.
func ResponseFraming(request *Head, response *ResponseHead) (framing Framing, reuse bool) {
	framing = response.Framing
	if request.Minor == 1 && framing == UntilClose {
		framing = Chunked
	}
	if request.Minor == 0 && framing == Chunked {
		framing = UntilClose
	}
	return framing, request.KeepAlive && framing != UntilClose
}

// AppendTo appends the head for the client.
func (p *ResponsePlan) AppendTo(dst []byte, h *ResponseHead) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(h.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, h.Reason()...)
	dst = append(dst, "\r\n"...)
	pass := headCopy{fields: &h.Fields, named: h.named, edits: p.Edits, drop: &notReturned}
	dst = pass.appendTo(dst)
	dst = p.appendFraming(dst, h)
	dst = AppendEdits(dst, p.Edits)
	switch {
	case h.Status == 101:
		dst = append(dst, "Connection: Upgrade\r\n"...)
		dst = appendAll(dst, &h.Fields, normalize.FieldUpgrade)
	case h.Interim():
		// The final response has the Connection header.
	case p.Close || p.framing(h) == UntilClose:
		dst = append(dst, "Connection: close\r\n"...)
	case p.Minor == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// Lines calls each with the header lines of the response, without those of its framing
// and of connections: what AppendTo writes, for a connection that takes no text. The
// strings share bytes with the head.
func (p *ResponsePlan) Lines(h *ResponseHead, each func(id normalize.Field, name, value string)) {
	pass := headCopy{fields: &h.Fields, named: h.named, edits: p.Edits, drop: &notReturned}
	hints := editHints(p.Edits)
	for i := range h.list {
		if pass.keeps(i, hints) {
			each(h.ID(i), normalize.View(h.Name(i)), normalize.View(h.Value(i)))
		}
	}
	for i := range p.Edits {
		if edit := &p.Edits[i]; adds(p.Edits, i) {
			each(edit.id, edit.name, edit.value)
		}
	}
}

func (p *ResponsePlan) framing(h *ResponseHead) Framing {
	if p.Framing == AsReceived {
		return h.Framing
	}
	return p.Framing
}

func (p *ResponsePlan) appendFraming(dst []byte, h *ResponseHead) []byte {
	framing, length := p.framing(h), p.Length
	if p.Framing == AsReceived {
		length = h.Length
	}
	switch {
	case h.Status < 200 || h.Status == 204:
		return dst
	case h.Framing == NoBody && h.Length >= 0:
		// To HEAD, and in 304, the length is that of a body not sent.
		return appendLength(dst, Fixed, h.Length)
	case framing == Chunked && h.Framing == Chunked:
		dst = appendAll(dst, &h.Fields, normalize.FieldTrailer)
	}
	return appendLength(dst, framing, length)
}
