package status

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
)

// FieldManager is who owns what is written to a status. The entry of that name
// in an Ingress's managed fields says that its status is ours.
const FieldManager = "slipway-edge"

const (
	// A controller that overwrites our status is answered this often in a row,
	// and then once in each contestPause.
	contestTries = 3
	contestPause = 30 * time.Second
	// contestCalm is how long a status must have stood for a dispute to be over.
	contestCalm = 2 * time.Minute

	retryFirst = 250 * time.Millisecond
	retryLimit = time.Minute
)

// ingressKey is a namespace and a name.
type ingressKey struct{ namespace, name string }

// step is what is to be done about a status.
type step uint8

const (
	stepLeave step = iota
	stepWrite
	stepWithdraw
)

// record is what is known of an Ingress and its status.
type record struct {
	uid     types.UID
	version string
	ours    bool
	// signed says that our field manager has the status.
	signed bool
	seen   []addressEntry

	// wrote is what this process wrote last, nil for nothing.
	wrote   []addressEntry
	wroteAt time.Time
	// rewrites counts how often in a row the same was written again.
	rewrites  int
	contested bool

	failures  int
	notBefore time.Time
}

// see takes over an Ingress, unless it is older than what is known: the watch is
// behind our own writes.
func (r *record) see(object *networkingv1.Ingress) {
	if order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, r.version); err == nil && order < 0 {
		return
	}
	r.version = object.ResourceVersion
	r.seen = canonical(object.Status.LoadBalancer.Ingress)
	r.signed = isSigned(object)
}

func isSigned(object *networkingv1.Ingress) bool {
	for i := range object.ManagedFields {
		if entry := &object.ManagedFields[i]; entry.Manager == FieldManager && entry.Subresource == "status" {
			return true
		}
	}
	return false
}

// idle says that nothing will ever be done about the status.
func (r *record) idle() bool { return !r.ours && !r.signed }

// goal is what the status needs. The addresses are unknown when they are empty.
func (r *record) goal(addresses []addressEntry) step {
	switch {
	case r.ours && len(addresses) > 0 && !sameAddresses(r.seen, addresses):
		return stepWrite
	case !r.ours && r.signed && len(r.seen) > 0 &&
		(sameAddresses(r.seen, addresses) || sameAddresses(r.seen, r.wrote)):
		return stepWithdraw
	}
	return stepLeave
}

// next is what to do at this moment, and when to look again; zero when only a
// change is a reason to.
func (r *record) next(addresses []addressEntry, now time.Time) (step, time.Duration) {
	goal := r.goal(addresses)
	if goal == stepLeave {
		if !r.contested {
			return stepLeave, 0
		}
		if rest := r.wroteAt.Add(contestCalm).Sub(now); rest > 0 {
			return stepLeave, rest
		}
		r.contested, r.rewrites = false, 0
		return stepLeave, 0
	}
	if rest := r.notBefore.Sub(now); rest > 0 {
		return stepLeave, rest
	}
	if r.overwritten(goal, addresses) {
		stood := now.Sub(r.wroteAt)
		if stood >= contestCalm {
			r.rewrites, r.contested = 0, false
		}
		if r.rewrites >= contestTries && stood < contestPause {
			r.contested = true
			return stepLeave, contestPause - stood
		}
	}
	return goal, 0
}

// overwritten says that what we wrote is no longer there, though we still mean it.
func (r *record) overwritten(goal step, addresses []addressEntry) bool {
	return goal == stepWrite && r.wrote != nil && sameAddresses(r.wrote, addresses)
}

// written takes over what a write brought.
func (r *record) written(done step, addresses []addressEntry, object *networkingv1.Ingress, now time.Time) {
	if r.overwritten(done, addresses) {
		r.rewrites++
	}
	r.wrote = nil
	if done == stepWrite {
		r.wrote = addresses
	}
	r.wroteAt, r.failures, r.notBefore = now, 0, time.Time{}
	r.see(object)
}

// failed puts the next try off, and returns how long.
func (r *record) failed(now time.Time) time.Duration {
	r.failures++
	rest := retryAfter(r.failures)
	r.notBefore = now.Add(rest)
	return rest
}

// retryAfter doubles with each failure. The jitter keeps many objects that
// failed together from coming back together.
func retryAfter(failures int) time.Duration {
	pause := retryFirst
	for range failures - 1 {
		if pause *= 2; pause >= retryLimit {
			pause = retryLimit
			break
		}
	}
	return wait.Jitter(pause, 0.3)
}
