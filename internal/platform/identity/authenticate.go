package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/permission"
)

// bearerMax bounds the token of a request.
const bearerMax = 4096

// inbound is what of a request says who asks.
type inbound struct {
	method    string
	procedure string
	header    http.Header
	address   string
}

// unsafe reports whether the request may change something.
func (in inbound) unsafe() bool {
	return in.method != http.MethodGet && in.method != http.MethodHead && in.method != http.MethodOptions
}

// Authenticate says who makes a request: by the header Authorization with an API key
// or the access token of a runtime, or else by the cookie of a session. Requests
// with a cookie that may change something need the CSRF token, and must not come
// from another site. The error is a *DeniedError, or one of the store.
func (i *Identity) Authenticate(r *http.Request) (Caller, error) {
	return i.authenticate(r.Context(), inbound{method: r.Method, procedure: r.URL.Path, header: r.Header, address: i.Address(r)})
}

// Address is where a request comes from, as far as proxies can be trusted.
func (i *Identity) Address(r *http.Request) string {
	return clientAddress(r.RemoteAddr, r.Header, i.options.TrustedProxies)
}

func (i *Identity) authenticate(ctx context.Context, in inbound) (Caller, error) {
	if values := in.header.Values("Authorization"); len(values) > 0 {
		return i.byBearer(ctx, in, values)
	}
	if value := i.sessionSecret(in.header); !value.IsZero() {
		return i.bySession(ctx, in, value)
	}
	return Caller{}, unauthenticated("nobody is signed in; sign in, or send an API key in the header Authorization")
}

func (i *Identity) byBearer(ctx context.Context, in inbound, values []string) (Caller, error) {
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > bearerMax {
		return Caller{}, unauthenticated("the header Authorization must be there once, as: Bearer <API key>")
	}
	if strings.HasPrefix(token, keyPrefix) {
		return i.byKey(ctx, in, token)
	}
	return i.byRuntime(ctx, in, secret.New(token))
}

// byRuntime knows a runtime by its access token.
func (i *Identity) byRuntime(ctx context.Context, in inbound, token secret.Text) (Caller, error) {
	unknown := unauthenticated("the token is no API key and no access token of a runtime that is good now")
	if i.options.Runtimes == nil {
		return Caller{}, unknown
	}
	runtime, err := i.options.Runtimes.VerifyRuntimeAccess(ctx, token.Reveal())
	if errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		return Caller{}, err
	}
	if err != nil {
		return Caller{}, unknown
	}
	account, err := i.store.Account(ctx, runtime.AccountID)
	if errors.Is(err, store.ErrNotFound) {
		return Caller{}, unknown
	}
	return Caller{Account: account, Runtime: &runtime, Address: in.address, proof: token}, err
}

// loadUser completes a caller with the user and the account. A user who is disabled
// or gone is nobody.
func (i *Identity) loadUser(ctx context.Context, caller *Caller, userID, accountID string) error {
	user, err := i.store.User(ctx, accountID, userID)
	if errors.Is(err, store.ErrNotFound) {
		return unauthenticated("the user does not exist any more")
	}
	if err != nil {
		return err
	}
	if user.Disabled {
		return inAuditOf(user, errDisabled())
	}
	account, err := i.store.Account(ctx, accountID)
	if errors.Is(err, store.ErrNotFound) {
		return unauthenticated("the account does not exist any more")
	}
	caller.User, caller.Account = user, account
	return err
}

// Authorise says whether a caller may call a procedure, such as
// /slipway.runtime.v1.ApplicationService/Sync. The error is a *DeniedError.
func (i *Identity) Authorise(caller Caller, procedure string) error {
	rule, ok := permission.Of(procedure)
	switch {
	case !ok:
		return forbidden("%s is not a procedure of this platform", clean(procedure))
	case rule.Permission == permission.Public:
		return nil
	case !caller.known():
		return unauthenticated("nobody is signed in")
	case rule.Permission == permission.RuntimeOnly:
		if caller.Runtime == nil {
			return forbidden("only runtimes may do this, with their access token")
		}
		return nil
	case caller.Runtime != nil:
		return forbidden("a runtime may not do this")
	case caller.mustChoose() && rule.Permission != permission.Self && rule.Permission != permission.Session:
		return forbidden("choose a password first: the one of %s is good once", caller.User.Email)
	case caller.Key != nil && !scoped(caller.Key, rule):
		return forbidden("the API key %s may not do this: its scope is %s", caller.Key.Prefix, strings.Join(caller.Key.Scopes, ", "))
	case !rule.Role(string(caller.User.Role)):
		return forbidden("only an admin of the account may do this")
	}
	return nil
}

// scoped reports whether one of the scopes of a key is enough.
func scoped(key *store.Key, rule permission.Rule) bool {
	switch {
	case rule.Permission == permission.Session:
		return false
	case hasScope(key, ScopeAll):
		return true
	case hasScope(key, ScopeRead) && rule.Read:
		return true
	case hasScope(key, ScopeRuntimeRegister):
		return rule.Permission == permission.RegisterRuntime || rule.Permission == permission.Self
	}
	return false
}
