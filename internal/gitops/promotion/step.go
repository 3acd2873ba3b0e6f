package promotion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
)

// run is one run of a Promotion.
type run struct {
	*Controller
	record    *record
	catalog   catalog
	promotion *slipway.Promotion
	// saved is the status that the API server has.
	saved string
	now   time.Time
	// again is when to look again; 0 is when something changes.
	again time.Duration
}

// conflictDelay is how long to wait after another process wrote the object.
const conflictDelay = 50 * time.Millisecond

// advance goes on with a Promotion until it has to wait. It returns when to look again,
// and failures that are tried again.
func (c *Controller) advance(ctx context.Context, of *record) (time.Duration, error) {
	promotion, err := c.readPromotion(ctx, of.name)
	if apierrors.IsNotFound(err) {
		return 0, nil // the watch reports it
	}
	if err != nil {
		return 0, err
	}
	// The view is one state of all objects: a run does not mix two of them.
	r := &run{Controller: c, record: of, catalog: c.view(), promotion: promotion, saved: statusText(promotion), now: time.Now()}
	r.readRemote(ctx)
	err = r.advance(ctx)
	if isFinished(r.promotion) {
		r.again = 0
	}
	// A conflict is no failure: the next run reads what was written.
	if apierrors.IsConflict(err) {
		return conflictDelay, nil
	}
	if err != nil && ctx.Err() == nil && of.reported != err.Error() {
		of.reported = err.Error()
		r.announce(ctx, true, "PromotionDelayed", err.Error())
	}
	return r.again, err
}

// advance runs the phases of a Promotion.
func (r *run) advance(ctx context.Context) error {
	status := &r.promotion.Status
	switch {
	case isFinished(r.promotion) || r.promotion.DeletionTimestamp != nil:
		return nil
	// It comes before everything else: nothing is written after an abort was seen.
	case r.promotion.Spec.Abort:
		return r.finish(ctx, slipway.PromotionAborted, "it was aborted; what was written stays")
	// Pending Promotions are planned again in each run, until their plan is complete.
	case len(status.Steps) == 0:
		if err := r.begin(ctx); err != nil || len(status.Steps) == 0 {
			return err
		}
	}
	if deadline := status.DeadlineAt; deadline != nil {
		if !r.now.Before(deadline.Time) {
			return r.finish(ctx, slipway.PromotionFailed, "it has not ended by "+deadline.UTC().Format(time.RFC3339)+": "+status.Message)
		}
		r.wakeIn(deadline.Sub(r.now))
	}
	// Steps without a dependency between them advance in the same run. One whose server
	// is away does not hold back the others.
	var failures []error
	for i := range status.Steps {
		err := r.advanceStep(ctx, i)
		// A refusal does not go away by itself: a person has to change something, and starts
		// another Promotion then.
		if refused, is := errors.AsType[*refusal.Refusal](err); is {
			r.failStep(&status.Steps[i], refused.Error())
		} else if err != nil {
			if _, isLost := errors.AsType[*saveError](err); isLost || ctx.Err() != nil {
				return err
			}
			status.Steps[i].Message = refusal.Shorten("it is tried again: "+err.Error(), maxMessage)
			failures = append(failures, fmt.Errorf("%s: %w", status.Steps[i].Environment, err))
		}
		if step := &status.Steps[i]; step.Phase == slipway.StepFailed {
			return r.finish(ctx, slipway.PromotionFailed, step.Environment+": "+step.Message)
		}
	}
	if !slices.ContainsFunc(status.Steps, func(one slipway.PromotionStep) bool { return one.Phase != slipway.StepSucceeded }) {
		return r.finish(ctx, slipway.PromotionSucceeded, fmt.Sprintf("%s is in %s", status.Version, environments(status.Steps)))
	}
	r.summarize()
	return errors.Join(append(failures, r.save(ctx))...)
}

// environments lists the environments of steps for people.
func environments(steps []slipway.PromotionStep) string {
	var names []string
	for _, one := range steps {
		names = append(names, one.Environment)
	}
	return strings.Join(names, ", ")
}

