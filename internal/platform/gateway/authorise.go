package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// authorise checks whether the caller may send the request, and audits
// denials.
func (q *request) authorise(r *http.Request) error {
	if q.caller.Runtime != nil {
		return &identity.DeniedError{Code: connect.CodePermissionDenied, Reason: "a runtime may not send requests to other runtimes"}
	}
	upgrade := r.Header.Get("Upgrade") != ""
	// A procedure or path without a row has a rule that is denied.
	switch {
	case q.argo != nil:
		if err := q.argo.authorise(q.caller, upgrade); err != nil {
			return err
		}
		q.rule = q.argo.procedure.Rule
	case q.prefix == wire.AppProxyPath:
		// Only POST: GET requests are exempt from the CSRF check.
		if r.Method != http.MethodPost || upgrade {
			return statusError{http.StatusMethodNotAllowed, "procedures of a runtime are called with POST"}
		}
		// The platform's procedures are not forwarded.
		if !strings.HasPrefix(q.procedure, "/slipway.platform.") {
			q.rule, _ = permission.Of(q.procedure)
		}
	case upgrade && r.Header.Get("Origin") != "" && r.Header.Get("Origin") != q.gateway.origin:
		// Any page can open a WebSocket with its visitor's cookies, because
		// it is a GET.
		return &identity.DeniedError{Code: connect.CodePermissionDenied, Reason: "another site may not open a WebSocket here"}
	default:
		q.rule = permission.OfPath(q.prefix, r.Method, upgrade)
	}
	return q.authoriseRule(r.Context())
}

// authoriseRule checks the credential of the caller, and its role for what is not
// about Applications.
func (q *request) authoriseRule(ctx context.Context) error {
	err := q.gateway.Identity.AuthoriseRule(q.caller, q.rule)
	if err != nil {
		q.gateway.Identity.Deny(ctx, q.caller, q.event(), err)
	}
	return err
}

// event returns the audit event of a request whose message is not read yet.
func (q *request) event() identity.Event {
	event := identity.Event{Action: q.action(), Target: "runtime/" + q.name}
	event.Runtime = q.name
	return event
}

// authoriseVerb checks whether the caller could have the right that the
// procedure needs on some Application of the runtime. The runtime decides about
// the Application that the request names.
func (q *request) authoriseVerb(ctx context.Context) error {
	q.policy = q.gateway.Policies.Of(q.runtime)
	if q.rule.Verb == "" {
		return nil
	}
	if err := q.policy.Require(q.caller, q.rule.Verb); err != nil {
		return q.denied(ctx, q.event(), err.Error())
	}
	return nil
}

// authoriseChange checks the rights of the caller on the Application that a
// change names, as its runtime reported it. One that was not reported is left to
// the runtime, which decides again in any case.
func (q *request) authoriseChange(ctx context.Context, event identity.Event, application *platformv1.Application, revision string) error {
	rule := q.rule
	if rule.Verb == "" || application == nil {
		return nil
	}
	var verbs []permission.Verb
	// The right to an action is one to a single action of a kind: the runtime
	// decides, which knows the object.
	if rule.Verb != permission.Action {
		verbs = append(verbs, rule.Verb)
	}
	if rule.Verb == permission.Sync && revision != "" && revision != application.GetTargetRevision() {
		verbs = append(verbs, permission.Override)
	}
	// Existence and project are not disclosed.
	if !q.policy.Decide(q.caller, permission.Get, application).Allowed {
		_ = q.denied(ctx, event, "the right get is missing")
		return connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Application %s in the namespace %s of this runtime", application.GetName(), application.GetNamespace()))
	}
	for _, verb := range verbs {
		if decision := q.policy.Decide(q.caller, verb, application); !decision.Allowed {
			return q.denied(ctx, event, fmt.Sprintf("you lack the right %s on %s/%s: %s. An admin of the account can give it, by your role or by a rule",
				verb, application.GetProject(), application.GetName(), decision.Explain()))
		}
	}
	return nil
}

// denied audits a denial and returns it.
func (q *request) denied(ctx context.Context, event identity.Event, reason string) error {
	denial := &identity.DeniedError{Code: connect.CodePermissionDenied, Reason: reason}
	q.gateway.Identity.Deny(ctx, q.caller, event, denial)
	return denial
}

// action returns the audit action. Paths that are no procedure have one for
// all: unauthenticated callers choose them.
func (q *request) action() string {
	if _, known := permission.Of(q.procedure); known || q.argo != nil {
		return identity.Action(q.procedure)
	}
	return strings.Trim(q.prefix, "/") + ".request"
}

// deadline returns the timeout of a request. Streams have a long one; they
// end with their caller.
func (q *request) deadline(r *http.Request) time.Duration {
	if q.change != nil || q.prefix == wire.AppProxyPath && !streams(r) || q.argo != nil && !q.argo.procedure.Stream {
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
