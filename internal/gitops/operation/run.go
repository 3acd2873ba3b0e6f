package operation

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Live is what is in the cluster. It is a *live.Cache.
type Live interface {
	// Get returns the object from the watches, or nil.
	Get(key tracking.Key) *live.Object
	// Last returns the last state of an object whose deletion a watch saw, or
	// nil.
	Last(key tracking.Key) *live.Object
	// Fetch reads an object from the API server if no watch has it. Nil means
	// that it does not exist.
	Fetch(ctx context.Context, key tracking.Key, version string) (*live.Object, error)
	// Follow starts watches for kinds that have none.
	Follow(ctx context.Context, kinds []schema.GroupKind) error
	// Note takes the object of a response to our own write, so that it is
	// visible before its event comes.
	Note(object *unstructured.Unstructured)
}

// Applier writes to the cluster. It is an *apply.Applier. It is used by several
// goroutines.
type Applier interface {
	Apply(ctx context.Context, step *plan.Step, options apply.Options) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, step *plan.Step, options apply.Options) error
	Clear(ctx context.Context, key tracking.Key, uid types.UID) error
}

// Input is what an operation is made of.
type Input struct {
	Plan *plan.Plan
	// State is what has happened already; nil is nothing.
	State   *plan.State
	Live    Live
	Applier Applier
	Ignore  *plan.Ignore
	// Health has the rules of the cluster; nil has the built-in ones only.
	Health *health.Rules
	// Began is when the operation began, before a restart too.
	Began time.Time
	// Parallel is how many requests there are at a time; 0 is 8.
	Parallel int
	// Now is the time; nil is time.Now.
	Now func() time.Time
	// Log gets retries; nil discards them.
	Log *slog.Logger
}

// Run is one operation.
type Run struct {
	Input
	view view

	terminated atomic.Bool
	confirmed  atomic.Bool

	// written are the objects of the responses to what this Run applied.
	written map[plan.StepID]writtenVersion
	// since is when a step started to wait for something with a deadline.
	since map[plan.StepID]time.Time
	// absent is since when a resource is missing that was applied.
	absent map[plan.StepID]time.Time
	// retries are the steps that failed and will be tried again.
	retries map[plan.StepID]*attempt
	// clearing are the objects of hooks whose deletion was requested.
	clearing map[plan.StepID]types.UID
	// assessed are the versions whose health was taken.
	assessed map[plan.StepID]assessment
	// spent are the hooks that were deleted at the end.
	spent map[plan.StepID]bool
	// notDeleted is why some hooks could not be deleted.
	notDeleted []string
	// existing are the objects that the plan creates and that exist.
	existing []tracking.Key

	// again is the earliest time at which Advance is needed without an event.
	again   time.Time
	results []v1alpha1.ResourceResult
	ended   *Outcome
}

// Outcome is where an operation is.
type Outcome struct {
	Phase v1alpha1.OperationPhase
	// Message is for people.
	Message string
	// Waiting is what has to happen in the cluster; not all if it is much.
	Waiting []string
	// Again is when to call Advance even if nothing happens; zero is never.
	Again time.Time
	// Changed: the results differ from those after the last Advance.
	Changed bool
	// Existing are objects that the plan creates and that exist. They were not
	// checked, so the plan has to be built again; this one does nothing more.
	Existing []tracking.Key
}

// New makes a Run. It does nothing yet.
func New(in Input) *Run {
	in.State = cmp.Or(in.State, plan.NewState(nil))
	if in.Now == nil {
		in.Now = time.Now
	}
	in.Log = cmp.Or(in.Log, slog.New(slog.DiscardHandler))
	in.Parallel = cmp.Or(max(in.Parallel, 0), 8)
	run := &Run{
		Input: in, view: viewOf(in.Live),
		written: map[plan.StepID]writtenVersion{}, since: map[plan.StepID]time.Time{}, absent: map[plan.StepID]time.Time{},
		retries: map[plan.StepID]*attempt{}, spent: map[plan.StepID]bool{},
		clearing: map[plan.StepID]types.UID{}, assessed: map[plan.StepID]assessment{},
	}
	run.terminated.Store(in.State.Terminated)
	run.confirmed.Store(in.State.Confirmed)
	run.results = run.Results()
	return run
}

// Terminate ends the operation at the next Advance: hooks that run are deleted.
// It may be called while Advance runs, which then stops starting steps.
func (r *Run) Terminate() { r.terminated.Store(true) }

// Confirm lets what waits for a confirmation be deleted, from the next Advance
// on. It may be called while Advance runs.
func (r *Run) Confirm() { r.confirmed.Store(true) }

// Advance notes what is live now, does all that can be done, and returns when
// nothing can be done without something happening in the cluster. When the
// context ends it returns early; what was not done then is done by the next call.
func (r *Run) Advance(ctx context.Context) Outcome {
	if r.ended != nil {
		outcome := *r.ended
		outcome.Changed = false
		return outcome
	}
	r.again = time.Time{}
	r.observe(ctx, r.Plan.Steps())
	outcome := r.advance(ctx)
	results := r.Results()
	outcome.Changed = !reflect.DeepEqual(results, r.results)
	r.results = results
	if outcome.Phase.Completed() {
		outcome.Again = time.Time{}
		ended := outcome
		r.ended = &ended
	}
	return outcome
}

// advance alternates between Next and doing what it returns, until nothing can
// be done without an event.
func (r *Run) advance(ctx context.Context) Outcome {
	for {
		r.State.Terminated, r.State.Confirmed = r.terminated.Load(), r.confirmed.Load()
		decision := r.Plan.Next(r.State)
		if decision.Phase != plan.Running {
			return r.finish(ctx, decision)
		}
		cleared := r.clearOld(ctx, decision.Clear)
		ran := r.runSteps(ctx, r.due(decision.Run))
		if len(r.existing) > 0 {
			return r.waiting(decision)
		}
		if ctx.Err() != nil {
			r.wake(r.Now())
			return r.waiting(decision)
		}
		if !cleared && !ran && !r.interrupted() {
			return r.waiting(decision)
		}
	}
}

// interrupted reports whether the operation was terminated since the last call
// of Next.
func (r *Run) interrupted() bool { return r.terminated.Load() && !r.State.Terminated }

// wake schedules an Advance, unless an earlier one is scheduled.
func (r *Run) wake(at time.Time) {
	if r.again.IsZero() || at.Before(r.again) {
		r.again = at
	}
}

// maxWaiting bounds the list in an Outcome.
const maxWaiting = 20

// waiting is the outcome of an operation that goes on.
func (r *Run) waiting(decision plan.Decision) Outcome {
	outcome := Outcome{Phase: v1alpha1.OperationRunning, Message: decision.Message, Again: r.again, Existing: r.existing}
	for _, wait := range decision.Waiting {
		outcome.Waiting = append(outcome.Waiting, wait.For)
	}
	for _, step := range append(decision.Run, decision.Clear...) {
		if try := r.retries[step.StepID]; try != nil {
			outcome.Waiting = append(outcome.Waiting, try.text(step))
		}
	}
	outcome.Waiting = shorten(outcome.Waiting, maxWaiting)
	if len(decision.Waiting) == 0 && len(outcome.Waiting) > 0 {
		outcome.Message = bounded("waiting for "+outcome.Waiting[0], maxMessage)
	}
	return outcome
}