// wakeIn makes the next run due, if no earlier one is.
func (r *run) wakeIn(wait time.Duration) {
	if wait = max(wait, conflictDelay); r.again == 0 || wait < r.again {
		r.again = wait
	}
}

// failStep ends a step.
func (r *run) failStep(step *slipway.PromotionStep, message string) {
	step.Phase, step.Message, step.FinishedAt = slipway.StepFailed, refusal.Shorten(message, maxMessage), r.time()
}

// advanceStep goes on with an environment until it has to wait. Steps are named by their
// index: a save replaces the status, and a pointer into the one before would be changed
// without effect.
func (r *run) advanceStep(ctx context.Context, index int) error {
	// Phases follow each other without a wait in between, until one of them waits.
	for {
		step := &r.promotion.Status.Steps[index]
		before := step.Phase
		var err error
		switch before {
		case slipway.StepPending, slipway.StepWaiting:
			err = r.enter(ctx, step)
		case slipway.StepWriting:
			err = r.writeAll(ctx, index)
		case slipway.StepReviewing:
			err = r.review(ctx, index)
		case slipway.StepVerifying:
			err = r.verify(ctx, step)
		}
		if err != nil || r.promotion.Status.Steps[index].Phase == before {
			return err
		}
	}
}

// enter waits for the environments before, for the approval and for the windows, and
// records what is going to be written.
func (r *run) enter(ctx context.Context, step *slipway.PromotionStep) error {
	// The trigger environment is no step, and was checked at the beginning.
	for _, name := range step.DependsOn {
		at := slices.IndexFunc(r.promotion.Status.Steps, func(one slipway.PromotionStep) bool { return one.Environment == name })
		if at >= 0 && r.promotion.Status.Steps[at].Phase != slipway.StepSucceeded {
			return nil
		}
	}
	if step.StartedAt == nil {
		step.StartedAt = r.time()
	}
	environment, err := r.catalog.environment(step.Environment)
	if err != nil {
		return err
	}
	isOpen, err := r.entryGates(ctx, step, environment)
	if err != nil || !isOpen {
		step.Phase = slipway.StepWaiting
		return err
	}
	// A pipeline or a person writes it. Verification is the same.
	if step.Action == v1beta1.ActionNone {
		step.Phase, step.Message = slipway.StepVerifying, "waiting for others to write it"
		return r.save(ctx)
	}
	// The status has the branches before the first of them is pushed to: this is the
	// record that makes a restart safe.
	if err := r.prepare(ctx, step); err != nil {
		return err
	}
	step.Phase, step.Message = slipway.StepWriting, "writing to "+step.Environment
	r.summarize()
	return r.save(ctx)
}

// waitingForApplications is the message of a step that was written.
const waitingForApplications = "waiting for the Applications"

// writeAll makes the commits of a step, and records each.
func (r *run) writeAll(ctx context.Context, index int) error {
	for i := range r.promotion.Status.Steps[index].Writes {
		step := &r.promotion.Status.Steps[index]
		to := &step.Writes[i]
		if to.Done {
			continue
		}
		if err := r.write(ctx, step, to); err != nil {
			return err
		}
		// The last commit and the next phase are one write of the status.
		if i == len(step.Writes)-1 {
			written(step)
		}
		made, environment := *to, step.Environment
		r.summarize()
		if err := r.save(ctx); err != nil {
			return err
		}
		if made.Commit != "" {
			r.announce(ctx, false, "Promoted", fmt.Sprintf("committed %.12s to %s for %s", made.Commit, made.Repository, environment))
		}
	}
	written(&r.promotion.Status.Steps[index])
	return r.save(ctx)
}

// written moves a step on whose commits are made.
func written(step *slipway.PromotionStep) {
	step.Phase, step.Message = slipway.StepVerifying, waitingForApplications
	if step.Action == v1beta1.ActionPullRequest {
		step.Phase, step.Message = slipway.StepReviewing, "opening a pull request"
	}
}
