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

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
)

const (
	// stepTimeout bounds one step. What is replaced by force waits that long for
	// the old object to go, and then tries again.
	stepTimeout = time.Minute
	// maxTries is how often something is tried that may go well the next time.
	// With the pauses between, that is about two and a half minutes.
	maxTries = 10
)

// retries are the pauses between the tries of a step. They have no jitter: the API server
// has few operations at a time, and each of them waits for its own objects.
func retries() backoff.Policy {
	return backoff.Policy{First: time.Second, Longest: 30 * time.Second}
}

// writtenVersion is the object of a response to our write: its uid and version.
type writtenVersion struct {
	uid     types.UID
	version string
}

// attempt is a step that failed and is retried.
type attempt struct {
	count   int
	next    time.Time
	problem string
}

func (a *attempt) text(step *plan.Step) string {
	return bounded(fmt.Sprintf("another try with %s: %s", step.Key, a.problem), maxText)
}

// retryLater schedules a retry of a step that failed. It returns false for an
// error that does not pass, and after the last retry.
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
	pause := retries().Base(try.count)
	try.next, try.problem = r.Now().Add(pause), errorText(step, err)
	r.wake(try.next)
	r.Log.Info("trying again", "object", step.Key.String(), "action", string(step.Action), "try", try.count,
		"in", pause.String(), "problem", try.problem)
	return true
}

// isRetryable reports whether the same request may succeed later.
func isRetryable(step *plan.Step, err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true // of stepTimeout: the caller's context is checked before
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

// errUnknown means that an object can be read neither from a watch nor from the
// API server now.
var errUnknown = &apply.Error{Kind: apply.Transient, Message: "the object could not be read from the API server"}

// isDue reports whether a step may be tried now. If not, it schedules the
// Advance that may.
func (r *Run) isDue(id plan.StepID) bool {
	try := r.retries[id]
	if try == nil || !try.next.After(r.Now()) {
		return true
	}
	r.wake(try.next)
	return false
}

// due returns the steps whose backoff is over.
func (r *Run) due(steps []*plan.Step) []*plan.Step {
	return slices.DeleteFunc(slices.Clone(steps), func(step *plan.Step) bool { return !r.isDue(step.StepID) })
}

// stepOutcome is the outcome of one step. before is what was live when it ran.
type stepOutcome struct {
	tried    bool
	response *unstructured.Unstructured
	before   *unstructured.Unstructured
	// existing: the object was to be created, and is there.
	existing bool
	err      error
}

// runSteps runs steps concurrently, up to Parallel at a time, and records their
// outcomes in order. It reports whether any state changed.
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
		if all[i].existing {
			r.existing = append(r.existing, step.Key)
		}
		if !all[i].tried || all[i].existing {
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

// follow starts watches for kinds that did not exist when the plan was built.
// Without them the objects are polled.
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

// do runs one step. It only reads the Run, because several run at a time; note
// records the outcome.
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
	case step.Options.Create:
		r.create(ctx, step, options, &result)
	default:
		current := r.current(step)
		result.before = current.Live
		result.response, result.err = r.Applier.Apply(ctx, current, options)
	}
	if result.response != nil && result.err == nil && !r.Plan.DryRun {
		r.Live.Note(result.response)
	}
	return result
}

// create writes an object that did not exist when the plan was built. Where the API
// server reports a conflict and has no such object, it is applied as one that
// exists: an aggregated API may not create what has a version, and other conflicts
// are those of a quota.
func (r *Run) create(ctx context.Context, step *plan.Step, options apply.Options, result *stepOutcome) {
	if r.view.get(step.Key) != nil {
		result.existing = true
		return
	}
	result.response, result.err = r.Applier.Apply(ctx, step, options)
	var fault *apply.Error
	if !errors.As(result.err, &fault) || fault.Kind != apply.Conflict {
		return
	}
	found, err := r.view.fetch(ctx, step.Key, versionOf(step))
	switch {
	case err != nil: // the conflict is retried
	case found != nil:
		result.existing = true
	case step.Action == plan.Apply:
		plain := *step
		plain.Options.Create = false
		result.response, result.err = r.Applier.Apply(ctx, &plain, options)
	}
}

// current is a step with the live object of now. That of the plan may be older,
// and the old object of a hook has been deleted.
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

// cannotDryRun reports whether a dry run of the step must fail although the
// sync would succeed: the namespace is created by the same sync, or the old
// object of a hook would be deleted first.
func (r *Run) cannotDryRun(step *plan.Step) bool {
	if step.Hook != nil && step.Live != nil && step.Hook.Has(plan.BeforeHookCreation) {
		return true
	}
	return step.Key.Namespace != "" && slices.ContainsFunc(r.Plan.Steps(), func(other *plan.Step) bool {
		return other.Action != plan.Remove && other.Live == nil && other.Key.Group == "" &&
			other.Key.Kind == "Namespace" && other.Key.Name == step.Key.Namespace
	})
}

// note records the outcome of a step. It returns false if the step will be
// retried.
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
		r.State.Applied(step.StepID, r.message(step, verb(step.Object, result.before, result.response)))
		r.assessResponse(step, result.response)
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

// isReplaced reports whether a deletion was refused because another object has
// the name by now: the one to delete is gone.
func (r *Run) isReplaced(ctx context.Context, step *plan.Step, err error) bool {
	var fault *apply.Error
	if !errors.As(err, &fault) || fault.Kind != apply.Conflict {
		return false
	}
	seen, known := r.find(ctx, step)
	return known && (seen.object == nil || seen.object.uid != step.Live.GetUID())
}

// assessResponse takes the health of the object in a response, so that most
// objects need no read.
func (r *Run) assessResponse(step *plan.Step, object *unstructured.Unstructured) {
	if object == nil || r.Plan.DryRun {
		return
	}
	r.written[step.StepID] = writtenVersion{uid: object.GetUID(), version: object.GetResourceVersion()}
	r.since[step.StepID] = r.Now()
	r.assess(step, object)
}

// errorText is why a step failed, without the name of the object, which stands
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
