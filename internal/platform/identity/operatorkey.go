package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// scopeOperator marks a key that was made at the platform's machine. It works while
// its user has to choose a password: whoever made it could have reset that one too.
const scopeOperator = "operator"

// OperatorKey is a key that an operator at the platform's machine asks for.
type OperatorKey struct {
	// Email says whose key it is.
	Email string
	Name  string
	// Scope is one of the constants of scopes.
	Scope string
	// Life is how long it is good; 0 is for ever.
	Life time.Duration
}

// CreateOperatorKey makes an API key for a user, and writes that down as the
// system's doing. What it gives is nowhere else.
func CreateOperatorKey(ctx context.Context, database *store.Store, wanted OperatorKey) (secret.Text, error) {
	name, err := checkName("the key", wanted.Name)
	if err != nil {
		return secret.Text{}, fmt.Errorf("the name of a key must have 1 to %d printable characters", nameMax)
	}
	if wanted.Life < 0 || wanted.Life > keyLifeMax {
		return secret.Text{}, errors.New("a key is good for ten years at most, or for ever when it has no days")
	}
	user, err := database.UserByEmail(ctx, wanted.Email)
	if errors.Is(err, store.ErrNotFound) {
		return secret.Text{}, fmt.Errorf("there is no user with the email %s", clean(wanted.Email))
	}
	if err != nil {
		return secret.Text{}, err
	}
	switch {
	case wanted.Scope != ScopeAll && wanted.Scope != ScopeRead && wanted.Scope != ScopeRuntimeRegister:
		return secret.Text{}, errors.New("a key is for everything, for reading, or for registering runtimes")
	case user.Disabled:
		return secret.Text{}, fmt.Errorf("%s is disabled: an admin has to enable the user first", user.Email)
	case wanted.Scope == ScopeRuntimeRegister && user.Role != store.RoleAdmin:
		return secret.Text{}, fmt.Errorf("%s is not an admin, and only a key of an admin registers runtimes", user.Email)
	}
	id, value := newKeyText()
	key := store.Key{
		ID: id, AccountID: user.AccountID, UserID: user.ID, Name: name, Prefix: shownPrefix(id),
		Hash: hashOf(value), Scopes: []string{wanted.Scope, scopeOperator}, CreatedAt: time.Now().UTC(),
	}
	if wanted.Life > 0 {
		key.ExpiresAt = key.CreatedAt.Add(wanted.Life)
	}
	// Written first: a key that nobody can find in the audit log must not be.
	err = database.AppendAudit(ctx, store.AuditEntry{
		AccountID: user.AccountID, Actor: "command line", ActorKind: KindSystem, Action: "key.create", Target: clean("key/" + name),
		Outcome: OutcomeOK, Detail: clean(key.Prefix + " for " + user.Email),
	})
	if err != nil {
		return secret.Text{}, fmt.Errorf("the audit log could not be written, so no key was made: %w", err)
	}
	if _, err := database.CreateKey(ctx, key); err != nil {
		return secret.Text{}, err
	}
	return keyText(id, value), nil
}

// mustChoose reports whether the user has to choose a password before anything else.
func (c Caller) mustChoose() bool {
	return c.User.MustChangePassword && (c.Key == nil || !hasScope(c.Key, scopeOperator))
}
