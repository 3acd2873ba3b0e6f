package operation

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/plan"
)

const (
	// refetchDelay is how soon an object is read again that no watch has.
	refetchDelay = 5 * time.Second
	// missingGrace is how long a resource may be missing that was deleted after
	// we applied it. A controller may create it again.
	missingGrace = time.Minute
)

// observation is what was found under the key of a step.
type observation struct {
	object *found
	// last is how the object was before it went.
	last *found
}

// find reads the object of a step from the watches, or else from the API
// server. It returns false when neither has a result now.
func (r *Run) find(ctx context.Context, step *plan.Step) (observation, bool) {
	if object := r.view.get(step.Key); object != nil {
		return observation{object: object}, true
	}
	seen := observation{}
	if last := r.view.last(step.Key); last != nil && r.isExpected(step, last) {
		seen.last = last
	}
	if seen.last != nil && (step.Action == plan.Remove || step.Hook != nil) {
		return seen, true
	}
	// No watch had it, or it lost the label that watches are filtered by.
	object, err := r.view.fetch(ctx, step.Key, versionOf(step))
	if err != nil {
		r.Log.Debug("cannot look", "object", step.Key.String(), "problem", err.Error())
		r.wake(r.Now().Add(refetchDelay))
		return observation{}, false
	}
	if object != nil {
		r.wake(r.Now().Add(refetchDelay))
	}
	seen.object = object
	return seen, true
}

// isExpected reports whether an object that was deleted is the one of the step,
// and not an earlier one of that name.
func (r *Run) isExpected(step *plan.Step, last *found) bool {
	switch uid, isCleared := r.clearing[step.StepID]; {
	case step.Action == plan.Remove:
		return last.uid == step.Live.GetUID()
	case r.State.Mark(step.StepID).Clearing && isCleared:
		return last.uid == uid
	}
	return !r.isAnother(step, last)
}

// versionOf is the API version that a step is about.
func versionOf(step *plan.Step) string {
	if object := cmp.Or(step.Object, step.Live); object != nil {
		return object.GroupVersionKind().Version
	}
	return ""
}

// observe records the state of the objects of steps that wait.
func (r *Run) observe(ctx context.Context, steps []*plan.Step) {
	if r.Plan.DryRun || r.Plan.Blocked {
		return
	}
	for _, step := range steps {
		mark := r.State.Mark(step.StepID)
		switch {
		case mark.Clearing && mark.Progress == plan.Pending:
			r.observeOld(ctx, step)
		case mark.Progress != plan.Running:
		case step.Action == plan.Remove:
			r.observeRemoval(ctx, step)
		default:
			r.observeApplied(ctx, step)
		}
	}
}

// observeOld checks whether the old object of a hook is gone, or another one
// has its name. One that is not deleted in time fails the hook.
func (r *Run) observeOld(ctx context.Context, step *plan.Step) {
	seen, known := r.find(ctx, step)
	switch {
	case !known:
		return
	case seen.object == nil || seen.object.uid != r.clearing[step.StepID]:
		r.State.Gone(step)
		return
	}
	if status := r.leaving(seen.object); status != nil && status.Code == v1alpha1.Degraded {
		r.State.Refused(step.StepID, bounded("the object of the last run does not go: "+status.Message, maxText))
	}
}

// leaving returns the health of an object that is being deleted, which becomes
// Degraded at a deadline; nil if the deletion is not visible yet. It schedules
// the Advance at that deadline.
func (r *Run) leaving(found *found) *health.Status {
	object := found.decode()
	deleted := object.GetDeletionTimestamp()
	if deleted == nil || slices.Contains(object.GetFinalizers(), health.HookFinalizer) {
		return nil // the watch does not know yet, or the finalizer is ours to remove
	}
	status := r.Health.ForSync(object, r.Now())
	if limit, limited := health.Deadline(object); limited && status != nil && status.Code == v1alpha1.Progressing {
		r.wake(deleted.Add(limit))
	}
	return status
}

// observeRemoval checks whether a deleted object is gone, or another one has
// its name.
func (r *Run) observeRemoval(ctx context.Context, step *plan.Step) {
	seen, known := r.find(ctx, step)
	switch {
	case !known:
		return
	case seen.object == nil || seen.object.uid != step.Live.GetUID():
		r.State.Gone(step)
		return
	}
	status := r.leaving(seen.object)
	if status == nil {
		return
	}
	code := plan.Health(status.Code)
	if step.Phase == plan.Delete && code == plan.Degraded {
		code = plan.Progressing // the Application cannot go before its objects
	}
	r.State.Observe(step, code, status.Message)
}

