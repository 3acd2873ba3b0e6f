package identity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
)

// DeniedError says why a caller may not. Its reason is written for the caller and
// holds no secrets.
type DeniedError struct {
	Code   connect.Code
	Reason string
	// RetryAfter is when it makes sense to ask again; 0: not by waiting.
	RetryAfter time.Duration

	// account is the one whose audit log tells of it, when that is known before the
	// caller is; actor and kind are who was named.
	account, actor, kind string
}

// Error gives the reason.
func (e *DeniedError) Error() string { return e.Reason }

// Connect gives the error as the API answers it, with the header Retry-After.
func (e *DeniedError) Connect() *connect.Error {
	answer := connect.NewError(e.Code, e)
	if e.RetryAfter > 0 {
		answer.Meta().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	return answer
}

func unauthenticated(format string, args ...any) *DeniedError {
	return &DeniedError{Code: connect.CodeUnauthenticated, Reason: fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) *DeniedError {
	return &DeniedError{Code: connect.CodePermissionDenied, Reason: fmt.Sprintf(format, args...)}
}

// of notes in whose audit log the refusal belongs.
func (e *DeniedError) of(user store.User, actor, kind string) *DeniedError {
	e.account, e.actor, e.kind = user.AccountID, actor, kind
	return e
}

// answer turns an error of this package or of the store into one of the API. What
// is neither is not shown to the caller.
func (i *Identity) answer(err error) error {
	var denied *DeniedError
	var conflict *store.ConflictError
	var bad *store.InvalidError
	var coded *connect.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &denied):
		return denied.Connect()
	case errors.Is(err, store.ErrNotFound):
		return connect.NewError(connect.CodeNotFound, errors.New("it does not exist"))
	case errors.As(err, &conflict):
		return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("there is one already: %s", conflict.What))
	case errors.As(err, &bad):
		return connect.NewError(connect.CodeInvalidArgument, bad)
	case errors.Is(err, store.ErrLastAdmin):
		return connect.NewError(connect.CodeFailedPrecondition, store.ErrLastAdmin)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, store.ErrUnavailable):
		i.log.Error("The store is not available", "err", err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the platform's database is not available; try again soon"))
	}
	i.log.Error("A request failed", "err", err)
	return connect.NewError(connect.CodeInternal, errors.New("the platform failed; its log says why"))
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

func precondition(format string, args ...any) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(format, args...))
}
