package h1

import (
	"errors"
	"os"

	"slipway.dev/slipway/internal/edge/normalize"
)

// Fault is the reason for which a message is refused. It is an error, and
// comparing it with errors.Is is enough. The connection it came from cannot be
// used any further.
type Fault uint8

// The faults of heads, and of trailers.
const (
	// ErrBareLF: a line that ends in LF without CR.
	ErrBareLF Fault = iota + 1
	// ErrBareCR: a CR that does not end a line.
	ErrBareCR
	// ErrControl: a control character other than a tab in a value.
	ErrControl
	// ErrRequestLine: not exactly "method target version".
	ErrRequestLine
	// ErrMethod: a method with other than capital letters, - and _.
	ErrMethod
	// ErrConnect: CONNECT, which is for forward proxies.
	ErrConnect
	// ErrVersion: no HTTP version where one belongs.
	ErrVersion
	// ErrVersionUnsupported: an HTTP version other than 1.0 and 1.1.
	ErrVersionUnsupported
	// ErrStatusLine: not "version code reason".
	ErrStatusLine
	// ErrFold: a line that starts with white space.
	ErrFold
	// ErrFieldName: an empty header name, or one with a character that no
	// header name has, a space before the colon among them.
	ErrFieldName
	// ErrUnderscore: a header name with an underscore.
	ErrUnderscore
	// ErrNoHost: HTTP/1.1 without Host.
	ErrNoHost
	// ErrHostTwice: more than one Host.
	ErrHostTwice
	// ErrLengthTwice: more than one Content-Length.
	ErrLengthTwice
	// ErrLength: a Content-Length that is not a plain number.
	ErrLength
	// ErrCoding: a Transfer-Encoding other than one "chunked".
	ErrCoding
	// ErrCodingVersion: Transfer-Encoding in HTTP/1.0, which has none.
	ErrCodingVersion
	// ErrTwoLengths: Transfer-Encoding together with Content-Length.
	ErrTwoLengths
	// ErrConnectionList: a Connection that is not a short list of names.
	ErrConnectionList
	// ErrExpectation: an Expect other than 100-continue.
	ErrExpectation
	// ErrTrailerName: a trailer, or the announcement of one, that would change
	// the meaning of the head.
	ErrTrailerName
	// ErrTargetTooLong: more than Limits.TargetBytes.
	ErrTargetTooLong
	// ErrHeadTooLarge: more than Limits.HeadBytes.
	ErrHeadTooLarge
	// ErrTooManyFields: more than Limits.Fields.
	ErrTooManyFields
	// ErrUnexpectedSwitch: a 101 without a forwarded Upgrade.
	ErrUnexpectedSwitch
)

// The faults of bodies.
const (
	// ErrChunkSize: a chunk size that is not 1 to 16 hex digits, or too large.
	ErrChunkSize Fault = iota + 64
	// ErrChunkEnd: chunk data that is not followed by CRLF.
	ErrChunkEnd
	// ErrChunkExtension: a malformed chunk extension, or too many bytes of them.
	ErrChunkExtension
	// ErrTrailerTooLarge: more than Limits.TrailerBytes, or Limits.Fields.
	ErrTrailerTooLarge
)

type faultFact struct {
	status int
	label  string
	text   string
}

var faultFacts = map[Fault]faultFact{
	ErrBareLF:             {400, "bare_lf", "a line ends in LF without CR"},
	ErrBareCR:             {400, "bare_cr", "a CR stands inside a line"},
	ErrControl:            {400, "control", "a line has a control character"},
	ErrRequestLine:        {400, "request_line", "the request line is not a method, a target and a version with one space between"},
	ErrMethod:             {400, "method", "the method is longer than 32 characters or has others than capital letters"},
	ErrConnect:            {400, "connect", "CONNECT is not served here: this is no forward proxy"},
	ErrVersion:            {400, "version", "the request line has no HTTP version"},
	ErrVersionUnsupported: {505, "version_unsupported", "the HTTP version is neither 1.0 nor 1.1"},
	ErrStatusLine:         {400, "status_line", "the status line is not a version, a code of three digits and a reason"},
	ErrFold:               {400, "fold", "a header line starts with white space"},
	ErrFieldName:          {400, "field_name", "a header name is empty or has a character that header names do not have"},
	ErrUnderscore:         {400, "underscore", "a header name has an underscore, which backends mistake for a hyphen"},
	ErrNoHost:             {400, "no_host", "the Host header is missing"},
	ErrHostTwice:          {400, "host_twice", "there is more than one Host header"},
	ErrLengthTwice:        {400, "length_twice", "there is more than one Content-Length header"},
	ErrLength:             {400, "length", "Content-Length is not a plain number"},
	ErrCoding:             {400, "coding", "Transfer-Encoding is not exactly one chunked"},
	ErrCodingVersion:      {400, "coding_version", "HTTP/1.0 has no Transfer-Encoding"},
	ErrTwoLengths:         {400, "two_lengths", "there are both Transfer-Encoding and Content-Length"},
	ErrConnectionList:     {400, "connection_list", "the Connection header is not a short list of names"},
	ErrExpectation:        {417, "expectation", "the only expectation that can be met is 100-continue"},
	ErrTrailerName:        {400, "trailer_name", "a trailer would change the meaning of the head"},
	ErrTargetTooLong:      {414, "target_too_long", "the request target is too long"},
	ErrHeadTooLarge:       {431, "head_too_large", "the headers are too large"},
	ErrTooManyFields:      {431, "too_many_fields", "there are too many headers"},
	ErrUnexpectedSwitch:   {400, "unasked", "the server switches protocols without an Upgrade request"},
	ErrChunkSize:          {400, "chunk_size", "a chunk size is not a plain hexadecimal number"},
	ErrChunkEnd:           {400, "chunk_end", "a chunk is not followed by CRLF"},
	ErrChunkExtension:     {400, "chunk_extension", "a chunk extension is malformed or too long"},
	ErrTrailerTooLarge:    {431, "trailer_too_large", "the trailers are too large"},
}

// Error returns the description for people.
func (f Fault) Error() string { return faultFacts[f].text }

// Label returns a short name of the fault, for metrics and logs.
func (f Fault) Label() string { return faultFacts[f].label }

// Status returns the HTTP status for a client's fault. A fault of an upstream is a
// 502 instead.
func (f Fault) Status() int { return faultFacts[f].status }

// The errors that end a connection without a fault of a message.
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
	if fault, ok := errors.AsType[Fault](err); ok {
		return fault.Status()
	}
	if flaw, ok := errors.AsType[normalize.Flaw](err); ok {
		return flaw.Status()
	}
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		return 413
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, ErrTooSlow):
		return 408
	}
	return 0
}

// LabelOf returns the label of a refusal for metrics, and empty for errors of
// the connection.
func LabelOf(err error) string {
	if fault, ok := errors.AsType[Fault](err); ok {
		return fault.Label()
	}
	if flaw, ok := errors.AsType[normalize.Flaw](err); ok {
		return flaw.Label()
	}
	return ""
}
