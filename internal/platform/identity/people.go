package identity

import (
	"context"
	"sync"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
)

// people changes users. A change is made to the user as stored now, and not as it
// was before a hash was computed: what an admin does meanwhile is not undone.
type people struct {
	store *store.Store
	// changing is held from reading to writing. Replicas do not share it; between
	// them a user is read and written within a millisecond or so.
	changing sync.Mutex
}

// change reads a user, lets it be changed, and writes it.
func (p *people) change(ctx context.Context, accountID, id string, change func(*store.User) error) (store.User, error) {
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

// passwordIs refuses when the password was changed since it was checked.
func passwordIs(user *store.User, checked string) error {
	if user.PasswordHash != checked {
		return &DeniedError{Code: connect.CodeAborted, Reason: "the password was changed at the same time; begin again"}
	}
	return nil
}
