package identity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// Denials need no credential to cause, so equal ones are written once per
// interval: unauthenticated clients must not be able to fill the disk.
const (
	denialInterval = 10 * time.Second
	maxDenialKeys  = 1024
)

// denialThrottle suppresses repeated denials and counts them.
type denialThrottle struct {
	mu   sync.Mutex
	seen map[denialKey]*denialState
}

type denialKey struct{ account, actor, action, address string }

type denialState struct {
	written time.Time
	more    int
}

// take reports whether a denial is written now, and how many equal ones were
// suppressed since the last.
func (d *denialThrottle) take(kind denialKey, now time.Time) (more int, write bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count, ok := d.seen[kind]
	if ok && now.Sub(count.written) < denialInterval {
		count.more++
		return 0, false
	}
	if ok {
		more = count.more
	}
	if d.seen == nil || (!ok && len(d.seen) >= maxDenialKeys) {
		// Dropping the state can only result in more entries, never in fewer.
		d.seen = make(map[denialKey]*denialState)
	}
	d.seen[kind] = &denialState{written: now}
	return more, true
}

// Deny writes a denied call to the audit log of the concerned account. A call
// by an unknown caller concerns no account and is only logged, unless it is an
// attempt to sign in.
func (i *Identity) Deny(ctx context.Context, caller Caller, event Event, err error) {
	var denied *DeniedError
	if !errors.As(err, &denied) {
		return
	}
	// The reason is written for callers and contains no secrets, so it can be
	// stored.
	event.Outcome, event.Code, event.Detail = OutcomeDenied, denied.Code.String(), denied.Reason
	actor, mark := caller.Actor()
	entry := store.AuditEntry{AccountID: caller.Account.ID, Actor: actor, ActorKind: mark, Address: caller.Address, AuditPerson: caller.person()}
	// A wrong password for a known user is recorded in that user's account.
	if !caller.known() {
		entry.AccountID, entry.Actor, entry.ActorKind, entry.AuditPerson = denied.account, denied.actor, denied.kind, denied.person
	}
	kind := denialKey{entry.AccountID, entry.Actor, event.Action, entry.Address}
	stranger := entry.AccountID == "" && event.Action == signInAction
	if stranger {
		// Strangers have many addresses, so all of them share one throttle.
		kind.address = ""
	}
	more, write := i.denials.take(kind, i.now())
	if !write {
		return
	}
	if more > 0 {
		event.Detail = fmt.Sprintf("%s (and %d more times before)", event.Detail, more)
	}
	if stranger {
		// The text in the place of the email may be a password, so the target
		// does not have it.
		entry.AccountID, entry.Actor, entry.ActorKind, event.Target = i.onlyAccount(ctx), "unknown user", KindUser, "auth"
	}
	if entry.AccountID == "" {
		i.log.Info("call denied", "action", event.Action, "address", entry.Address, "reason", event.Detail)
		return
	}
	_ = i.record(ctx, entry, event)
}

// onlyAccount returns the ID of the account if there is one: a platform with
// several does not know which one a stranger meant.
func (i *Identity) onlyAccount(ctx context.Context) string {
	accounts, err := i.store.Accounts(ctx)
	if err != nil || len(accounts) != 1 {
		return ""
	}
	return accounts[0].ID
}
