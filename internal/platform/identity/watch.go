package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// watchEvery is how often the credential of an open stream is looked at. Twice that
// is less than the five seconds that are promised.
const watchEvery = 2 * time.Second

// watches looks at the credentials of open streams: one look for all streams of a
// credential.
type watches struct {
	check func(context.Context, Caller) error

	mu   sync.Mutex
	open map[watchKey]*watch
}

type watchKey struct{ kind, id string }

type watch struct {
	users  int
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Watch gives a context that ends when the caller may not go on: signed out, revoked,
// expired, disabled, or with another role. Its cause is a *DeniedError then. The
// stop function must be called.
func (i *Identity) Watch(ctx context.Context, caller Caller) (context.Context, context.CancelFunc) {
	if !caller.known() {
		return context.WithCancel(ctx)
	}
	shared, release := i.watches.join(caller)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(shared, func() { cancel(context.Cause(shared)) })
	return ctx, func() {
		unhook()
		cancel(context.Canceled)
		release()
	}
}

func (w *watches) join(caller Caller) (context.Context, func()) {
	key := watchKeyOf(caller)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[watchKey]*watch)
	}
	one, ok := w.open[key]
	if !ok || one.ctx.Err() != nil {
		one = &watch{}
		one.ctx, one.cancel = context.WithCancelCause(context.Background())
		w.open[key] = one
		go w.run(one, caller)
	}
	one.users++
	return one.ctx, sync.OnceFunc(func() { w.leave(key, one) })
}

func (w *watches) leave(key watchKey, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.users--
	if one.users > 0 {
		return
	}
	one.cancel(context.Canceled)
	if w.open[key] == one {
		delete(w.open, key)
	}
}

// run looks until the credential is not good any more or nobody needs to know. A
// store that does not answer says nothing about the credential.
func (w *watches) run(one *watch, caller Caller) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-one.ctx.Done():
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(one.ctx, watchEvery)
		err := w.check(ctx, caller)
		cancel()
		var denied *DeniedError
		if errors.As(err, &denied) {
			one.cancel(denied)
			return
		}
	}
}

// watchKeyOf names the credential, and the role that it had.
func watchKeyOf(caller Caller) watchKey {
	switch {
	case caller.Runtime != nil:
		return watchKey{KindRuntime, hex.EncodeToString(hashOf(caller.proof))}
	case caller.Key != nil:
		return watchKey{KindKey + " " + string(caller.User.Role), caller.Key.ID}
	case caller.Session != nil:
		return watchKey{KindUser + " " + string(caller.User.Role), hex.EncodeToString(caller.Session.Hash)}
	}
	return watchKey{KindSystem, caller.User.ID}
}

// stillValid says whether what the caller showed is still good.
func (i *Identity) stillValid(ctx context.Context, caller Caller) error {
	switch {
	case caller.Runtime != nil:
		_, err := i.byRuntime(ctx, inbound{}, caller.proof)
		return err
	case caller.Key != nil:
		key, err := i.store.KeyByID(ctx, caller.Key.ID)
		if errors.Is(err, store.ErrNotFound) {
			return unauthenticated("the API key does not exist any more")
		}
		if err != nil {
			return err
		}
		if ended := i.keyEnded(key); ended != nil {
			return ended
		}
	case caller.Session != nil:
		if _, err := i.liveSession(ctx, caller.Session.Hash); err != nil {
			return err
		}
	}
	now := Caller{Key: caller.Key}
	if err := i.loadUser(ctx, &now, caller.User.ID, caller.User.AccountID); err != nil {
		return err
	}
	if now.User.Role != caller.User.Role || (now.mustChoose() && !caller.mustChoose()) {
		return unauthenticated("what the user may do has changed; begin again")
	}
	return nil
}
