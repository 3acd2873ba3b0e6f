package status

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/internal/backoff"
)

// FieldManager owns the fields of a status that are written here. The entry of
// that name in an Ingress's managed fields marks its status as ours.
const FieldManager = "slipway-edge"

const (
	// A status that another controller overwrites is written again this often in
	// a row, and then once in each contestPause.
	contestTries = 3
	contestPause = 30 * time.Second
	// contestQuiet is how long a status must have lasted for a contest to be over.
	contestQuiet = 2 * time.Minute

	retryFirst = 250 * time.Millisecond
	retryLimit = time.Minute
)

// ingressKey is the namespace and name of an Ingress.
type ingressKey struct{ namespace, name string }

// step is the next operation on a status.
type step uint8

const (
	stepLeave step = iota
	stepWrite
	stepWithdraw
)

// statusRecord is the state of one Ingress: its status as last seen and written. The
// mutex of the Writer guards it.
type statusRecord struct {
	uid     types.UID
	version string
	ours    bool
	// shared is set if another controller serves the class, too.
	shared bool
	// left is set if the Ingress is no longer watched: it was deleted, or has lost
	// the label that selects it.
	left bool
	// managed is set if our field manager owns the status.
	managed bool
	seen    []addressEntry
	// problems is nil for a healthy Ingress.
	problems *problems

	// wrote are the addresses that this process wrote last, nil for none.
	wrote   []addressEntry
	wroteAt time.Time
	// rewrites counts how often in a row the same addresses were written again.
	rewrites  int
	contested bool

	failures  int
	notBefore time.Time
}

// observeObject updates the record from an Ingress, unless it is older than the
// record: the watch lags behind our own writes.
func (r *statusRecord) observeObject(object *networkingv1.Ingress) {
	if order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, r.version); err == nil && order < 0 {
		return
	}
	r.version = object.ResourceVersion
	r.seen = canonical(object.Status.LoadBalancer.Ingress)
	r.managed = isManaged(object)
}

// leave marks the Ingress as one that is no longer watched. Its resource version is
// unknown then: losing the label has changed it.
func (r *statusRecord) leave() { r.ours, r.left, r.version = false, true, "" }

func isManaged(object *networkingv1.Ingress) bool {
	for i := range object.ManagedFields {
		if entry := &object.ManagedFields[i]; entry.Manager == FieldManager && entry.Subresource == "status" {
			return true
		}
	}
	return false
}

// idle reports whether there is nothing to do for the status until the Ingress
// changes: it is neither ours nor has it a status of ours.
func (r *statusRecord) idle() bool { return !r.ours && !r.managed }

// goal returns the operation that the status needs, and the entries to write.
// Without known addresses nothing is written, so that an unknown address never
// replaces a known one.
func (r *statusRecord) goal(where *published, found *statusDecision) (step, []addressEntry) {
	switch {
	case r.ours && len(where.addresses) > 0:
		if found.waits && found.errors.encrypted == "" && !r.hasOurAddresses() {
			// A first status without errors would claim that all is served.
			return stepLeave, nil
		}
		if wanted := where.withErrors(found.errors); !sameAddresses(r.seen, wanted) {
			return stepWrite, wanted
		}
	case !r.ours && r.managed && len(r.seen) > 0 &&
		(sameWithoutErrors(r.seen, where.addresses) || sameAddresses(r.seen, r.wrote)):
		return stepWithdraw, nil
	}
	return stepLeave, nil
}

// hasOurAddresses reports whether the status has addresses that we wrote.
func (r *statusRecord) hasOurAddresses() bool { return r.managed && len(r.seen) > 0 }

// next returns the operation to do now with its entries, or stepLeave and when to
// check again; zero means after the next change only.
func (r *statusRecord) next(where *published, now time.Time) (step, []addressEntry, time.Duration) {
	found := r.decide(now)
	goal, wanted := r.goal(where, &found)
	if goal == stepLeave {
		return stepLeave, nil, sooner(found.rest, r.endContest(now))
	}
	rest := r.wait(goal, wanted, now)
	if rest > 0 {
		return stepLeave, nil, rest
	}
	return goal, wanted, 0
}

// sooner returns the shorter of two durations, where zero means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// endContest ends a contest that is over, or returns how long it still lasts.
func (r *statusRecord) endContest(now time.Time) time.Duration {
	if !r.contested {
		return 0
	}
	if rest := r.wroteAt.Add(contestQuiet).Sub(now); rest > 0 {
		return rest
	}
	r.contested, r.rewrites = false, 0
	return 0
}

// wait returns how long a write has to wait, for backoff or because the status is
// contested.
func (r *statusRecord) wait(goal step, wanted []addressEntry, now time.Time) time.Duration {
	if rest := r.notBefore.Sub(now); rest > 0 {
		return rest
	}
	if r.overwritten(goal, wanted) {
		stood := now.Sub(r.wroteAt)
		if stood >= contestQuiet {
			r.rewrites, r.contested = 0, false
		}
		if r.rewrites >= contestTries && stood < contestPause {
			r.contested = true
			return contestPause - stood
		}
	}
	return 0
}

// overwritten reports whether the write would repeat our last one, which another
// writer has replaced.
func (r *statusRecord) overwritten(goal step, addresses []addressEntry) bool {
	return goal == stepWrite && r.wrote != nil && sameAddresses(r.wrote, addresses)
}

// written updates the record after a successful write.
func (r *statusRecord) written(done step, addresses []addressEntry, object *networkingv1.Ingress, now time.Time) {
	if r.overwritten(done, addresses) {
		r.rewrites++
	}
	r.markReported(addresses, now)
	r.wrote = nil
	if done == stepWrite {
		r.wrote = addresses
	}
	r.wroteAt, r.failures, r.notBefore = now, 0, time.Time{}
	r.observeObject(object)
}

// failed delays the next attempt with backoff, and returns the delay.
func (r *statusRecord) failed(now time.Time) time.Duration {
	r.failures++
	rest := retryAfter(r.failures)
	r.notBefore = now.Add(rest)
	return rest
}

// retryAfter returns the wait after so many failures in a row. The jitter keeps
// many objects that failed together from being retried together.
func retryAfter(failures int) time.Duration {
	return backoff.Policy{First: retryFirst, Longest: retryLimit, JitterUp: 0.3}.Delay(failures)
}
