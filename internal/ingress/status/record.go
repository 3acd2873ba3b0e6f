package status

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/internal/backoff"
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

// statusRecord is what is known of an Ingress and its status.
type statusRecord struct {
	uid     types.UID
	version string
	ours    bool
	// managed says that our field manager has the status.
	managed bool
	seen    []addressEntry
	// problems is nil for an Ingress that nothing is wrong with.
	problems *problems

	// wrote is what this process wrote last, nil for nothing.
	wrote   []addressEntry
	wroteAt time.Time
	// rewrites counts how often in a row the same was written again.
	rewrites  int
	contested bool

	failures  int
	notBefore time.Time
}

// observeObject takes over an Ingress, unless it is older than what is known: the watch is
// behind our own writes.
func (r *statusRecord) observeObject(object *networkingv1.Ingress) {
	if order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, r.version); err == nil && order < 0 {
		return
	}
	r.version = object.ResourceVersion
	r.seen = canonical(object.Status.LoadBalancer.Ingress)
	r.managed = isManaged(object)
}

func isManaged(object *networkingv1.Ingress) bool {
	for i := range object.ManagedFields {
		if entry := &object.ManagedFields[i]; entry.Manager == FieldManager && entry.Subresource == "status" {
			return true
		}
	}
	return false
}

// idle says that nothing will ever be done about the status.
func (r *statusRecord) idle() bool { return !r.ours && !r.managed }

// goal is what the status needs, with the entries that it is to have. The
// addresses are unknown when they are empty.
func (r *statusRecord) goal(where *published, found *statusDecision) (step, []addressEntry) {
	switch {
	case r.ours && len(where.addresses) > 0:
		if found.waits && found.errors.encrypted == "" && !r.hasOurAddresses() {
			// A first status would say that all is well.
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

// hasOurAddresses reports whether the status has addresses of ours.
func (r *statusRecord) hasOurAddresses() bool { return r.managed && len(r.seen) > 0 }

// next is what to do at this moment, with the entries to be written, and when to
// look again; zero when only a change is a reason to.
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

// sooner is the shorter of two times; zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// endContest ends a dispute that is over, or says when it will be.
func (r *statusRecord) endContest(now time.Time) time.Duration {
	if !r.contested {
		return 0
	}
	if rest := r.wroteAt.Add(contestCalm).Sub(now); rest > 0 {
		return rest
	}
	r.contested, r.rewrites = false, 0
	return 0
}

// wait says how long a write has to wait.
func (r *statusRecord) wait(goal step, wanted []addressEntry, now time.Time) time.Duration {
	if rest := r.notBefore.Sub(now); rest > 0 {
		return rest
	}
	if r.overwritten(goal, wanted) {
		stood := now.Sub(r.wroteAt)
		if stood >= contestCalm {
			r.rewrites, r.contested = 0, false
		}
		if r.rewrites >= contestTries && stood < contestPause {
			r.contested = true
			return contestPause - stood
		}
	}
	return 0
}

// overwritten says that what we wrote is no longer there, though we still mean it.
func (r *statusRecord) overwritten(goal step, addresses []addressEntry) bool {
	return goal == stepWrite && r.wrote != nil && sameAddresses(r.wrote, addresses)
}

// written takes over what a write brought.
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

// failed puts the next try off, and returns how long.
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
