package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/platform/store"
)

// watchInterval is how often the credential of an open stream is checked.
// Twice the interval is below the guaranteed five seconds.
const watchInterval = 2 * time.Second

// watches checks the credentials of open streams, once for all streams of a
// credential.
type watches struct {
	check func(context.Context, Caller) error

	mu   sync.Mutex
	open map[watchKey]*watch
}

type watchKey struct{ kind, id string }

// watch is the shared check of one credential; it ends with its last stream.
type watch struct {
	users  int
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Watch returns a context that ends when the caller loses access: signed out,
// revoked, expired, disabled, or with another role. Its cause is a
// *DeniedError then. The returned function must be called to release the
// watch.
func (i *Identity) Watch(ctx context.Context, caller Caller) (context.Context, context.CancelFunc) {
	if !caller.known() {
		return context.WithCancel(ctx)
	}
	// The stream's own context is derived from the request, and cancelled
	// when the shared check fails.
	shared, release := i.watches.acquire(caller)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(shared, func() { cancel(context.Cause(shared)) })
	return ctx, func() {
		unhook()
		cancel(context.Canceled)
		release()
	}
}

// acquire joins or starts the check of a credential.
func (w *watches) acquire(caller Caller) (context.Context, func()) {
	key := watchKeyOf(caller)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[watchKey]*watch)
	}
	one, ok := w.open[key]
	// A check that already failed is not reused: the new stream has just been
	// authenticated.
	if !ok || one.ctx.Err() != nil {
		one = &watch{}
		one.ctx, one.cancel = context.WithCancelCause(context.Background())
		w.open[key] = one
		go w.run(one, caller)
	}
	one.users++
	return one.ctx, sync.OnceFunc(func() { w.release(key, one) })
}

// release leaves a check; the last one stops it.
func (w *watches) release(key watchKey, one *watch) {
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

// run checks the credential until it is invalid or the last stream has ended.
// A store that is unavailable does not invalidate it.
func (w *watches) run(one *watch, caller Caller) {
	for backoff.Sleep(one.ctx, watchInterval) == nil {
		// A slow store delays the next check, but never accumulates checks.
		ctx, cancel := context.WithTimeout(one.ctx, watchInterval)
		err := w.check(ctx, caller)
		cancel()
		if denied, ok := errors.AsType[*DeniedError](err); ok {
			one.cancel(denied)
			return
		}
	}
}

// watchKeyOf identifies the credential together with its role: streams that
// started with different roles must not share a check.
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

// stillValid checks the caller's credential and permissions again.
func (i *Identity) stillValid(ctx context.Context, caller Caller) error {
	switch {
	case caller.Runtime != nil:
		_, err := i.authenticateRuntime(ctx, inbound{}, caller.proof)
		return err
	case caller.Key != nil:
		key, err := i.store.KeyByID(ctx, caller.Key.ID)
		if errors.Is(err, store.ErrNotFound) {
			return unauthenticated("the API key does not exist any more")
		}
		if err != nil {
			return err
		}
		if watchError := i.keyInvalid(key); watchError != nil {
			return watchError
		}
	case caller.Session != nil:
		if _, err := i.liveSession(ctx, caller.Session.Hash); err != nil {
			return err
		}
	}
	// User and role are loaded again, because they may have changed since the
	// stream started.
	now := Caller{Key: caller.Key}
	if err := i.loadUser(ctx, &now, caller.User.ID, caller.User.AccountID); err != nil {
		return err
	}
	if now.User.Role != caller.User.Role || !slices.Equal(now.User.Groups, caller.User.Groups) || (now.mustChangePassword() && !caller.mustChangePassword()) {
		return unauthenticated("the permissions of the user have changed; reconnect")
	}
	return nil
}
