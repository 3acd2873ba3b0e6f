package h2client

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/net/http2"
)

// ErrRefused says that the endpoint has not looked at the request and never
// will: it refused the stream, or it was going away. To code that asks whether
// the connection ended before its first byte it is an io.EOF.
var ErrRefused error = refusedError{}

type refusedError struct{}

// Error says what is wrong.
func (refusedError) Error() string { return "the endpoint refused the request before it looked at it" }

// Is makes it an io.EOF too.
func (refusedError) Is(target error) bool { return target == io.EOF }

// ResetError says that the endpoint broke off one exchange.
type ResetError struct {
	// Code is the endpoint's reason.
	Code http2.ErrCode
}

// Error says what is wrong.
func (e *ResetError) Error() string { return "the endpoint reset the stream: " + e.Code.String() }

// What ends a connection, besides the errors of the connection below.
var (
	// ErrNotHTTP2: the endpoint did not begin as a server of HTTP/2 does.
	ErrNotHTTP2 = errors.New("the endpoint does not speak HTTP/2 here; check the protocol of the backend")
	// ErrSilent: a PING was not answered in time.
	ErrSilent = errors.New("the endpoint does not answer on its HTTP/2 connection")
	// ErrFlood: the endpoint asks for more answers than it reads.
	ErrFlood = errors.New("the endpoint asks for answers on its HTTP/2 connection and does not read them")

	errEarlyEnd = errors.New("the endpoint closed the connection before it said anything; check that it speaks HTTP/2")
	errRetired  = errors.New("the HTTP/2 connection was closed")
	errAfterEnd = errors.New("there are bytes after the end of the request")
	// errUnwanted ends the sending of a body whose answer is complete.
	errUnwanted = errors.New("the endpoint does not want the rest of the request")
)

// parted reports whether an error is the end of the connection below, and no
// more than that.
func parted(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// broken is what a stream ends with when its connection does. begun says that
// some of the response has come.
func broken(err error, begun bool) error {
	switch {
	case !parted(err) && err != errRetired:
		return err
	case begun:
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// protocolFault is a rule of RFC 9113 that the endpoint broke in one response.
type protocolFault string

// Error says what is wrong.
func (f protocolFault) Error() string { return "the HTTP/2 response is malformed: " + string(f) }

const (
	faultStatus   protocolFault = "its status is not one of three digits from 200, or an interim one other than 101"
	faultLength   protocolFault = "its content-length is not one plain number"
	faultTooLong  protocolFault = "its body is longer than its content-length"
	faultTooShort protocolFault = "its body is shorter than its content-length"
	faultNoBody   protocolFault = "it has a body where none can be"
	faultEarly    protocolFault = "its body comes before its head"
	faultTrailers protocolFault = "there is something after its trailers, or they have a status"
	faultInterim  protocolFault = "an interim response ends the stream"
	faultInterims protocolFault = "it has too many interim responses"
)
