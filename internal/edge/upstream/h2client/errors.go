package h2client

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/httperr"
)

// ErrRefused is the error of a request that the endpoint has not processed and
// never will: it refused the stream, or it sent GOAWAY. Such a request may be
// sent again, even if it is not idempotent (RFC 9113 section 8.7). It is an
// io.EOF too, for code that checks whether the connection ended before the
// first byte.
var ErrRefused error = refusedError{}

type refusedError struct{}

// Error implements error.
func (refusedError) Error() string { return "the endpoint refused the request before processing it" }

// Is makes it an io.EOF too.
func (refusedError) Is(target error) bool { return target == io.EOF }

// ResetError is the error of a stream that the endpoint reset.
type ResetError struct {
	// Code is the error code of RST_STREAM.
	Code http2.ErrCode
}

// Error implements error.
func (e *ResetError) Error() string { return "the endpoint reset the stream: " + e.Code.String() }

// The errors that close a connection, besides those of the connection below.
var (
	// ErrNotHTTP2: the endpoint did not send the preface of an HTTP/2 server.
	ErrNotHTTP2 = httperr.Reset(http2.ErrCodeProtocol, "not_http2", "the endpoint does not speak HTTP/2; check the protocol of the backend")
	// ErrPingTimeout: no frame came in time after a PING.
	ErrPingTimeout = errors.New("the endpoint did not acknowledge an HTTP/2 PING in time")
	// ErrFlood: the endpoint sends frames that need a reply, and does not read
	// them.
	ErrFlood = httperr.Reset(http2.ErrCodeEnhanceYourCalm, "flood", "the endpoint floods its HTTP/2 connection with frames and does not read the replies")

	errEarlyEnd = errors.New("the endpoint closed the connection before its first frame; check that it speaks HTTP/2")
	// errClosed is the cause of a connection that is closed without an error.
	errClosed   = errors.New("the HTTP/2 connection was closed")
	errAfterEnd = errors.New("there are bytes after the end of the request")
	// errUnwanted ends the sending of a body whose response is complete.
	errUnwanted = errors.New("the endpoint does not want the rest of the request")
)

// isDisconnect reports whether an error only means that the connection below has
// ended.
func isDisconnect(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// streamError returns the error of a stream whose connection was closed. begun
// is set if some of the response has come: it is truncated then, and the
// request must not be taken for one that was not processed.
func streamError(err error, begun bool) error {
	switch {
	case !isDisconnect(err) && err != errClosed:
		return err
	case begun:
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// The rules of RFC 9113 section 8 that an endpoint breaks in one response. They
// reset the stream, and not the connection.
var (
	errStatus    = malformed("status", "its status is not a number from 200 to 999, or an interim one other than 101")
	errLength    = malformed("length", "its content-length is not a single number")
	errTooLong   = malformed("body_long", "its body is longer than its content-length")
	errTooShort  = malformed("body_short", "its body is shorter than its content-length")
	errBody      = malformed("body", "it has a body where none is allowed")
	errEarlyBody = malformed("early_body", "its body comes before its head")
	errTrailers  = malformed("trailers", "a frame follows its trailers, or they have a status")
	errInterim   = malformed("interim_end", "an interim response ends the stream")
	errInterims  = malformed("interims", "it has too many interim responses")
	errWindow    = httperr.Reset(http2.ErrCodeFlowControl, "window", malformedPrefix+"a window is too large")
)

const malformedPrefix = "the HTTP/2 response is malformed: "

func malformed(reason, message string) *httperr.Error {
	return httperr.Reset(http2.ErrCodeProtocol, reason, malformedPrefix+message)
}
