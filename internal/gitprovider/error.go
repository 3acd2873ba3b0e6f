package gitprovider

import (
	"fmt"
	"time"
)

// ErrorKind says what a caller can do about an [Error].
type ErrorKind string

// The kinds of errors.
const (
	// Denied: the token is not accepted, or may not do this. Token tells which.
	Denied ErrorKind = "denied"
	// NotFound: it does not exist, or the token may not see it.
	NotFound ErrorKind = "not-found"
	// Conflict: it exists already.
	Conflict ErrorKind = "conflict"
	// RateLimited: try again at Until.
	RateLimited ErrorKind = "rate-limited"
	// Unreachable: the network or the provider fails; try again later.
	Unreachable ErrorKind = "unreachable"
	// Certificate: the server's certificate is not trusted.
	Certificate ErrorKind = "certificate"
	// Invalid: the address, the settings or the request are wrong.
	Invalid ErrorKind = "invalid"
	// NotRegistered: there is no OAuth application, or the provider does not
	// know it.
	NotRegistered ErrorKind = "not-registered"
)

// Error is what went wrong, in a sentence without secrets.
type Error struct {
	Kind     ErrorKind
	Provider Kind
	// Status is the HTTP status; 0 when there was no answer.
	Status  int
	Message string
	// Until is when a rate limit ends.
	Until time.Time
	// Token is set when the token itself was refused: expired or revoked.
	Token TokenState

	cause error
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause on the network, if there was one.
func (e *Error) Unwrap() error { return e.cause }

// Retryable reports whether the same call can succeed later without anybody
// changing something.
func (e *Error) Retryable() bool { return e.Kind == RateLimited || e.Kind == Unreachable }

// hidden reports whether the token works and something else is in the way: the
// thing is not there, or not for this token.
func hidden(e *Error) bool { return e.Kind == NotFound || e.Kind == Denied && e.Token == "" }

func invalid(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Provider: kind, Message: fmt.Sprintf(format, args...)}
}
