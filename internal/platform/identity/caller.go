package identity

import (
	"context"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Caller is who asks: a user, with a session or with a key, or a runtime.
type Caller struct {
	Account store.Account
	User    store.User
	// Key or Session is what the user showed.
	Key     *store.Key
	Session *store.Session
	// Runtime is set instead of User.
	Runtime *signing.RuntimeIdentity
	// Address is where the request came from, as far as proxies can be trusted.
	Address string

	// proof is the token of a runtime or the secret of a session.
	proof secret.Text
}

// Kinds of actors in the audit log.
const (
	KindUser    = "user"
	KindKey     = "key"
	KindRuntime = "runtime"
	KindSystem  = "system"
)

// Role is the role of the caller's user; a runtime has none.
func (c Caller) Role() store.Role {
	if c.Runtime != nil {
		return ""
	}
	return c.User.Role
}

// Actor names the caller in the audit log.
func (c Caller) Actor() (name, kind string) {
	switch {
	case c.Runtime != nil:
		return c.Runtime.Name, KindRuntime
	case c.Key != nil:
		return c.User.Email + " (key " + c.Key.Name + ")", KindKey
	case c.User.ID != "":
		return c.User.Email, KindUser
	}
	return "", KindSystem
}

// known reports whether there is a caller at all.
func (c Caller) known() bool { return c.Runtime != nil || c.User.ID != "" }

type callerKey struct{}

// WithCaller gives a context that carries the caller.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerFrom gives the caller of a request that passed the interceptor. A
// procedure that is public has none.
func CallerFrom(ctx context.Context) (Caller, bool) {
	caller, ok := ctx.Value(callerKey{}).(Caller)
	return caller, ok && caller.known()
}
