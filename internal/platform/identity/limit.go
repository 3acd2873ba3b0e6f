package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/platform/store"
)

// attemptWindow is the period in which failed sign-ins count.
const attemptWindow = 15 * time.Minute

// Limits of failed sign-ins in the window. Strangers are clients without a
// valid device cookie of the user. Behind a proxy all of them may share one
// address, so an address is only slowed down: it never keeps a user out.
const (
	// attemptsPair is for strangers, per name and address.
	attemptsPair = 10
	// attemptsName is for strangers, per name. It is larger, so that an
	// attacker elsewhere cannot easily lock the strangers out.
	attemptsName = 60
	// attemptsKnown is for a device that has signed in as the user, or for a
	// session that changes the password. Strangers do not use it up.
	attemptsKnown = 10
	// attemptsFactor is for codes of a second factor, which have fewer values
	// than passwords: per device, and for all strangers who know the password.
	attemptsFactor = 5
	// attemptsAddress is for strangers, per address. Above it they sign in one
	// after the other, with a pause before each.
	attemptsAddress = 200
	slowPause       = 100 * time.Millisecond
)

// limiter counts failed sign-ins in the store, shared by all replicas.
type limiter struct {
	store *store.Store
	now   func() time.Time
	// counting is held from the count to the insert, so that concurrent
	// sign-ins are not all counted as the first.
	counting sync.Mutex
	// slow has the sign-ins of addresses above their limit.
	slow concurrencyLimit
}

// newLimiter returns a limiter whose slow queue has one sign-in at a time.
func newLimiter(database *store.Store, now func() time.Time) *limiter {
	return &limiter{store: database, now: now, slow: newConcurrencyLimit(1)}
}

// bound is a counter with its limit.
type bound struct {
	key  string
	most int
}

// attempt is one sign-in with its counters.
type attempt struct {
	limiter *limiter
	// bounds deny the sign-in.
	bounds []bound
	// address slows it down; its key is empty for a known device.
	address bound
}

// known returns the attempt of a device, or of a session, that has proved
// before to be the user's.
func (l *limiter) known(key string) attempt {
	return attempt{limiter: l, bounds: []bound{{key, attemptsKnown}}}
}

// factor returns the attempt to prove a second factor.
func (l *limiter) factor(key string) attempt {
	return attempt{limiter: l, bounds: []bound{{key, attemptsFactor}}}
}

// stranger returns the attempt of a client that is not known as the user's.
func (l *limiter) stranger(name, address string) attempt {
	// Counting single IPv6 addresses would be useless against a client with a
	// whole prefix.
	from := network(address)
	// Names are hashed: users sometimes type their password into the name
	// field.
	sum := sha256.Sum256([]byte(strings.ToLower(strings.TrimSpace(name))))
	folded := hex.EncodeToString(sum[:16])
	return attempt{
		limiter: l,
		bounds:  []bound{{"pair:" + folded + "@" + from, attemptsPair}, {"name:" + folded, attemptsName}},
		address: bound{"address:" + from, attemptsAddress},
	}
}

// begin fails if a limit is reached; otherwise it counts the sign-in before
// the password is checked, so that concurrent sign-ins count too. It returns
// when the sign-in may run; done must be called afterwards.
func (a attempt) begin(ctx context.Context) (done func(), err error) {
	if err := a.count(ctx); err != nil {
		return nil, err
	}
	slow, err := a.slow(ctx)
	if err != nil || !slow {
		return func() {}, err
	}
	// The pause is part of the slot: it bounds the work for a flood.
	if done, err = a.limiter.slow.acquire(ctx); err != nil {
		return nil, err
	}
	if err := backoff.Sleep(ctx, slowPause); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// count checks all limits before any counter changes.
func (a attempt) count(ctx context.Context) error {
	a.limiter.counting.Lock()
	defer a.limiter.counting.Unlock()
	for _, b := range a.bounds {
		if err := a.limiter.within(ctx, b); err != nil {
			return err
		}
	}
	for _, b := range a.bounds {
		if err := a.limiter.store.AddAttempt(ctx, b.key); err != nil {
			return err
		}
	}
	return nil
}

// slow reports whether the address is above its limit.
func (a attempt) slow(ctx context.Context) (bool, error) {
	if a.address.key == "" {
		return false, nil
	}
	count, err := a.limiter.store.CountAttempts(ctx, a.address.key, a.limiter.now().Add(-attemptWindow))
	return count >= a.address.most, err
}

// failed counts the sign-in for the address as well. Above the limit the
// count makes no difference, and a flood would only fill the table.
func (a attempt) failed(ctx context.Context) error {
	slow, err := a.slow(ctx)
	if err != nil || slow || a.address.key == "" {
		return err
	}
	return a.limiter.store.AddAttempt(ctx, a.address.key)
}

// succeeded clears the counters of the client. A known device leaves those of
// strangers alone.
func (a attempt) succeeded(ctx context.Context) error {
	for _, b := range a.bounds {
		if err := a.limiter.store.ClearAttempts(ctx, b.key); err != nil {
			return err
		}
	}
	return nil
}

// within fails at the limit, with the time after which a retry can succeed.
func (l *limiter) within(ctx context.Context, b bound) error {
	now := l.now()
	count, err := l.store.CountAttempts(ctx, b.key, now.Add(-attemptWindow))
	if err != nil || count < b.most {
		return err
	}
	// The wait is the shortest of three steps after which enough attempts
	// have left the window.
	wait := attemptWindow
	for _, sooner := range []time.Duration{time.Minute, 5 * time.Minute} {
		left, err := l.store.CountAttempts(ctx, b.key, now.Add(sooner-attemptWindow))
		if err != nil {
			return err
		}
		if left < b.most {
			wait = sooner
			break
		}
	}
	return &DeniedError{
		Code:       connect.CodeResourceExhausted,
		Reason:     fmt.Sprintf("too many failed sign-ins; try again in %d minutes", int(wait.Minutes())),
		RetryAfter: wait,
	}
}
