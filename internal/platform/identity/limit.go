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

// attemptWindow is how far back failed sign-ins count.
const attemptWindow = 15 * time.Minute

// How many failed sign-ins there may be in the window. A single name can use up
// only a small part of what its address has, so that nobody behind the same proxy
// is locked out by it; and it has more in total than from one address, so that a
// stranger elsewhere does not lock it out easily.
const (
	attemptsNameAndAddress = 10
	attemptsName           = 60
	attemptsAddress        = 200
)

// limiter counts failed sign-ins in the store, for all replicas.
type limiter struct {
	store *store.Store
	now   func() time.Time
	// counting is held from the count to the entry, so that many sign-ins at once
	// are not all the first.
	counting sync.Mutex
}

type bound struct {
	key  string
	most int
}

// attempt is one sign-in that is being judged.
type attempt struct {
	limiter *limiter
	pair    bound
	name    bound
	address bound
}

func (l *limiter) attempt(name, address string) attempt {
	from := network(address)
	// Names are hashed: what people type into the field for the name may be their
	// password.
	sum := sha256.Sum256([]byte(strings.ToLower(strings.TrimSpace(name))))
	folded := hex.EncodeToString(sum[:16])
	return attempt{
		limiter: l,
		pair:    bound{"pair:" + folded + "@" + from, attemptsNameAndAddress},
		name:    bound{"name:" + folded, attemptsName},
		address: bound{"address:" + from, attemptsAddress},
	}
}

// begin refuses the sign-in when there were too many, and counts it for the name
// otherwise, before anything is checked: those that run at the same time count too.
func (a attempt) begin(ctx context.Context) error {
	a.limiter.counting.Lock()
	defer a.limiter.counting.Unlock()
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

// succeeded forgets what was counted for the name.
func (a attempt) succeeded(ctx context.Context) error {
	if err := a.limiter.store.ClearAttempts(ctx, a.pair.key); err != nil {
		return err
	}
	return a.limiter.store.ClearAttempts(ctx, a.name.key)
}

// within refuses with the time after which it is worth trying again.
func (l *limiter) within(ctx context.Context, b bound) error {
	now := l.now()
	count, err := l.store.CountAttempts(ctx, b.key, now.Add(-attemptWindow))
	if err != nil || count < b.most {
		return err
	}
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
