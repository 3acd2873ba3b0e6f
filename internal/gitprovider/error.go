package gitprovider

import (
	"fmt"
	"time"
)

// ErrorKind classifies an [Error] by what a caller can do about it.
type ErrorKind string

// The kinds of errors.
const (
	// Denied: the token is not accepted, or lacks a permission. Token
	// distinguishes the two.
	Denied ErrorKind = "denied"
	// NotFound: it does not exist, or the token cannot see it. Providers do
	// not distinguish the two.
	NotFound ErrorKind = "not-found"
	// Conflict: it already exists.
	Conflict ErrorKind = "conflict"
	// RateLimited: retry at Until.
	RateLimited ErrorKind = "rate-limited"
	// Unreachable: a network or server failure; retry later.
	Unreachable ErrorKind = "unreachable"
	// Certificate: the server's certificate is not trusted.
	Certificate ErrorKind = "certificate"
	// Invalid: the URL, the settings or the request are invalid.
	Invalid ErrorKind = "invalid"
	// NotRegistered: there is no OAuth application, or the provider does not
	// accept it.
	NotRegistered ErrorKind = "not-registered"
)

// Error is an error of a provider. Its message is a sentence without secrets.
type Error struct {
	Kind     ErrorKind
	Provider Kind
	// Status is the HTTP status; 0 without a response.
	Status  int
	Message string
	// Until is when a rate limit ends.
	Until time.Time
	// Token is set when the token itself was rejected: expired or revoked.
	Token TokenState

	cause error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause of a network error, if any.
func (e *Error) Unwrap() error { return e.cause }

// Retryable reports whether the same call can succeed later without a change.
func (e *Error) Retryable() bool { return e.Kind == RateLimited || e.Kind == Unreachable }

// notVisible reports whether the token is valid, but the object does not
// exist or is not visible to it.
func notVisible(e *Error) bool { return e.Kind == NotFound || e.Kind == Denied && e.Token == "" }

// invalid returns an [Error] of kind Invalid.
func invalid(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Provider: kind, Message: fmt.Sprintf(format, args...)}
}
