// Package httperr has the one error of a peer that broke HTTP, of any version.
//
// Each rule that is checked has one Error, declared as a variable of the package
// that checks it. Such a variable is returned as it is: comparing with errors.Is
// is enough, and a refused message costs no allocation. What is not the peer's
// mistake has errors of its own: a connection that ended, a timeout, an
// overload, a stream that the peer reset or refused.
package httperr

import (
	"errors"

	"golang.org/x/net/http2"
)

// Error is a rule of HTTP that a message, a frame or a connection breaks.
type Error struct {
	// Status is that of the response to a client. It is 0 if there is none,
	// because the stream or the connection is reset. A rule that an endpoint
	// broke is a 502 instead.
	Status int
	// Code is that of RST_STREAM and GOAWAY in HTTP/2.
	Code http2.ErrCode
	// Reason is one word for logs and metrics.
	Reason string
	// Message describes the rule for people.
	Message string
}

// New returns the error of a message that gets a response with a status.
func New(status int, reason, message string) *Error {
	return &Error{Status: status, Code: http2.ErrCodeProtocol, Reason: reason, Message: message}
}

// Reset returns the error of a stream or a connection of HTTP/2 that is reset
// with a code.
func Reset(code http2.ErrCode, reason, message string) *Error {
	return &Error{Code: code, Reason: reason, Message: message}
}

// Error returns the description for people.
func (e *Error) Error() string { return e.Message }

// Of returns the Error that err is or wraps, and an empty one if there is none:
// its status is 0 and its reason is empty.
func Of(err error) *Error {
	if broken, ok := errors.AsType[*Error](err); ok {
		return broken
	}
	return none
}

var none = new(Error)
