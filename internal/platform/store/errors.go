package store

import (
	"errors"
	"fmt"
)

// ErrNotFound says that there is no such thing, or that it belongs to another
// account.
var ErrNotFound = errors.New("not found")

// ErrUnavailable says that the database could not be asked or could not store:
// its disk is full, or it is away. The error that wraps it says what to do and
// carries the cause. The same call may work later.
var ErrUnavailable = errors.New("the database is unavailable")

// ErrReused says that a refresh token was shown that had been replaced before. All
// credentials of the runtime have been revoked: two parties hold them.
var ErrReused = errors.New("the refresh token has been used before, and the credentials of the runtime are revoked")

// ErrRevoked says that the credentials of the runtime are revoked.
var ErrRevoked = errors.New("the credentials of the runtime are revoked")

// ErrLastAdmin says that a change would leave an account without anybody who may
// administer it.
var ErrLastAdmin = errors.New("the account would have no admin left: make somebody else an admin first")

// ConflictError says that something else is in the way, such as a user with the
// same email.
type ConflictError struct {
	What string // for people: "a runtime with the name prod"
}

// Error says what is in the way.
func (e *ConflictError) Error() string { return "there is a conflict with " + e.What }

// InvalidError says that an argument cannot be stored or asked for.
type InvalidError struct {
	What string
}

// Error says what is wrong with the argument.
func (e *InvalidError) Error() string { return e.What }

func invalid(format string, args ...any) error {
	return &InvalidError{What: fmt.Sprintf(format, args...)}
}

// unavailableError is ErrUnavailable with its cause.
type unavailableError struct {
	advice string
	cause  error
}

func (e *unavailableError) Error() string {
	return fmt.Sprintf("%v: %s (%v)", ErrUnavailable, e.advice, e.cause)
}

func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.cause} }

// What the engines find; methods turn it into what they promise.
var (
	errUnique    = errors.New("there is such a row already")
	errCollision = errors.New("another transaction was in the way")
)

// orConflict turns errUnique into a *ConflictError.
func orConflict(err error, format string, args ...any) error {
	if errors.Is(err, errUnique) {
		return &ConflictError{What: fmt.Sprintf(format, args...)}
	}
	return err
}

// orNotFound turns a change of no row into ErrNotFound.
func orNotFound(rows int, err error) error {
	if err == nil && rows == 0 {
		return ErrNotFound
	}
	return err
}
