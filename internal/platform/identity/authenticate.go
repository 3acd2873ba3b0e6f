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

// bearerMax bounds a bearer token.
const bearerMax = 4096

// inbound holds the parts of a request that authenticate it. It serves both
// net/http requests and Connect calls.
type inbound struct {
	method    string
	procedure string
	header    http.Header
	address   string
}

// unsafe reports whether the method may change state (RFC 9110, section
// 9.2.1).
func (in inbound) unsafe() bool {
	return in.method != http.MethodGet && in.method != http.MethodHead && in.method != http.MethodOptions
}

// Authenticate returns the caller of a request: by the Authorization header
// with an API key or the access token of a runtime, otherwise by the session
// cookie. Unsafe requests with a cookie need the CSRF token and must be
// same-origin. The error is a *DeniedError or an error of the store.
func (i *Identity) Authenticate(r *http.Request) (Caller, error) {
	return i.authenticate(r.Context(), inbound{method: r.Method, procedure: r.URL.Path, header: r.Header, address: i.Address(r)})
}

// Address returns the client's address, as far as proxies are trusted.
func (i *Identity) Address(r *http.Request) string {
	return clientAddress(r.RemoteAddr, r.Header, i.options.TrustedProxies)
}

func (i *Identity) authenticate(ctx context.Context, in inbound) (Caller, error) {
	// The header takes precedence: scripts in a browser may send a key
	// explicitly.
	if values := in.header.Values("Authorization"); len(values) > 0 {
		return i.authenticateBearer(ctx, in, values)
	}
	if value := i.sessionSecret(in.header); !value.IsZero() {
		return i.authenticateSession(ctx, in, value)
	}
	return Caller{}, unauthenticated("not signed in: sign in, or send an API key in the Authorization header")
}

// authenticateBearer authenticates a bearer token. The prefix distinguishes
// API keys from access tokens.
func (i *Identity) authenticateBearer(ctx context.Context, in inbound, values []string) (Caller, error) {
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > bearerMax {
		return Caller{}, unauthenticated("send the Authorization header once, as: Bearer <API key>")
	}
	if strings.HasPrefix(token, keyPrefix) {
		return i.authenticateKey(ctx, in, token)
	}
	return i.authenticateRuntime(ctx, in, secret.New(token))
}

// authenticateRuntime authenticates a runtime by its access token.
func (i *Identity) authenticateRuntime(ctx context.Context, in inbound, token secret.Text) (Caller, error) {
	unknown := unauthenticated("the token is neither a valid API key nor a valid access token of a runtime")
	if i.options.Runtimes == nil {
		return Caller{}, unknown
	}
	runtime, err := i.options.Runtimes.VerifyRuntimeAccess(ctx, token.Reveal())
	// An unavailable store must not look like an invalid token: agents would
	// discard their credential.
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

// loadUser adds user and account to a caller. It fails for a disabled or
// deleted user.
func (i *Identity) loadUser(ctx context.Context, caller *Caller, userID, accountID string) error {
	user, err := i.store.User(ctx, accountID, userID)
	if errors.Is(err, store.ErrNotFound) {
		return unauthenticated("the user does not exist any more")
	}
	if err != nil {
		return err
	}
	if user.Disabled {
		return withAuditUser(user, errDisabled())
	}
	account, err := i.store.Account(ctx, accountID)
	if errors.Is(err, store.ErrNotFound) {
		return unauthenticated("the account does not exist any more")
	}
	caller.User, caller.Account = user, account
	return err
}

// Authorise checks whether a caller may call a procedure, such as
// /slipway.platform.v1.RuntimeService/ListRuntimes or
// /slipway.runtime.v1.ApplicationService/Sync. The error is a *DeniedError.
// The order of the checks matters: callers without a credential learn nothing
// about roles.
func (i *Identity) Authorise(caller Caller, procedure string) error {
	rule, ok := permission.Of(procedure)
	if !ok {
		return forbidden("%s is not a procedure of this platform", clean(procedure))
	}
	return i.AuthoriseRule(caller, rule)
}

// AuthoriseRule is Authorise for the row of a procedure or path.
func (i *Identity) AuthoriseRule(caller Caller, rule permission.Rule) error {
	role := string(caller.User.Role)
	switch {
	case rule.Permission == permission.Public:
		return nil
	case !caller.known():
		return unauthenticated("not signed in")
	case rule.Permission == permission.RuntimeOnly:
		if caller.Runtime == nil {
			return forbidden("this procedure needs the access token of a runtime")
		}
		return nil
	case caller.Runtime != nil:
		return forbidden("runtimes are not permitted to do this")
	case caller.mustChangePassword() && rule.Permission != permission.Self && rule.Permission != permission.Session:
		return forbidden("change your password first: %s has a one-time password", caller.User.Email)
	case i.mustAddFactor(caller) && rule.Permission != permission.Self && rule.Permission != permission.Session:
		return forbidden("add a second factor first, in the console: this platform requires one for users with a password")
	case caller.Key != nil && !scoped(caller.Key, rule):
		return forbidden("the API key %s does not permit this: its scope is %s", caller.Key.Prefix, strings.Join(caller.Key.Scopes, ", "))
	// What concerns Applications is decided when it is known which one.
	case rule.Verb == "" && !rule.Role(role):
		return forbidden("%s", rule.Missing(role))
	}
	return nil
}

// Scoped reports whether the credential of a caller includes a rule, whatever
// the rights of the user are.
func Scoped(caller Caller, rule permission.Rule) bool {
	return caller.Key == nil || scoped(caller.Key, rule)
}

// scoped reports whether the scopes of a key include a rule. Session
// procedures are never available to keys.
func scoped(key *store.Key, rule permission.Rule) bool {
	switch {
	case rule.Permission == permission.Session:
		return false
	case hasScope(key, ScopeAll):
		return true
	case hasScope(key, ScopeRead) && rule.Read:
		return true
	case hasScope(key, ScopeRuntimeRegister):
		return rule.Permission == permission.RegisterRuntime || rule.Permission == permission.Self || rule.Registering
	}
	return false
}
