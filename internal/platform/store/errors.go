package store

import (
	"errors"
	"fmt"

	"slipway.dev/slipway/api/refusal"
)

// ErrNotFound reports that the object does not exist or belongs to another
// account. The two cases are not distinguished, so that IDs of other accounts
// cannot be probed.
var ErrNotFound = errors.New("not found")

// ErrUnavailable reports that the database cannot be reached or cannot store:
// for example its disk is full. The wrapping error has advice and the cause.
// A retry may succeed.
var ErrUnavailable = errors.New("the database is unavailable")

// ErrReused reports a refresh token that was replaced before. Two parties
// hold the credentials of the runtime, so all of them have been revoked (RFC
// 9700, section 4.14.2).
var ErrReused = errors.New("the refresh token has been used before, and the credentials of the runtime are revoked")

// ErrRevoked reports that the credentials of the runtime are revoked.
var ErrRevoked = errors.New("the credentials of the runtime are revoked")

// ErrLastAdmin reports a change that would leave an account without an admin.
var ErrLastAdmin = errors.New("the account would have no admin left: make another user an admin first")

// ErrLastFactor reports a change that would leave a user without a second
// factor.
var ErrLastFactor = errors.New("the user would have no second factor left: add another one first")

// ConflictError reports an existing object that prevents the change, such as
// a user with the same email.
type ConflictError struct {
	What string // such as "a runtime with the name prod"
}

// Error names the conflicting object.
func (e *ConflictError) Error() string { return "there is a conflict with " + e.What }

// invalid returns the *refusal.Refusal of an argument that cannot be stored or
// queried.
func invalid(format string, args ...any) error {
	return refusal.New("", refusal.Invalid, format, args...)
}

// unavailableError is ErrUnavailable with advice and cause.
type unavailableError struct {
	advice string
	cause  error
}

// Error combines the advice with the driver's error, which operators need in
// the log.
func (e *unavailableError) Error() string {
	return fmt.Sprintf("%v: %s (%v)", ErrUnavailable, e.advice, e.cause)
}

// Unwrap makes both the sentinel and the cause available to errors.Is and
// errors.As.
func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.cause} }

// Errors that the engines return; methods convert them to exported ones.
var (
	errUnique    = errors.New("there is such a row already")
	errCollision = errors.New("another transaction was in the way")
	errLocked    = errors.New("another transaction has locked the table")
)

// orConflict converts errUnique to a *ConflictError.
func orConflict(err error, format string, args ...any) error {
	if errors.Is(err, errUnique) {
		return &ConflictError{What: fmt.Sprintf(format, args...)}
	}
	return err
}

// orNotFound converts a change of zero rows to ErrNotFound.
func orNotFound(rows int, err error) error {
	if err == nil && rows == 0 {
		return ErrNotFound
	}
	return err
}
