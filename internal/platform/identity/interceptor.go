package identity

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/permission"
)

// passKey marks a context whose caller was judged for a procedure.
type passKey struct{}

// gate judges the caller by the headers, before the message is read.
func (i *Identity) gate(ctx context.Context, spec connect.Spec, peer connect.Peer, header http.Header) (context.Context, error) {
	caller, err := i.judge(ctx, spec.Procedure, peer, header)
	if err != nil {
		return nil, i.answer(err)
	}
	ctx = context.WithValue(ctx, passKey{}, spec.Procedure)
	return WithCaller(ctx, caller), nil
}

// judge authenticates and authorises, and writes denials down.
func (i *Identity) judge(ctx context.Context, procedure string, peer connect.Peer, header http.Header) (Caller, error) {
	in := inbound{method: http.MethodPost, procedure: procedure, header: header, address: clientAddress(peer.Addr, header, i.options.TrustedProxies)}
	anybody := Caller{Address: in.address}
	event := Event{Action: Action(procedure)}
	if rule, _ := permission.Of(procedure); rule.Permission == permission.Public {
		// A page of another site must not sign its visitor in as somebody else.
		if err := i.sameOrigin(in); err != nil {
			i.deny(ctx, anybody, event, err)
			return anybody, err
		}
		return anybody, nil
	}
	caller, err := i.authenticate(ctx, in)
	if err != nil {
		i.deny(ctx, anybody, event, err)
		return anybody, err
	}
	if err := i.Authorise(caller, procedure); err != nil {
		i.deny(ctx, caller, event, err)
		return caller, err
	}
	return caller, nil
}

// Interceptor authenticates, authorises by the table of permissions, audits what
// changes something, and ends streams whose caller may not go on. HandlerOptions has
// it, and judges earlier.
func (i *Identity) Interceptor() connect.Interceptor { return interceptor{i} }

type interceptor struct{ *Identity }

// WrapStreamingClient changes nothing: this is for servers.
func (i interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapUnary judges a call and writes it down.
func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if request.Spec().IsClient {
			return next(ctx, request)
		}
		procedure := request.Spec().Procedure
		ctx, caller, err := i.admitted(ctx, procedure, request.Peer(), request.Header())
		if err != nil {
			return nil, err
		}
		var response connect.AnyResponse
		err = i.audited(ctx, caller, procedure, targetOf(procedure, request.Any()), func(ctx context.Context) (err error) {
			response, err = next(ctx, request)
			return err
		})
		if err != nil {
			return nil, err
		}
		return response, nil
	}
}

// WrapStreamingHandler judges a stream when it begins and as long as it lasts.
func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		procedure := conn.Spec().Procedure
		ctx, caller, err := i.admitted(ctx, procedure, conn.Peer(), conn.RequestHeader())
		if err != nil {
			return err
		}
		return i.audited(ctx, caller, procedure, targetOf(procedure, nil), func(ctx context.Context) error {
			ctx, stop := i.Watch(ctx, caller)
			defer stop()
			err := next(ctx, watchedConn{StreamingHandlerConn: conn, ctx: ctx})
			if denied := ended(ctx); denied != nil {
				return denied.Connect()
			}
			return err
		})
	}
}

// admitted gives the caller that the gate let in, or judges now when there is none.
func (i interceptor) admitted(ctx context.Context, procedure string, peer connect.Peer, header http.Header) (context.Context, Caller, error) {
	if passed, ok := ctx.Value(passKey{}).(string); ok && passed == procedure {
		caller, _ := ctx.Value(callerKey{}).(Caller)
		return ctx, caller, nil
	}
	caller, err := i.judge(ctx, procedure, peer, header)
	if err != nil {
		return ctx, caller, i.answer(err)
	}
	return WithCaller(ctx, caller), caller, nil
}

// audited does a call and writes it down as its rule asks.
func (i interceptor) audited(ctx context.Context, caller Caller, procedure, target string, do func(context.Context) error) error {
	rule, _ := permission.Of(procedure)
	if !audited(rule) {
		return do(ctx)
	}
	tale := &story{caller: &caller, event: Event{Action: Action(procedure), Target: target}}
	if before(rule) {
		_, event := tale.told()
		event.Outcome = OutcomeBegun
		if err := i.Record(ctx, caller, event); err != nil {
			return i.answer(err)
		}
	}
	err := do(context.WithValue(ctx, storyKey{}, tale))
	who, event := tale.told()
	var denied *DeniedError
	switch {
	case errors.As(err, &denied):
		i.deny(ctx, *who, event, err)
		return err
	case err != nil:
		event.Outcome = OutcomeFailed
		if event.Detail == "" {
			event.Detail = connect.CodeOf(err).String()
		}
	default:
		event.Outcome = OutcomeOK
	}
	if who.Account.ID == "" && who.Runtime == nil {
		return err
	}
	if written := i.Record(ctx, *who, event); written != nil && err == nil && !before(rule) {
		return i.answer(written)
	}
	return err
}

// watchedConn sends nothing once its caller may not go on.
type watchedConn struct {
	connect.StreamingHandlerConn
	ctx context.Context
}

// Send refuses after the end of the watch.
func (c watchedConn) Send(message any) error {
	if denied := ended(c.ctx); denied != nil {
		return denied.Connect()
	}
	return c.StreamingHandlerConn.Send(message)
}

// ended is why a watch ended, or nil.
func ended(ctx context.Context) *DeniedError {
	var denied *DeniedError
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &denied) {
		return denied
	}
	return nil
}