// observeApplied takes the health of an object that was applied. An object that
// is older than our write does not count.
func (r *Run) observeApplied(ctx context.Context, step *plan.Step) {
	seen, known := r.find(ctx, step)
	switch {
	case !known:
	case seen.object == nil:
		r.observeAbsent(step, seen.last)
	case r.isOlder(step, seen.object):
	case step.Hook != nil && r.isAnother(step, seen.object):
		r.State.Gone(step)
	case r.isAssessed(step, seen.object):
	default:
		r.assess(step, seen.object.decode())
	}
}

// assessment is the version of an object whose health was taken, and until when
// that holds.
type assessment struct {
	version string
	until   time.Time
}

// isAssessed reports whether the health of this version was taken already. When
// one of many objects changes, the others need not be decoded again.
func (r *Run) isAssessed(step *plan.Step, object *found) bool {
	last, ok := r.assessed[step.StepID]
	if !ok || last.version != object.version || !last.until.IsZero() && !r.Now().Before(last.until) {
		return false
	}
	if !last.until.IsZero() {
		r.wake(last.until)
	}
	return true
}

// isOlder reports whether an object is older than the response to our write.
// Versions that cannot be compared count as new.
func (r *Run) isOlder(step *plan.Step, object *found) bool {
	own, ok := r.written[step.StepID]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.version, own.version)
	return err == nil && order < 0
}

// isAnother reports whether an object is not the one that we wrote.
func (r *Run) isAnother(step *plan.Step, object *found) bool {
	own, ok := r.written[step.StepID]
	return ok && own.uid != object.uid
}

// observeAbsent handles an object that was applied and is gone. The last state
// of a hook shows whether it had finished.
func (r *Run) observeAbsent(step *plan.Step, last *found) {
	if step.Hook == nil {
		r.observeMissing(step)
		return
	}
	if last != nil {
		if status := r.ownStatus(last.decode()); isFinal(status) {
			r.State.Observe(step, plan.Health(status.Code), status.Message)
			return
		}
	}
	r.State.Gone(step)
}

// observeMissing handles a resource that was deleted by another client after it
// was applied.
func (r *Run) observeMissing(step *plan.Step) {
	r.State.Gone(step)
	if _, ok := r.absent[step.StepID]; !ok {
		r.absent[step.StepID] = r.Now()
	}
	if end := r.absent[step.StepID].Add(missingGrace); r.Now().Before(end) {
		r.wake(end)
		return
	}
	r.State.Observe(step, plan.Degraded, "it was deleted by another client")
}

// assess records the health of an object that was applied, with the deadline of
// its progress.
func (r *Run) assess(step *plan.Step, object *unstructured.Unstructured) {
	now := r.Now()
	delete(r.absent, step.StepID)
	status := r.Health.ForSync(object, now)
	if step.Hook != nil && object.GetDeletionTimestamp() != nil {
		// How it ended counts, also while it is being deleted.
		if own := r.ownStatus(object); isFinal(own) {
			status = own
		}
	}
	if status == nil {
		r.State.Observe(step, plan.NoHealth, "")
		return
	}
	since := r.clock(step, object)
	status = health.WithDeadline(status, object, since, now)
	message := status.Message
	if message == "" && status.Code != v1alpha1.Healthy {
		message = "it is " + string(status.Code)
	}
	r.State.Observe(step, plan.Health(status.Code), message)
	end := assessment{version: object.GetResourceVersion()}
	if limit, limited := health.Deadline(object); limited && status.Code == v1alpha1.Progressing {
		end.until = since.Add(limit)
		if deleted := object.GetDeletionTimestamp(); deleted != nil && deleted.Add(limit).Before(end.until) {
			end.until = deleted.Add(limit)
		}
		r.wake(end.until)
	}
	r.assessed[step.StepID] = end
}

// clock is since when a step waits for its object to be healthy.
func (r *Run) clock(step *plan.Step, object *unstructured.Unstructured) time.Time {
	if since, ok := r.since[step.StepID]; ok {
		return since
	}
	since := latest(r.Began, object.GetCreationTimestamp().Time)
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == apply.Manager && entry.Time != nil {
			since = latest(since, entry.Time.Time)
		}
	}
	if since.After(r.Now()) {
		since = r.Now() // the API server's clock is ahead of ours
	}
	r.since[step.StepID] = since
	return since
}

func latest(first, second time.Time) time.Time {
	if second.After(first) {
		return second
	}
	return first
}

// ownStatus is the health of an object as if it were not being deleted.
func (r *Run) ownStatus(object *unstructured.Unstructured) *health.Status {
	kept := object.DeepCopy()
	kept.SetDeletionTimestamp(nil)
	return r.Health.ForSync(kept, r.Now())
}

// isFinal reports whether a hook with this health has finished.
func isFinal(status *health.Status) bool {
	return status != nil && (status.Code == v1alpha1.Healthy || status.Code == v1alpha1.Degraded)
}
