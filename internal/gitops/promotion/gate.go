package promotion

import (
	"context"
	"fmt"
	"time"

	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/window"
)

// compileWindows reads the windows of an Environment. One that is malformed is refused.
func compileWindows(of *slipway.Environment) ([]window.Window, error) {
	if of.Spec.Gates == nil {
		return nil, nil
	}
	var specs []window.Spec
	// The windows of an Environment select nothing: each is for all of it.
	for _, one := range of.Spec.Gates.Windows {
		specs = append(specs, window.Spec{
			Kind: window.Kind(one.Kind), Schedule: one.Schedule, Duration: one.Duration, TimeZone: one.TimeZone, Applications: []string{"*"},
		})
	}
	compiled, err := window.Compile(specs)
	if err != nil {
		return nil, &refusal.Refusal{
			Object: refusal.Object{Group: slipway.Group, Kind: slipway.KindEnvironment, Namespace: of.Namespace, Name: of.Name},
			Field:  "spec.gates.windows", Reason: refusal.Invalid, Message: err.Error(),
		}
	}
	return compiled, nil
}

// entryGates are those before something is written: approval and windows. They are read
// from the Environment in each run, so that an operator can open or close them for a
// promotion that waits.
func (r *run) entryGates(ctx context.Context, step *slipway.PromotionStep, environment *slipway.Environment) (isOpen bool, err error) {
	gates := environment.Spec.Gates
	if gates == nil {
		return true, nil
	}
	// An approval is copied to the status when it is used: later changes of the spec do
	// not take it back.
	if gates.Approval && step.ApprovedBy == "" {
		by := approvalOf(r.promotion, step.Environment)
		if by == "" {
			message := fmt.Sprintf("waiting for approval: slipway promote approve %s %s", r.promotion.Name, step.Environment)
			if step.Message != message {
				step.Message = message
				r.announce(ctx, false, "PromotionWaiting", step.Environment+": "+message)
			}
			return false, nil
		}
		step.ApprovedBy = by
	}
	// The window is checked after the approval, so that one can be given in advance.
	windows, err := compileWindows(environment)
	if err != nil {
		return false, err
	}
	decision := window.Decide(windows, window.App{Name: step.Environment}, r.now)
	if !decision.CanSync {
		step.Message = "waiting: " + decision.Why
		if !decision.Until.IsZero() {
			r.wakeIn(decision.Until.Sub(r.now))
		}
		return false, nil
	}
	return true, nil
}

// verify waits until the Applications have what was written, and for the gates behind.
// The order matters: health comes first, because traffic of the version before says
// nothing, and traffic is only counted while all Applications are Healthy.
func (r *run) verify(ctx context.Context, step *slipway.PromotionStep) error {
	waits, err := r.unverified(ctx, step)
	if err != nil {
		return err
	}
	if waits != "" {
		step.HealthySince, step.Message = nil, "waiting: "+waits
		// Requests of a time in which it was not Healthy do not count for it.
		r.traffic.reset(r.promotion.Name, step.Environment)
		return nil
	}
	// The time is kept in the status, so that a restart does not begin it again.
	if step.HealthySince == nil {
		step.HealthySince = r.time()
	}
	environment, err := r.catalog.environment(step.Environment)
	if err != nil {
		return err
	}
	if gates := environment.Spec.Gates; gates != nil {
		if left := time.Duration(gates.HealthyFor) - r.now.Sub(step.HealthySince.Time); left > 0 && gates.HealthyFor > 0 {
			step.Message = fmt.Sprintf("Synced and Healthy since %s, waiting for %s", step.HealthySince.UTC().Format(time.RFC3339), gates.HealthyFor)
			r.wakeIn(left)
			return nil
		}
		if gates.Traffic != nil {
			isOpen, err := r.trafficGate(ctx, step, gates.Traffic)
			if err != nil || !isOpen {
				return err
			}
		}
	}
	step.Phase, step.Message, step.FinishedAt = slipway.StepSucceeded, "", r.time()
	r.summarize()
	if err := r.save(ctx); err != nil {
		return err
	}
	r.announce(ctx, false, "EnvironmentPromoted", fmt.Sprintf("%s has %s", step.Environment, r.promotion.Status.Version))
	return nil
}

// unverified is what an environment still waits for; empty if all of its Applications
// are Synced and Healthy with the values. The files of the revision decide, because
// other commits may have come behind ours.
func (r *run) unverified(ctx context.Context, step *slipway.PromotionStep) (string, error) {
	targets, err := r.targets(ctx, step)
	if err != nil {
		return "", err
	}
	from, err := r.sourceReader(ctx)
	if err != nil {
		return "", err
	}
	for _, one := range targets {
		// A hold from before the step is of an earlier version, and ends with this one.
		if held := one.app.Status.Held; held != nil && step.StartedAt != nil && held.HeldAt.After(step.StartedAt.Time) {
			return "", refusal.New("status.held", refusal.Conflict, "%s was rolled back: %s", one.app.Name, held.Message)
		}
		if reason := unready(one.app); reason != "" {
			return reason, nil
		}
		to, err := r.readerAt(ctx, &one.place, one.app.Status.Sync.Revision)
		if err != nil {
			return "", err
		}
		// Copying without writing lists the files that lack a value.
		missing, err := one.template.copy(from, to, nil)
		if err != nil {
			return "", err
		}
		if len(missing) > 0 {
			return fmt.Sprintf("%s is at %.12s, without the values of %s", one.app.Name, one.app.Status.Sync.Revision, missing[0]), nil
		}
	}
	return "", nil
}
