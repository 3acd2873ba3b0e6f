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

	"slipway.dev/slipway/internal/platform/store"
)

// attemptWindow is the period in which failed sign-ins count.
const attemptWindow = 15 * time.Minute

// Limits of failed sign-ins in the window. One name can use only a small part
// of its address's budget, so that other users behind the same proxy are not
// locked out. A name has more attempts in total than from one address, so
// that an attacker elsewhere cannot easily lock it out.
const (
	attemptsNameAndAddress = 10
	attemptsName           = 60
	attemptsAddress        = 200
)

// limiter counts failed sign-ins in the store, shared by all replicas.
type limiter struct {
	store *store.Store
	now   func() time.Time
	// counting is held from the count to the insert, so that concurrent
	// sign-ins are not all counted as the first.
	counting sync.Mutex
}

// bound is a counter with its limit.
type bound struct {
	key  string
	most int
}

// attempt is one sign-in with its three counters.
type attempt struct {
	limiter *limiter
	pair    bound
	name    bound
	address bound
}

// attempt returns the counters of a sign-in.
func (l *limiter) attempt(name, address string) attempt {
	// Counting single IPv6 addresses would be useless against a client with a
	// whole prefix.
	from := network(address)
	// Names are hashed: users sometimes type their password into the name
	// field.
	sum := sha256.Sum256([]byte(strings.ToLower(strings.TrimSpace(name))))
	folded := hex.EncodeToString(sum[:16])
	return attempt{
		limiter: l,
		pair:    bound{"pair:" + folded + "@" + from, attemptsNameAndAddress},
		name:    bound{"name:" + folded, attemptsName},
		address: bound{"address:" + from, attemptsAddress},
	}
}

// begin fails if a limit is reached; otherwise it counts the sign-in for the
// name before the password is checked, so that concurrent sign-ins count too.
func (a attempt) begin(ctx context.Context) error {
	a.limiter.counting.Lock()
	defer a.limiter.counting.Unlock()
	// All limits are checked before any counter changes.
	for _, b := range []bound{a.pair, a.name, a.address} {
		if err := a.limiter.within(ctx, b); err != nil {
			return err
		}
	}
	if err := a.limiter.store.AddAttempt(ctx, a.pair.key); err != nil {
		return err
	}
	return a.limiter.store.AddAttempt(ctx, a.name.key)
}

// failed counts the sign-in for the address as well.
func (a attempt) failed(ctx context.Context) error {
	return a.limiter.store.AddAttempt(ctx, a.address.key)
}

// succeeded clears the counters of the name.
func (a attempt) succeeded(ctx context.Context) error {
	if err := a.limiter.store.ClearAttempts(ctx, a.pair.key); err != nil {
		return err
	}
	return a.limiter.store.ClearAttempts(ctx, a.name.key)
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
