package h2client

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// onHeaders handles the head of a response, an interim one, or trailers. It is called with
// mu held, by the reader, as are onData and onEnd.
func (s *Stream) onHeaders(f *http2.MetaHeadersFrame) error {
	if s.in.Over || s.closed {
		return nil
	}
	defer s.readable.Wake(s.conn.task)
	if s.in.headed {
		return s.in.addTrailers(f, &s.conn.cfg.Limits)
	}
	return s.in.addHead(f, &s.conn.cfg.Limits)
}

// addHead adds the head of a response as text.
func (in *responseBuffer) addHead(f *http2.MetaHeadersFrame, limits *h1.Limits) error {
	status, ok := parseStatus(f.PseudoValue("status"))
	switch {
	case f.Truncated:
		return h1.ErrHeadTooLarge
	case len(f.RegularFields()) > limits.Fields:
		return h1.ErrTooManyFields
	case !ok || status == http.StatusSwitchingProtocols || len(f.PseudoFields()) != 1:
		return errStatus
	}
	if status < 200 {
		return in.addInterim(f, status, limits)
	}
	head := response{status: status}
	if err := head.read(f.RegularFields()); err != nil {
		return err
	}
	framing := head.framing(in.bodiless, f.StreamEnded())
	text := head.text(framing, f.RegularFields())
	if len(text) > limits.HeadBytes {
		return h1.ErrHeadTooLarge
	}
	in.Text = append(in.Text, text...)
	in.begun, in.headed = true, true
	switch framing {
	case h1.NoBody:
		in.bodiless = true
	case h1.Chunked:
		in.Chunked = true
		in.Tail = []byte("0\r\n\r\n")
	}
	in.left = head.length
	return nil
}

// addInterim adds an interim response. The reader bounds how many it reads;
// here they are bounded because they are buffered.
func (in *responseBuffer) addInterim(f *http2.MetaHeadersFrame, status int, limits *h1.Limits) error {
	if in.interims++; in.interims > h1.MaxInterim {
		return errInterims
	}
	if f.StreamEnded() {
		return errInterim
	}
	head := response{status: status, length: -1}
	text := head.text(h1.NoBody, f.RegularFields())
	if len(text) > limits.HeadBytes {
		return h1.ErrHeadTooLarge
	}
	in.Text = append(in.Text, text...)
	in.begun = true
	return nil
}

// parseStatus reads a status of exactly three digits.
func parseStatus(text string) (int, bool) {
	if len(text) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(text)
	return status, err == nil && status >= 100
}

// response is the part of a head that decides how the body is framed.
type response struct {
	status   int
	length   int64 // -1 when there is no content-length
	trailers bool  // they are announced, or the response is gRPC, which always has them
}

func (r *response) read(fields []hpack.HeaderField) error {
	r.length = -1
	for _, field := range fields {
		switch normalize.FieldOf(normalize.Bytes(field.Name)) {
		case normalize.FieldContentLength:
			length, err := strconv.ParseUint(field.Value, 10, 63)
			if err != nil || r.length >= 0 {
				return errLength
			}
			r.length = int64(length)
		case normalize.FieldTrailer:
			r.trailers = true
		case normalize.FieldContentType:
			r.trailers = r.trailers || strings.HasPrefix(field.Value, "application/grpc")
		}
	}
	return nil
}

// framing returns how the body is written in HTTP/1.1. bodiless is set if the
// request was HEAD, ended that no body comes.
func (r *response) framing(bodiless, ended bool) h1.Framing {
	switch {
	case bodiless || r.status == http.StatusNoContent || r.status == http.StatusNotModified:
		return h1.NoBody
	case ended && r.length < 0:
		r.length = 0
		return h1.Fixed
	case r.length >= 0 && (ended || !r.trailers):
		return h1.Fixed
	}
	return h1.Chunked
}

// text is the head as HTTP/1.1. The framer has checked names and values when it
// decoded them: none has a line end. Connection-specific fields are invalid in
// HTTP/2 (RFC 9113 section 8.2.2) and are left out.
func (r *response) text(framing h1.Framing, fields []hpack.HeaderField) []byte {
	text := append(make([]byte, 0, 512), "HTTP/1.1 "...)
	text = strconv.AppendInt(text, int64(r.status), 10)
	text = append(text, ' ')
	text = append(text, http.StatusText(r.status)...)
	text = append(text, crlf...)
	for _, field := range fields {
		switch id := normalize.FieldOf(normalize.Bytes(field.Name)); {
		case id == normalize.FieldContentLength, id == normalize.FieldTransferEncoding,
			id.ConnectionOnly() && id != normalize.FieldVariant:
		default:
			text = appendLine(text, field)
		}
	}
	switch {
	case framing == h1.Chunked:
		text = append(text, "Transfer-Encoding: chunked\r\n"...)
	case r.length >= 0 && r.status != http.StatusNoContent:
		// In a response to HEAD, and with 304, it is the length of a body that
		// is not sent.
		text = append(text, "Content-Length: "...)
		text = strconv.AppendInt(text, r.length, 10)
		text = append(text, crlf...)
	}
	return append(text, crlf...)
}

func appendLine(text []byte, field hpack.HeaderField) []byte {
	text = append(text, field.Name...)
	text = append(text, ": "...)
	text = append(text, field.Value...)
	return append(text, crlf...)
}

// addTrailers adds the trailers. Fields that are not allowed in trailers are
// left out (RFC 9110 section 6.5.1): the rest, such as the status of gRPC, has
// to arrive.
func (in *responseBuffer) addTrailers(f *http2.MetaHeadersFrame, limits *h1.Limits) error {
	switch {
	case !f.StreamEnded() || len(f.PseudoFields()) > 0:
		return errTrailers
	case f.Truncated || len(f.RegularFields()) > limits.Fields:
		return h1.ErrTrailerTooLarge
	case !in.Chunked:
		return nil
	}
	tail := []byte("0\r\n")
	for _, field := range f.RegularFields() {
		if normalize.FieldOf(normalize.Bytes(field.Name)).HeadOnly() {
			continue
		}
		tail = appendLine(tail, field)
	}
	if len(tail) > limits.TrailerBytes {
		return h1.ErrTrailerTooLarge
	}
	in.Tail = append(tail, crlf...)
	return nil
}

// onData buffers a piece of the body. The whole frame counts against the
// window, with its padding, which is consumed at once.
func (s *Stream) onData(f *http2.DataFrame) error {
	in, data := &s.in, f.Data()
	if !in.window.Receive(int(f.Length)) {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	switch {
	case in.Over || s.closed:
		return nil
	case !in.headed:
		return errEarlyBody
	case len(data) == 0:
		in.window.Consume(int(f.Length))
		return nil
	case in.bodiless:
		return errBody
	case in.left >= 0 && int64(len(data)) > in.left:
		return errTooLong
	}
	if in.left >= 0 {
		in.left -= int64(len(data))
	}
	in.window.Consume(int(f.Length) - len(data))
	in.Add(data)
	s.readable.Wake(s.conn.task)
	return nil
}

// onEnd ends the response, unless some of it is missing.
func (s *Stream) onEnd() error {
	switch in := &s.in; {
	case in.Over || s.closed:
		return nil
	case !in.headed:
		return errEarlyBody
	case in.left > 0 && !in.bodiless:
		return errTooShort
	}
	s.finishReading(io.EOF, s.conn.task)
	return nil
}
