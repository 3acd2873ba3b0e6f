package division

import (
	"context"
	"errors"
	"time"

	"slipway.dev/slipway/internal/kube"
)

// errLost means that others own what this replica had.
var errLost = errors.New("the Lease of this replica is lost")

// claim is the permission to work on a key until it is ended.
type claim struct {
	key    string
	cancel context.CancelFunc
}

// Begin claims a key. Work is done with the returned context, which ends when the key
// is lost, and whose requests write only while the Lease is valid. The caller calls end
// when nothing of the work runs any more. It returns false if this replica does not own
// the key.
func (d *Division) Begin(ctx context.Context, key string) (working context.Context, end func(), owned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.member.allows(key) {
		return nil, nil, false
	}
	lease := d.member.lease
	working, cancel := context.WithCancel(kube.WithFence(ctx, lease.check))
	made := &claim{key, cancel}
	d.claims[made] = struct{}{}
	return working, func() { d.end(made) }, true
}

// end drops a claim.
func (d *Division) end(over *claim) {
	over.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.claims, over)
	close(d.ended)
	d.ended = make(chan struct{})
}

// endLost waits until there is no claim on a key that is lost. Work may finish for the
// grace; then, or when the context is done, it is cancelled. A Lease that is not valid
// any more has no grace.
func (d *Division) endLost(ctx context.Context) {
	grace := time.NewTimer(d.grace)
	defer grace.Stop()
	cancelling := false
	for {
		left, ended, valid := d.lostClaims()
		if len(left) == 0 {
			return
		}
		if cancelling || !valid || ctx.Err() != nil {
			for _, one := range left {
				one.cancel()
			}
			<-ended
			continue
		}
		select {
		case <-ended:
		case <-grace.C:
			cancelling = true
		case <-ctx.Done():
		}
	}
}

// lostClaims returns the claims on keys that are lost, what is closed when one ends, and
// whether the Lease is valid.
func (d *Division) lostClaims() (lost []*claim, ended <-chan struct{}, valid bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.claims {
		if !d.member.allows(one.key) {
			lost = append(lost, one)
		}
	}
	return lost, d.ended, d.member != nil && d.member.lease.isValid()
}
