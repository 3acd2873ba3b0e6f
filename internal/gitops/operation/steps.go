package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
)

const (
	// stepTimeout bounds one step. What is replaced by force waits that long for
	// the old object to go, and then tries again.
	stepTimeout = time.Minute
	// maxTries is how often something is tried that may go well the next time.
	// With the pauses between, that is about two and a half minutes.
	maxTries   = 10
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// writtenVersion is what is remembered of what the API server said to our write.
type writtenVersion struct {
	uid     types.UID
	version string
}

// attempt is something that failed and is tried again.
type attempt struct {
	count   int
	next    time.Time
	problem string
}

func (a *attempt) text(step *plan.Step) string {
	return bounded(fmt.Sprintf("another try with %s: %s", step.Key, a.problem), maxText)
}

// retryLater notes a failure that may go well the next time. It is false when it
// is one that will not, or when it was tried often enough.
func (r *Run) retryLater(step *plan.Step, err error) bool {
	if !isRetryable(step, err) {
		return false
	}
	try := r.retries[step.StepID]
	if try == nil {
		try = &attempt{}
		r.retries[step.StepID] = try
	}
	try.count++
	if try.count >= maxTries {
		delete(r.retries, step.StepID)
		return false
	}
	pause := min(maxPause, firstPause<<(try.count-1))
	try.next, try.problem = r.Now().Add(pause), errorText(step, err)
	r.wake(try.next)
	r.Log.Info("trying again", "object", step.Key.String(), "action", string(step.Action), "try", try.count,
		"in", pause.String(), "problem", try.problem)
	return true
}

// isRetryable reports whether the same request may go well later.
func isRetryable(step *plan.Step, err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true // stepTimeout: that of the caller is looked at before
	}
	var fault *apply.Error
	if !errors.As(err, &fault) {
		return false
	}
	switch fault.Kind {
	case apply.Transient, apply.Conflict:
		return true
	case apply.NotFound:
		// The kind is defined by this very sync, and not served everywhere yet.
		return step.Options.SkipDryRun
	}
	return false
}

// errUnknown is that an object cannot be looked at now.
var errUnknown = &apply.Error{Kind: apply.Transient, Message: "the API server could not be asked for the object"}

// isDue reports whether something may be tried now.
func (r *Run) isDue(id plan.StepID) bool {
	try := r.retries[id]
	if try == nil || !try.next.After(r.Now()) {
		return true
	}
	r.wake(try.next)
	return false
}

func (r *Run) due(steps []*plan.Step) []*plan.Step {
	return slices.DeleteFunc(slices.Clone(steps), func(step *plan.Step) bool { return !r.isDue(step.StepID) })
}

// stepOutcome is what became of one step.
type stepOutcome struct {
	tried  bool
	answer *unstructured.Unstructured
	before *unstructured.Unstructured
	err    error
}

// runSteps runs steps together, and notes what became of them. It reports
// whether anything did.
func (r *Run) runSteps(ctx context.Context, steps []*plan.Step) bool {
	all := make([]stepOutcome, len(steps))
	var group errgroup.Group
	group.SetLimit(r.Parallel)
	for i, step := range steps {
		if ctx.Err() != nil || r.interrupted() {
			break
		}
		group.Go(func() error {
			all[i] = r.do(ctx, step)
			return nil
		})
	}
	_ = group.Wait()
	changed := false
	var newKinds []schema.GroupKind
	for i, step := range steps {
		if !all[i].tried {
			continue
		}
		if r.note(ctx, step, all[i]) {
			changed = true
		}
		if step.Options.SkipDryRun && all[i].err == nil && !slices.Contains(newKinds, step.Key.GroupKind()) {
			newKinds = append(newKinds, step.Key.GroupKind())
		}
	}
	r.follow(ctx, newKinds)
	return changed
}

// follow has kinds watched that the cluster did not have when the plan was
// built. Without it the objects are asked for from time to time.
func (r *Run) follow(ctx context.Context, kinds []schema.GroupKind) {
	if len(kinds) == 0 || r.Plan.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := r.Live.Follow(ctx, kinds); err != nil {
		r.Log.Info("new kinds are not watched", "kinds", len(kinds), "problem", err.Error())
	}
}

