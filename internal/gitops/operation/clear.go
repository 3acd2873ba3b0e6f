package operation

import (
	"context"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/plan"
)

// clearOld deletes the last objects of hooks that are to run. It reports whether
// anything was noted.
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

// clear has the object of a hook deleted. It is true when there is none.
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

// finish deletes the hooks that are spent, and says how the operation ended. It
// has not ended before they are deleted, or were tried often enough.
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

// clearSpent deletes the object of a hook that is no longer needed. It is false
// when that is to be tried again.
func (r *Run) clearSpent(ctx context.Context, step *plan.Step) bool {
	if r.spent[step.StepID] {
		return true
	}
	if !r.isDue(step.StepID) {
		return false
	}
	gone, err := true, error(nil)
	// The answer says which object is ours: another one of that name is not.
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

func phaseOf(progress plan.Progress) v1alpha1.OperationPhase {
	switch progress {
	case plan.Succeeded:
		return v1alpha1.OperationSucceeded
	case plan.Failed:
		return v1alpha1.OperationFailed
	}
	return v1alpha1.OperationRunning
}
