package source

import (
	"context"
	"errors"
	"fmt"
)

// ErrorKind classifies an error for the caller: retry, or report to the user.
type ErrorKind string

// The kinds. Only Unreachable goes away by itself.
const (
	Unreachable ErrorKind = "Unreachable" // try again later
	Denied      ErrorKind = "Denied"      // the credentials, the host key or the certificate
	NotFound    ErrorKind = "NotFound"    // no such repository, revision, chart or version
	Ambiguous   ErrorKind = "Ambiguous"   // the revision names several commits
	Refused     ErrorKind = "Refused"     // beyond a limit, or at an address that is not connected to
	Invalid     ErrorKind = "Invalid"     // the source itself is wrong
)

// Error is why a source cannot be had. Its text has no credentials.
type Error struct {
	Kind       ErrorKind
	Repository string // the address, without a user and a password
	// Chart is the only chart of the repository that it concerns; empty for all.
	Chart   string
	Message string
	Err     error
}

// Error is the address and the message.
func (e *Error) Error() string {
	if e.Repository == "" {
		return e.Message
	}
	return e.Repository + ": " + e.Message
}

// Unwrap is the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// IsKind reports whether an error is an *[Error] of this kind. It is false for
// nil and for errors of other packages.
func IsKind(err error, kind ErrorKind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// IsOfChart reports whether an error concerns one chart of its repository, such as
// its archive, and not the others.
func IsOfChart(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Chart != ""
}

// errorf makes an *Error. An empty repository is filled in by toError.
func errorf(kind ErrorKind, repository, format string, args ...any) *Error {
	return &Error{Kind: kind, Repository: repository, Message: fmt.Sprintf(format, args...)}
}

// timeoutError is the error for a caller that does not wait any longer.
func timeoutError(ctx context.Context, repository string) *Error {
	return &Error{Kind: Unreachable, Repository: repository, Message: "no response in time", Err: context.Cause(ctx)}
}
