package identity

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/permission"
)

// gatedKey is the context key of the procedure for which the gate has checked
// the caller.
type gatedKey struct{}

// gate checks the caller by the headers, before the message is read.
func (i *Identity) gate(ctx context.Context, spec connect.Spec, peer connect.Peer, header http.Header) (context.Context, error) {
	caller, err := i.checkCaller(ctx, spec.Procedure, peer, header)
	if err != nil {
		return nil, i.apiError(err)
	}
	ctx = context.WithValue(ctx, gatedKey{}, spec.Procedure)
	return WithCaller(ctx, caller), nil
}

// checkCaller authenticates and authorizes a call, and records denials.
func (i *Identity) checkCaller(ctx context.Context, procedure string, peer connect.Peer, header http.Header) (Caller, error) {
	// Procedures are called with POST, so every call counts as unsafe.
	in := inbound{method: http.MethodPost, procedure: procedure, header: header, address: clientAddress(peer.Addr, header, i.options.TrustedProxies)}
	anonymous := Caller{Address: in.address}
	event := Event{Action: Action(procedure)}
	if rule, _ := permission.Of(procedure); rule.Permission == permission.Public {
		// Login CSRF: another site must not sign its visitor in to an
		// attacker's account.
		if err := i.sameOrigin(in); err != nil {
			i.Deny(ctx, anonymous, event, err)
			return anonymous, err
		}
		return anonymous, nil
	}
	caller, err := i.authenticate(ctx, in)
	if err != nil {
		i.Deny(ctx, anonymous, event, err)
		return anonymous, err
	}
	if err := i.Authorise(caller, procedure); err != nil {
		i.Deny(ctx, caller, event, err)
		return caller, err
	}
	return caller, nil
}

// Interceptor returns the interceptor that authenticates, authorizes by the
// permission table, audits changes, and ends streams whose caller loses
// access. HandlerOptions includes it and checks callers earlier.
func (i *Identity) Interceptor() connect.Interceptor { return interceptor{i} }

type interceptor struct{ *Identity }

// WrapStreamingClient returns next: the interceptor is for servers.
func (i interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapUnary checks and audits a unary call.
func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		// Connect uses the same interface for clients, which are not checked
		// here.
		if request.Spec().IsClient {
			return next(ctx, request)
		}
		procedure := request.Spec().Procedure
		ctx, caller, err := i.gatedCaller(ctx, procedure, request.Peer(), request.Header())
		if err != nil {
			return nil, err
		}
		var response connect.AnyResponse
		// The target is derived from the request, because the handler may
		// fail before it describes it.
		err = i.runAudited(ctx, caller, procedure, auditEvent(procedure, request.Any()), func(ctx context.Context) (err error) {
			response, err = next(ctx, request)
			return err
		})
		if err != nil {
			return nil, err
		}
		return response, nil
	}
}

// WrapStreamingHandler checks a stream when it starts and while it is open.
func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		procedure := conn.Spec().Procedure
		ctx, caller, err := i.gatedCaller(ctx, procedure, conn.Peer(), conn.RequestHeader())
		if err != nil {
			return err
		}
		return i.runAudited(ctx, caller, procedure, auditEvent(procedure, nil), func(ctx context.Context) error {
			// The watch ends with the stream; without stop its goroutine
			// would leak.
			ctx, stop := i.Watch(ctx, caller)
			defer stop()
			err := next(ctx, watchedConn{StreamingHandlerConn: conn, ctx: ctx})
			if denied := watchError(ctx); denied != nil {
				return denied.Connect()
			}
			return err
		})
	}
}

// gatedCaller returns the caller that the gate accepted, or checks the caller
// now. The gate's result is only used for the same procedure.
func (i interceptor) gatedCaller(ctx context.Context, procedure string, peer connect.Peer, header http.Header) (context.Context, Caller, error) {
	if passed, ok := ctx.Value(gatedKey{}).(string); ok && passed == procedure {
		caller, _ := ctx.Value(callerKey{}).(Caller)
		return ctx, caller, nil
	}
	caller, err := i.checkCaller(ctx, procedure, peer, header)
	if err != nil {
		return ctx, caller, i.apiError(err)
	}
	return WithCaller(ctx, caller), caller, nil
}

// runAudited runs a call and writes the audit entries that its rule requires.
func (i interceptor) runAudited(ctx context.Context, caller Caller, procedure string, begun Event, do func(context.Context) error) error {
	rule, _ := permission.Of(procedure)
	if !isAudited(rule) {
		return do(ctx)
	}
	detail := &auditDetail{caller: &caller, event: begun}
	if auditsFirst(rule) {
		begun.Outcome = OutcomeBegun
		if err := i.Record(ctx, caller, begun); err != nil {
			return i.apiError(err)
		}
	}
	err := do(context.WithValue(ctx, auditDetailKey{}, detail))
	who, event := detail.snapshot()
	var denied *DeniedError
	switch {
	// A denial by the handler is recorded like one of the gate.
	case errors.As(err, &denied):
		i.Deny(ctx, *who, event, err)
		return err
	case err != nil:
		event.Outcome, event.Code = OutcomeFailed, codeOf(err).String()
	default:
		event.Outcome, event.Code = OutcomeOK, CodeOK
	}
	// A public procedure that did not identify its caller concerns no
	// account.
	if who.Account.ID == "" && who.Runtime == nil {
		return err
	}
	// The change was made, but not recorded: the caller gets an error, unless
	// the first entry already exists.
	if written := i.Record(ctx, *who, event); written != nil && err == nil && !auditsFirst(rule) {
		return i.apiError(written)
	}
	return err
}

// codeOf returns the status code that the caller gets for an error.
func codeOf(err error) connect.Code {
	switch code := connect.CodeOf(err); {
	case code != connect.CodeUnknown:
		return code
	// Connect converts these after the interceptor.
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	default:
		return code
	}
}

// watchedConn is a stream that sends nothing after its caller has lost
// access.
type watchedConn struct {
	connect.StreamingHandlerConn
	ctx context.Context
}

// Send fails after the end of the watch.
func (c watchedConn) Send(message any) error {
	if denied := watchError(c.ctx); denied != nil {
		return denied.Connect()
	}
	return c.StreamingHandlerConn.Send(message)
}

// watchError returns why a watch ended, or nil.
func watchError(ctx context.Context) *DeniedError {
	var denied *DeniedError
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &denied) {
		return denied
	}
	return nil
}
