package upstream

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/upstream/h2client"
	"slipway.dev/slipway/internal/route"
)

// The errors of Pick and Connect, besides the types below.
var (
	// ErrNoBackend: the table has no such backend.
	ErrNoBackend = errors.New("the table has no such backend; check the Service and its port")
	// ErrNoEndpoint: the backend has no endpoint that takes this request.
	ErrNoEndpoint = errors.New("the backend has no ready endpoint; check that its pods are ready")
	// ErrOverloaded is wrapped by OverloadError.
	ErrOverloaded = errors.New("the backend, or each of its endpoints, has as many requests as it may")
	// ErrClosed: the Set was closed.
	ErrClosed = errors.New("the edge is stopping and makes no new connections")
	// ErrLocalAddress: a host name resolved to the edge's own machine or link.
	ErrLocalAddress = errors.New("the name resolves to a loopback or link-local address, which is not allowed; give a name of another machine")

	// ErrOwnAddress: an endpoint is the edge itself.
	ErrOwnAddress = errors.New("the address is an entry point of this edge, so that each request would come back; give that of another server")

	// ErrRefused: the endpoint refused the request before processing it, so
	// that any request may be retried. Reading from the connection fails with
	// it. It is an io.EOF too.
	ErrRefused = h2client.ErrRefused

	errNoH2       = errors.New("the endpoint does not choose HTTP/2 in the handshake; set the protocol of the backend to tls or alpn")
	errShortLived = errors.New("the HTTP/2 connection was closed as soon as it was made")
	errLeaseEnded = errors.New("the lease has ended; pick again")
)

// OverloadError means that the backend, or each of its endpoints, has as many
// requests in flight as it may. The proxy responds with 503 and Retry-After.
type OverloadError struct {
	Backend route.BackendID
	// RetryAfter is when the client should try again.
	RetryAfter time.Duration
}

// Error implements error.
func (e *OverloadError) Error() string { return e.Backend.String() + ": " + ErrOverloaded.Error() }

// Unwrap returns ErrOverloaded.
func (e *OverloadError) Unwrap() error { return ErrOverloaded }

// BrokenError is why no request is sent to a backend although the table has
// it. The proxy responds with 503.
type BrokenError struct {
	Backend route.BackendID
	// Reason describes the problem and its fix.
	Reason string
}

// Error implements error.
func (e *BrokenError) Error() string { return e.Backend.String() + ": " + e.Reason }

// ConnectError is why there is no connection. Nothing was sent, so the
// request may go to another endpoint.
type ConnectError struct {
	// Address is the address of the endpoint.
	Address string
	// TLS is set if the endpoint was reached, and that the handshake failed.
	TLS bool
	Err error
}

// Error implements error. It adds what to do where that is known.
func (e *ConnectError) Error() string {
	text := "cannot connect to " + e.Address
	if e.TLS {
		text = "no TLS connection with " + e.Address
	}
	text += ": " + e.Err.Error()
	if e.TLS && strings.Contains(text, "x509: ") {
		text += "; check the authority and the server name of the backend"
	}
	return text
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// Timeout reports whether it took too long, which makes the status 504 instead
// of 502.
func (e *ConnectError) Timeout() bool {
	if errors.Is(e.Err, context.DeadlineExceeded) {
		return true
	}
	var slow net.Error
	return errors.As(e.Err, &slow) && slow.Timeout()
}
