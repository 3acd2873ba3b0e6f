package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

// What stands for the pages of a workflow server, which has no procedures of its
// own: looking is for whoever may list applications, the rest for whoever may sync.
const (
	lookLike   = "/slipway.runtime.v1.ApplicationService/ListApplications"
	changeLike = "/slipway.runtime.v1.ApplicationService/Sync"
)

// authorise asks whether the caller may do what the request does.
func (q *request) authorise(r *http.Request) error {
	if q.caller.Runtime != nil {
		return &identity.DeniedError{Code: connect.CodePermissionDenied, Reason: "a runtime may not ask another"}
	}
	upgrade := r.Header.Get("Upgrade") != ""
	procedure := lookLike
	switch {
	case q.prefix == wire.AppProxyPath:
		// Procedures are POST: a GET needs no CSRF token.
		if r.Method != http.MethodPost || upgrade {
			return statusError{http.StatusMethodNotAllowed, "procedures of a runtime are called with POST"}
		}
		q.procedure = strings.TrimPrefix(q.path, strings.TrimSuffix(wire.AppProxyPath, "/"))
		procedure = q.procedure
		if strings.HasPrefix(procedure, "/slipway.platform.") {
			procedure = "" // not a runtime's
		}
	case upgrade && r.Header.Get("Origin") != "" && r.Header.Get("Origin") != q.gateway.origin:
		// A WebSocket is a GET that any page can begin, with the cookies of its visitor.
		return &identity.DeniedError{Code: connect.CodePermissionDenied, Reason: "another site may not open a WebSocket here"}
	case upgrade || (r.Method != http.MethodGet && r.Method != http.MethodHead):
		procedure = changeLike
	}
	err := q.gateway.Identity.Authorise(q.caller, procedure)
	if err != nil {
		q.gateway.Identity.Audit(r.Context(), q.caller, q.action(), "runtime", identity.OutcomeDenied, err.Error())
	}
	return err
}

func (q *request) action() string {
	if q.procedure != "" {
		return identity.Action(q.procedure)
	}
	return "workflows.request"
}

// audited says whether the request is in the audit log, and whether already before
// it is made.
func (q *request) audited() (is, before bool) {
	if q.procedure == "" {
		return false, false // the workflow server has its own
	}
	rule, _ := permission.Of(q.procedure)
	is = !rule.Read && !rule.Quiet
	return is, is && rule.Permission == permission.Admin
}

// begin writes down an admin's change before it is made; if it cannot be written,
// it is not made.
func (q *request) begin(ctx context.Context) error {
	if _, before := q.audited(); !before {
		return nil
	}
	return q.gateway.Identity.Record(ctx, q.caller, identity.Event{
		Action: q.action(), Target: "runtime/" + q.runtime.Name, Outcome: identity.OutcomeBegun,
	})
}

// end writes down what became of a change.
func (q *request) end(ctx context.Context, status int) {
	if is, _ := q.audited(); !is {
		return
	}
	outcome, detail := identity.OutcomeOK, ""
	if status != http.StatusOK {
		outcome, detail = identity.OutcomeFailed, http.StatusText(status)
	}
	q.gateway.Identity.Audit(ctx, q.caller, q.action(), "runtime/"+q.runtime.Name, outcome, detail)
}

// deadline is how long the request may take. Streams last as long as their caller.
func (q *request) deadline(r *http.Request) time.Duration {
	if q.prefix == wire.AppProxyPath && !streams(r) {
		return q.gateway.Limits.Unary
	}
	return q.gateway.Limits.Stream
}

// denied gives the refusal of a caller, if the error is one.
func denied(err error) (*identity.DeniedError, bool) {
	var refusal *identity.DeniedError
	ok := errors.As(err, &refusal)
	return refusal, ok
}
