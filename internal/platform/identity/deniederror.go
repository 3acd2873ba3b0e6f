package identity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/platform/store"
)

// DeniedError reports why a call is denied. The reason is meant for the
// caller and contains no secrets.
type DeniedError struct {
	Code   connect.Code
	Reason string
	// RetryAfter is when a retry can succeed; 0 means that waiting does not
	// help.
	RetryAfter time.Duration

	// account is the account whose audit log records the denial, if it is
	// known before the caller is; actor and kind describe the attempted
	// identity.
	account, actor, kind string
	person               store.AuditPerson
}

// Error returns the reason.
func (e *DeniedError) Error() string { return e.Reason }

// Connect returns the error for the API, with the header Retry-After.
func (e *DeniedError) Connect() *connect.Error {
	response := connect.NewError(e.Code, e)
	if e.RetryAfter > 0 {
		response.Meta().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	return response
}

// unauthenticated returns a denial that signing in can resolve.
func unauthenticated(format string, args ...any) *DeniedError {
	return &DeniedError{Code: connect.CodeUnauthenticated, Reason: fmt.Sprintf(format, args...)}
}

// forbidden returns a denial for a known caller without permission.
func forbidden(format string, args ...any) *DeniedError {
	return &DeniedError{Code: connect.CodePermissionDenied, Reason: fmt.Sprintf(format, args...)}
}

// of sets the account and actor of the audit entry.
func (e *DeniedError) of(user store.User, actor, kind string) *DeniedError {
	e.account, e.actor, e.kind = user.AccountID, actor, kind
	e.person.UserID, e.person.UserEmail = user.ID, user.Email
	return e
}

// apiError converts an error of this package or the store to one of the API.
// Other errors are logged and returned as internal.
func (i *Identity) apiError(err error) error {
	var denied *DeniedError
	var conflict *store.ConflictError
	var bad *refusal.Refusal
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
		i.log.Error("database unavailable", "err", err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the platform's database is unavailable; retry later"))
	}
	i.log.Error("request failed", "err", err)
	return connect.NewError(connect.CodeInternal, errors.New("internal error of the platform; its log has the details"))
}

// invalid returns an InvalidArgument error.
func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// precondition returns a FailedPrecondition error.
func precondition(format string, args ...any) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(format, args...))
}
