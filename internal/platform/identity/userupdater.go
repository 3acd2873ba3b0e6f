package identity

import (
	"context"
	"sync"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
)

// userUpdater changes users. Changes apply to the currently stored user, not
// to a copy that was read before an expensive hash was computed, so
// concurrent changes by an admin are kept.
type userUpdater struct {
	store *store.Store
	// changing is held from the read to the write. Replicas do not share it;
	// between them the window is about a millisecond.
	changing sync.Mutex
}

// change reads a user, applies change and stores the result.
func (p *userUpdater) change(ctx context.Context, accountID, id string, change func(*store.User) error) (store.User, error) {
	// The store's own transactions cannot cover the callback, because it may
	// compare with an expensive hash.
	p.changing.Lock()
	defer p.changing.Unlock()
	user, err := p.store.User(ctx, accountID, id)
	if err != nil {
		return store.User{}, err
	}
	if err := change(&user); err != nil {
		return store.User{}, err
	}
	return user, p.store.UpdateUser(ctx, user)
}

// requirePassword aborts if the password was changed since it was checked.
func requirePassword(user *store.User, checked string) error {
	if user.PasswordHash != checked {
		return &DeniedError{Code: connect.CodeAborted, Reason: "the password was changed concurrently; start again"}
	}
	return nil
}
