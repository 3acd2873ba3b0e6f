package identity

import (
	"context"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Caller is the authenticated caller of a request: a user, with a session or
// a key, or a runtime.
type Caller struct {
	Account store.Account
	User    store.User
	// Key or Session is the credential of the user.
	Key     *store.Key
	Session *store.Session
	// Runtime is set instead of User.
	Runtime *signing.RuntimeIdentity
	// Address is the client's address, as far as proxies are trusted.
	Address string

	// proof is the token of a runtime or the secret of a session. It is
	// needed to check the credential again while a stream is open.
	proof secret.Text
}

// Kinds of actors in the audit log.
const (
	KindUser    = "user"
	KindKey     = "key"
	KindRuntime = "runtime"
	KindSystem  = "system"
)

// Role returns the role of the user; it is empty for a runtime.
func (c Caller) Role() store.Role {
	if c.Runtime != nil {
		return ""
	}
	return c.User.Role
}

// Actor returns name and kind of the caller for the audit log.
func (c Caller) Actor() (name, kind string) {
	switch {
	case c.Runtime != nil:
		return c.Runtime.Name, KindRuntime
	// The key's name is added, so that the log distinguishes a user from
	// their scripts.
	case c.Key != nil:
		return c.User.Email + " (key " + c.Key.Name + ")", KindKey
	case c.User.ID != "":
		return c.User.Email, KindUser
	}
	return "", KindSystem
}

// person returns the user and the key for the audit log; both are empty for a
// runtime.
func (c Caller) person() store.AuditPerson {
	person := store.AuditPerson{UserID: c.User.ID, UserEmail: c.User.Email}
	if c.Key != nil {
		person.KeyID = c.Key.ID
	}
	return person
}

// known reports whether there is an authenticated caller.
func (c Caller) known() bool { return c.Runtime != nil || c.User.ID != "" }

type callerKey struct{}

// WithCaller returns a context that carries the caller.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerFrom returns the caller of a request that passed the interceptor.
// Public procedures have none.
func CallerFrom(ctx context.Context) (Caller, bool) {
	caller, ok := ctx.Value(callerKey{}).(Caller)
	return caller, ok && caller.known()
}
