package h1

import (
	"errors"
	"os"

	"slipway.dev/slipway/internal/edge/httperr"
)

// The rules of heads and trailers. The connection of a message that breaks one
// cannot be used any further.
var (
	ErrBareLF = httperr.New(400, "bare_lf", "a line ends in LF without CR")
	ErrBareCR = httperr.New(400, "bare_cr", "a CR stands inside a line")
	// ErrControl: a control character other than a tab in a value.
	ErrControl     = httperr.New(400, "control", "a line has a control character")
	ErrRequestLine = httperr.New(400, "request_line", "the request line is not a method, a target and a version with one space between")
	// ErrMethod: a method with other than capital letters, - and _.
	ErrMethod             = httperr.New(400, "method", "the method is longer than 32 characters or has others than capital letters")
	ErrConnect            = httperr.New(400, "connect", "CONNECT is not served here: this is no forward proxy")
	ErrVersion            = httperr.New(400, "version", "the request line has no HTTP version")
	ErrVersionUnsupported = httperr.New(505, "version_unsupported", "the HTTP version is neither 1.0 nor 1.1")
	ErrStatusLine         = httperr.New(400, "status_line", "the status line is not a version, a code of three digits and a reason")
	ErrFold               = httperr.New(400, "fold", "a header line starts with white space")
	// ErrFieldName: an empty header name, or one with a character that no
	// header name has, a space before the colon among them.
	ErrFieldName      = httperr.New(400, "field_name", "a header name is empty or has a character that header names do not have")
	ErrValueBlank     = httperr.New(400, "value_blank", "a header value starts or ends with white space")
	ErrUnderscore     = httperr.New(400, "underscore", "a header name has an underscore, which backends mistake for a hyphen")
	ErrNoHost         = httperr.New(400, "no_host", "the Host header is missing")
	ErrHostTwice      = httperr.New(400, "host_twice", "there is more than one Host header")
	ErrLengthTwice    = httperr.New(400, "length_twice", "there is more than one Content-Length header")
	ErrLength         = httperr.New(400, "length", "Content-Length is not a plain number")
	ErrCoding         = httperr.New(400, "coding", "Transfer-Encoding is not exactly one chunked")
	ErrCodingVersion  = httperr.New(400, "coding_version", "HTTP/1.0 has no Transfer-Encoding")
	ErrTwoLengths     = httperr.New(400, "two_lengths", "there are both Transfer-Encoding and Content-Length")
	ErrConnectionList = httperr.New(400, "connection_list", "the Connection header is not a short list of names")
	ErrExpectation    = httperr.New(417, "expectation", "the only expectation that can be met is 100-continue")
	// ErrTrailerName: a trailer, or the announcement of one, that would change
	// the meaning of the head.
	ErrTrailerName = httperr.New(400, "trailer_name", "a trailer would change the meaning of the head")
	// ErrTargetTooLong: more than Limits.TargetBytes.
	ErrTargetTooLong = httperr.New(414, "target_too_long", "the request target is too long")
	// ErrHeadTooLarge: more than Limits.HeadBytes.
	ErrHeadTooLarge = httperr.New(431, "head_too_large", "the headers are too large")
	// ErrTooManyFields: more than Limits.Fields.
	ErrTooManyFields = httperr.New(431, "too_many_fields", "there are too many headers")
	// ErrUnexpectedSwitch: a 101 without a forwarded Upgrade.
	ErrUnexpectedSwitch = httperr.New(400, "unasked", "the server switches protocols without an Upgrade request")
)

// The rules of bodies.
var (
	// ErrChunkSize: a chunk size that is not 1 to 16 hex digits, or too large.
	ErrChunkSize      = httperr.New(400, "chunk_size", "a chunk size is not a plain hexadecimal number")
	ErrChunkEnd       = httperr.New(400, "chunk_end", "a chunk is not followed by CRLF")
	ErrChunkExtension = httperr.New(400, "chunk_extension", "a chunk extension is malformed or too long")
	// ErrTrailerTooLarge: more than Limits.TrailerBytes, or Limits.Fields.
	ErrTrailerTooLarge = httperr.New(431, "trailer_too_large", "the trailers are too large")
)

// The errors that end a connection without a broken rule.
var (
	// ErrIdle: no byte of a next message came in time. There is no request to
	// respond to; close.
	ErrIdle = errors.New("no further request came in time")
	// ErrInterrupted: [Reader.Interrupt] ended the wait for a next message.
	ErrInterrupted = errors.New("interrupted while waiting for the next request")
	// ErrTooSlow: a body came slower than the least rate allowed.
	ErrTooSlow = errors.New("the body came too slowly")
)

// StatusOf returns the status for a client whose request could not be read, or 0
// when there is no response to send: the connection is gone or was idle.
func StatusOf(err error) int {
	if _, ok := errors.AsType[*WriteError](err); ok {
		return 0
	}
	status := httperr.Of(err).Status
	switch {
	case status != 0:
		return status
	case errors.Is(err, ErrBodyTooLarge):
		return 413
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, ErrTooSlow):
		return 408
	}
	return 0
}
