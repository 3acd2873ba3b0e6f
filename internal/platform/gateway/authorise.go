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

// authorise checks whether the caller may send the request, and audits
// denials.
func (q *request) authorise(r *http.Request) error {
	if q.caller.Runtime != nil {
		return &identity.DeniedError{Code: connect.CodePermissionDenied, Reason: "a runtime may not send requests to other runtimes"}
	}
	upgrade := r.Header.Get("Upgrade") != ""
	// A procedure or path without a row has a rule that is denied.
	var rule permission.Rule
	switch {
	case q.prefix == wire.AppProxyPath:
		// Only POST: GET requests are exempt from the CSRF check.
		if r.Method != http.MethodPost || upgrade {
			return statusError{http.StatusMethodNotAllowed, "procedures of a runtime are called with POST"}
		}
		q.procedure = strings.TrimPrefix(q.path, strings.TrimSuffix(wire.AppProxyPath, "/"))
		// The platform's procedures are not forwarded.
		if !strings.HasPrefix(q.procedure, "/slipway.platform.") {
			rule, _ = permission.Of(q.procedure)
		}
	case upgrade && r.Header.Get("Origin") != "" && r.Header.Get("Origin") != q.gateway.origin:
		// Any page can open a WebSocket with its visitor's cookies, because
		// it is a GET.
		return &identity.DeniedError{Code: connect.CodePermissionDenied, Reason: "another site may not open a WebSocket here"}
	default:
		rule = permission.OfPath(q.prefix, r.Method, upgrade)
	}
	err := q.gateway.Identity.AuthoriseRule(q.caller, rule)
	if err != nil {
		q.gateway.Identity.Audit(r.Context(), q.caller, q.action(), "runtime", identity.OutcomeDenied, err.Error())
	}
	return err
}

// action returns the audit action.
func (q *request) action() string {
	if q.procedure != "" {
		return identity.Action(q.procedure)
	}
	return "workflows.request"
}

// audited reports whether the request is recorded in the audit log, and
// whether that happens before it is sent.
func (q *request) audited() (is, before bool) {
	if q.procedure == "" {
		return false, false // the workflow server has its own audit log
	}
	rule, _ := permission.Of(q.procedure)
	is = !rule.Read && !rule.Quiet
	return is, is && rule.Permission == permission.Admin
}

// auditBegin records a change by an admin before it is sent. If that fails,
// the request is not sent.
func (q *request) auditBegin(ctx context.Context) error {
	if _, before := q.audited(); !before {
		return nil
	}
	return q.gateway.Identity.Record(ctx, q.caller, identity.Event{
		Action: q.action(), Target: "runtime/" + q.runtime.Name, Outcome: identity.OutcomeBegun,
	})
}

// auditEnd records the result of a change.
func (q *request) auditEnd(ctx context.Context, status int) {
	if is, _ := q.audited(); !is {
		return
	}
	outcome, detail := identity.OutcomeOK, ""
	if status != http.StatusOK {
		outcome, detail = identity.OutcomeFailed, http.StatusText(status)
	}
	q.gateway.Identity.Audit(ctx, q.caller, q.action(), "runtime/"+q.runtime.Name, outcome, detail)
}

// deadline returns the timeout of a request. Streams have a long one; they
// end with their caller.
func (q *request) deadline(r *http.Request) time.Duration {
	if q.prefix == wire.AppProxyPath && !streams(r) {
		return q.gateway.Limits.Unary
	}
	return q.gateway.Limits.Stream
}

// denied returns the DeniedError in an error's chain.
func denied(err error) (*identity.DeniedError, bool) {
	var refusal *identity.DeniedError
	ok := errors.As(err, &refusal)
	return refusal, ok
}