// do runs one step. It changes nothing of the Run: several run at a time.
func (r *Run) do(ctx context.Context, step *plan.Step) stepOutcome {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	options := apply.Options{DryRun: r.Plan.DryRun, Ignore: r.Ignore}
	result := stepOutcome{tried: true, before: step.Live}
	switch {
	case step.Leaving():
	case step.Action == plan.Remove:
		result.err = r.Applier.Delete(ctx, step, options)
	case r.Plan.DryRun && r.cannotDryRun(step):
	default:
		current := r.current(step)
		result.before = current.Live
		result.answer, result.err = r.Applier.Apply(ctx, current, options)
		if result.err == nil && !r.Plan.DryRun {
			r.Live.Note(result.answer)
		}
	}
	return result
}

// current is a step with what is live now. That of the plan may be older, and
// the old object of a hook is gone by now.
func (r *Run) current(step *plan.Step) *plan.Step {
	version := ""
	if step.Live != nil {
		version = step.Live.GetResourceVersion()
	}
	cached := r.view.get(step.Key)
	isCleared := step.Hook != nil && r.State.Mark(step.StepID).Cleared
	copied := *step
	switch {
	case cached != nil && cached.version != version:
		copied.Live = cached.decode()
	case cached == nil && isCleared:
		copied.Live = nil
	default:
		return step
	}
	switch {
	case copied.Action == plan.Replace && copied.Live == nil:
		copied.Action = plan.CreateOnly
	case copied.Action == plan.CreateOnly && copied.Live != nil:
		copied.Action = plan.Replace
	}
	return &copied
}

// cannotDryRun reports whether the API server cannot be asked what would happen:
// the object's namespace does not exist before the sync, or there is an old
// object of a hook, which the sync would delete first.
func (r *Run) cannotDryRun(step *plan.Step) bool {
	if step.Hook != nil && step.Live != nil && step.Hook.Has(plan.BeforeHookCreation) {
		return true
	}
	return step.Key.Namespace != "" && slices.ContainsFunc(r.Plan.Steps(), func(other *plan.Step) bool {
		return other.Action != plan.Remove && other.Live == nil && other.Key.Group == "" &&
			other.Key.Kind == "Namespace" && other.Key.Name == step.Key.Namespace
	})
}

// note keeps what became of a step. It is false when nothing did.
func (r *Run) note(ctx context.Context, step *plan.Step, result stepOutcome) bool {
	err := result.err
	if step.Action == plan.Remove && r.isReplaced(ctx, step, err) {
		err = nil
	}
	switch {
	case err == nil && step.Action == plan.Remove:
		r.State.Deleted(step.StepID, r.message(step, removal(step)))
		r.since[step.StepID] = r.Now()
		r.observe(ctx, []*plan.Step{step})
	case err == nil:
		r.State.Applied(step.StepID, r.message(step, verb(step.Object, result.before, result.answer)))
		r.assessResponse(step, result.answer)
	case ctx.Err() != nil:
		return false
	case r.retryLater(step, err):
		return false
	default:
		r.State.Refused(step.StepID, errorText(step, err))
	}
	delete(r.retries, step.StepID)
	return true
}

// isReplaced reports whether what was to be deleted is gone, and the API server
// refused because there is another object of that name.
func (r *Run) isReplaced(ctx context.Context, step *plan.Step, err error) bool {
	var fault *apply.Error
	if !errors.As(err, &fault) || fault.Kind != apply.Conflict {
		return false
	}
	seen, known := r.find(ctx, step)
	return known && (seen.object == nil || seen.object.uid != step.Live.GetUID())
}

// assessResponse judges what the API server answered.
func (r *Run) assessResponse(step *plan.Step, object *unstructured.Unstructured) {
	if object == nil || r.Plan.DryRun {
		return
	}
	r.written[step.StepID] = writtenVersion{uid: object.GetUID(), version: object.GetResourceVersion()}
	r.since[step.StepID] = r.Now()
	r.assess(step, object)
}

// errorText is why a step failed, without the name of the object: that stands
// beside it.
func errorText(step *plan.Step, err error) string {
	var fault *apply.Error
	switch {
	case errors.As(err, &fault) && fault.Message != "":
		return bounded(fault.Message, maxText)
	case errors.Is(err, context.DeadlineExceeded) && step.Options.Force:
		return fmt.Sprintf("it took longer than %s; if the old object does not go, look at its finalizers", stepTimeout)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the API server took longer than %s", stepTimeout)
	}
	return bounded(err.Error(), maxText)
}
