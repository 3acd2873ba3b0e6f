package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// OperatorKey is the request for a key by an operator on the platform's
// machine.
type OperatorKey struct {
	// Email identifies the user of the key.
	Email string
	Name  string
	// Scope is one of the Scope constants.
	Scope string
	// Life is the lifetime of the key; 0 means unlimited.
	Life time.Duration
}

// CreateKey creates an API key for a user. The returned secret is not stored
// anywhere.
func (s System) CreateKey(ctx context.Context, wanted OperatorKey) (secret.Text, error) {
	name, err := checkName("the key", wanted.Name)
	if err != nil {
		return secret.Text{}, fmt.Errorf("the name of a key must have 1 to %d printable characters", nameMax)
	}
	if wanted.Life < 0 || wanted.Life > keyLifeMax {
		return secret.Text{}, errors.New("a key is good for ten years at most, or for ever when it has no days")
	}
	user, err := s.Store.UserByEmail(ctx, wanted.Email)
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
	// The format is the same as for keys of the API.
	id, value := newKeyText()
	key := store.Key{
		ID: id, AccountID: user.AccountID, UserID: user.ID, Name: name, Prefix: shownPrefix(id),
		Hash: hashOf(value), Scopes: []string{wanted.Scope, store.OperatorScope}, CreatedAt: time.Now().UTC(),
	}
	if wanted.Life > 0 {
		key.ExpiresAt = key.CreatedAt.Add(wanted.Life)
	}
	event := Event{Action: "key.create", Target: "key/" + name, Detail: key.Prefix + " for " + user.Email}
	err = s.Run(ctx, event, func() error {
		_, err := s.Store.CreateKey(ctx, key)
		return err
	}, user.AccountID)
	if err != nil {
		return secret.Text{}, err
	}
	return keyText(id, value), nil
}

// mustChangePassword reports whether the user must change the password before
// any other call. A key of the operator works before that: its creator could
// have reset the password as well.
func (c Caller) mustChangePassword() bool {
	return c.User.MustChangePassword && (c.Key == nil || !hasScope(c.Key, store.OperatorScope))
}
