package identity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// Denials that need no credential to cause are written once in a while: nobody must
// be able to fill the disk with them.
const (
	denialEvery = 10 * time.Second
	denialKinds = 1024
)

// denialLog counts equal denials.
type denialLog struct {
	mu   sync.Mutex
	seen map[denialKind]*denialCount
}

type denialKind struct{ account, actor, action, address string }

type denialCount struct {
	written time.Time
	more    int
}

// take reports whether the denial is to be written now, and how many like it were
// not since.
func (d *denialLog) take(kind denialKind, now time.Time) (more int, write bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count, ok := d.seen[kind]
	if ok && now.Sub(count.written) < denialEvery {
		count.more++
		return 0, false
	}
	if ok {
		more = count.more
	}
	if d.seen == nil || (!ok && len(d.seen) >= denialKinds) {
		// Forgetting writes more, and never less.
		d.seen = make(map[denialKind]*denialCount)
	}
	d.seen[kind] = &denialCount{written: now}
	return more, true
}

// deny writes a denied call to the audit log of the account that it concerns. A call
// of somebody unknown concerns none, and is in the log only.
func (i *Identity) deny(ctx context.Context, caller Caller, event Event, err error) {
	var denied *DeniedError
	if !errors.As(err, &denied) {
		return
	}
	event.Outcome, event.Detail = OutcomeDenied, denied.Reason
	actor, mark := caller.Actor()
	entry := store.AuditEntry{AccountID: caller.Account.ID, Actor: actor, ActorKind: mark, Address: caller.Address}
	if !caller.known() {
		entry.AccountID, entry.Actor, entry.ActorKind = denied.account, denied.actor, denied.kind
	}
	kind := denialKind{entry.AccountID, entry.Actor, event.Action, entry.Address}
	more, write := i.denials.take(kind, i.now())
	if !write {
		return
	}
	if more > 0 {
		event.Detail = fmt.Sprintf("%s (and %d more times before)", event.Detail, more)
	}
	if entry.AccountID == "" {
		i.log.Info("A call was denied", "action", event.Action, "address", entry.Address, "reason", event.Detail)
		return
	}
	_ = i.record(ctx, entry, event)
}
