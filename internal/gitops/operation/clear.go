package operation

import (
	"context"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/plan"
)

// clearOld deletes the objects that hooks left in an earlier operation. It
// reports whether any state changed.
func (r *Run) clearOld(ctx context.Context, steps []*plan.Step) bool {
	noted := false
	for _, step := range steps {
		if ctx.Err() != nil || !r.isDue(step.StepID) {
			continue
		}
		gone, err := r.clear(ctx, step)
		switch {
		case gone:
			r.State.Gone(step)
		case err == nil:
			r.State.Clearing(step.StepID)
		case ctx.Err() != nil || r.retryLater(step, err):
			continue
		default:
			r.State.Refused(step.StepID, "the object of the last run could not be deleted: "+errorText(step, err))
		}
		delete(r.retries, step.StepID)
		noted = true
	}
	return noted
}

// clear requests the deletion of a hook's object. It returns true when there is
// none.
func (r *Run) clear(ctx context.Context, step *plan.Step) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	seen, known := r.find(ctx, step)
	if !known {
		return false, errUnknown
	}
	if seen.object == nil {
		return true, nil
	}
	object := seen.object.decode()
	waits := slices.Contains(object.GetFinalizers(), health.HookFinalizer)
	r.clearing[step.StepID] = seen.object.uid
	if object.GetDeletionTimestamp() != nil && !waits {
		return false, nil // it goes already
	}
	return false, r.Applier.Clear(ctx, step.Key, seen.object.uid)
}

// finish deletes the hooks whose policy requires it, and returns the outcome.
// The operation does not end before they are deleted, or the retries are used
// up.
func (r *Run) finish(ctx context.Context, decision plan.Decision) Outcome {
	open := false
	for _, step := range decision.Clear {
		if !r.clearSpent(ctx, step) {
			open = true
		}
	}
	outcome := Outcome{Phase: phaseOf(decision.Phase), Message: decision.Message, Again: r.again}
	if open {
		outcome.Phase = v1alpha1.OperationRunning
		if r.State.Terminated {
			outcome.Phase = v1alpha1.OperationTerminating
		}
		outcome.Message = "deleting hooks that have finished"
		for _, step := range decision.Clear {
			if try := r.retries[step.StepID]; try != nil {
				outcome.Waiting = append(outcome.Waiting, try.text(step))
			}
		}
		outcome.Waiting = shorten(outcome.Waiting, maxWaiting)
		return outcome
	}
	if decision.Phase == plan.Succeeded {
		outcome.Message = r.success()
	}
	for _, text := range r.notDeleted {
		outcome.Message += "; " + text
	}
	outcome.Message = bounded(outcome.Message, maxMessage)
	return outcome
}

// clearSpent deletes the object of a hook that has finished. It returns false
// if the deletion will be retried.
func (r *Run) clearSpent(ctx context.Context, step *plan.Step) bool {
	if r.spent[step.StepID] {
		return true
	}
	if !r.isDue(step.StepID) {
		return false
	}
	gone, err := true, error(nil)
	// The response to our write has the uid: another object of that name stays.
	if object := r.view.get(step.Key); object == nil || !r.isAnother(step, object) {
		gone, err = r.clear(ctx, step)
	}
	switch {
	case err == nil && r.State.Terminated && gone:
		r.State.Gone(step)
	case err == nil && r.State.Terminated:
		r.State.Observe(step, plan.Degraded, "it was terminated with the operation")
	case err == nil:
	case ctx.Err() != nil:
		r.wake(r.Now())
		return false
	case r.retryLater(step, err):
		return false
	default:
		r.notDeleted = append(r.notDeleted, step.Key.String()+" could not be deleted: "+errorText(step, err))
	}
	r.spent[step.StepID] = true
	return true
}

// phaseOf translates the progress of a plan.
func phaseOf(progress plan.Progress) v1alpha1.OperationPhase {
	switch progress {
	case plan.Succeeded:
		return v1alpha1.OperationSucceeded
	case plan.Failed:
		return v1alpha1.OperationFailed
	}
	return v1alpha1.OperationRunning
}
