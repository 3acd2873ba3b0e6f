package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/window"
)

// run is an operation that is in memory.
type run struct {
	*operation.Run
	plan  *plan.Plan
	began metav1.Time
	try   int64
	// told says that an Event told of its start.
	told bool
}

// terminated is what is said of an operation that somebody ended.
const terminated = "Operation terminated"

func equalOperations(a, b *v1alpha1.Operation) bool { return equality.Semantic.DeepEqual(a, b) }

// operate starts what is to be started, and lets what runs go on. It reports
// whether something was done to the cluster.
func (p *pass) operate(ctx context.Context, seen *sight, trouble error) (bool, error) {
	state := p.state()
	running := state != nil && !state.Phase.Completed()
	if run := p.session.run; run != nil && (!running || !run.began.Equal(&state.StartedAt) || run.try != state.RetryCount) {
		p.session.run = nil // somebody wrote another state
	}
	asked := p.requested()
	if asked != nil && running {
		p.dropped = asked
		p.tell(true, "OperationRefused", "another operation is running: wait for its end, or terminate it")
		asked = nil
	}
	switch {
	case running:
		return p.goOn(ctx, copied(state), seen)
	case asked != nil:
		return p.begin(ctx, asked, seen, trouble)
	case trouble != nil || seen == nil:
		return false, nil
	}
	answer := p.decide(seen)
	p.again = earliest(p.again, answer.again)
	p.problem = answer.problem
	if answer.start == nil {
		p.log.Debug("no sync starts", "because", answer.why)
		return false, nil
	}
	return p.begin(ctx, answer.start, seen, nil)
}

// lookAhead says what follows an operation that ended in this pass: what is still
// wrong is told with its end, and what starts next does so in a pass of its own.
func (p *pass) lookAhead(seen *sight) {
	if !p.closed {
		return
	}
	answer := p.decide(seen)
	p.problem = answer.problem
	p.again = earliest(p.again, answer.again)
	if answer.start != nil {
		p.queue.add(task{app: p.id}, becauseTime)
	}
}

func (p *pass) decide(seen *sight) verdict {
	sync := v1alpha1.SyncOutOfSync
	if seen.inSync {
		sync = v1alpha1.SyncSynced
	}
	policy := p.app.Spec.SyncPolicy
	switch {
	case !policy.IsAutomated() || seen.inSync:
		return verdict{why: "nothing is to be done without being asked"}
	case len(seen.refusals()) > 0:
		return verdict{why: "what is desired is not known: " + seen.refusals()[0].Error()}
	}
	return decide(&situation{
		policy: policy, sources: p.session.rendering.sources, revisions: p.session.rendering.revisions,
		sync: sync, resources: p.count(seen).resources, last: p.state(), window: p.windows(), now: p.now,
	})
}

// windowApp is the Application as sync windows see it.
func (p *pass) windowApp() window.App {
	return window.App{Name: p.id.Name, Namespace: p.app.Spec.Destination.Namespace, Cluster: p.to.Name, Server: p.to.Server}
}

func (p *pass) windows() window.Decision {
	if p.project == nil {
		return window.Decision{CanSync: true, CanManual: true}
	}
	return window.Decide(p.project.Windows(), p.windowApp(), p.now)
}

// begin starts an operation.
func (p *pass) begin(ctx context.Context, asked *v1alpha1.Operation, seen *sight, trouble error) (bool, error) {
	state := &v1alpha1.OperationState{
		Operation: *asked, Phase: v1alpha1.OperationRunning, StartedAt: *second(p.now), Message: "the operation starts",
	}
	p.keep(state)
	if asked == p.app.Operation {
		p.session.unsaved.consumed = asked
		if objection := p.objection(asked, trouble); objection != "" {
			// Asking again would not help.
			state.Operation.Retry = nil
			p.end(state, v1alpha1.OperationError, objection)
			return false, nil
		}
	}
	return p.launch(ctx, state, seen)
}

// objection says why an operation that somebody asked for is not started, or
// nothing.
func (p *pass) objection(asked *v1alpha1.Operation, trouble error) string {
	var refused []v1alpha1.Refused
	for _, one := range p.refused {
		if ofOperation(one) {
			refused = append(refused, one)
		}
	}
	var refusal *invalid
	sync := asked.Sync
	switch {
	case len(refused) > 0:
		return v1alpha1.Summary(refused)
	case sync == nil:
		return "operation.sync is missing"
	case errors.As(trouble, &refusal):
		return v1alpha1.ConditionInvalidSpecError + ": " + refusal.Error()
	}
	if p.app.Spec.SyncPolicy.IsAutomated() && !sync.DryRun {
		if sync.Source != nil || len(sync.Sources) > 0 {
			return "a rollback is undone at once while syncs are automated: turn that off first"
		}
		if given := givenRevisions(sync); given != nil && !p.isCurrent(given) {
			return "a sync to another revision is undone at once while syncs are automated: turn that off first"
		}
	}
	if decision := p.windows(); !decision.CanManual {
		return "a sync window is in the way: " + decision.Why
	}
	return ""
}

// givenRevisions are the revisions that an operation names; nil if it names
// none.
func givenRevisions(sync *v1alpha1.SyncOperation) []string {
	switch {
	case len(sync.Revisions) > 0:
		return sync.Revisions
	case sync.Revision != "":
		return []string{sync.Revision}
	}
	return nil
}

// isCurrent reports whether revisions are those that the spec names, or what
// these are at the moment.
func (p *pass) isCurrent(given []string) bool {
	sources := p.app.Spec.AllSources()
	if len(given) != len(sources) {
		return false
	}
	for i, revision := range given {
		named := sources[i].TargetRevision
		if named == "" {
			named = "HEAD"
		}
		is := p.session.rendering != nil && i < len(p.session.rendering.revisions) && p.session.rendering.revisions[i] == revision
		if revision != named && revision != "" && !is {
			return false
		}
	}
	return true
}

// goOn continues the operation that runs, or one that waits to be tried again.
func (p *pass) goOn(ctx context.Context, state *v1alpha1.OperationState, seen *sight) (bool, error) {
	if state.Operation.Sync == nil {
		p.end(state, v1alpha1.OperationError, "the operation has no sync")
		return false, nil
	}
	if state.FinishedAt != nil {
		at := state.FinishedAt.Add(state.Operation.Retry.Wait(state.RetryCount - 1))
		switch {
		case isTerminating(p.app):
			p.end(state, v1alpha1.OperationFailed, terminated)
			return false, nil
		case at.After(p.now):
			p.again = earliest(p.again, at)
			return false, nil
		}
	}
	if may, why := p.mayContinue(state); !may && !isTerminating(p.app) {
		state.Message = "a sync window is in the way: " + why
		p.keep(state)
		p.again = earliest(p.again, p.windows().Until)
		return false, nil
	}
	if state.FinishedAt != nil {
		p.restart(state)
	}
	if p.session.run == nil {
		return p.launch(ctx, state, seen)
	}
	return p.advance(ctx, state)
}

func (p *pass) mayContinue(state *v1alpha1.OperationState) (bool, string) {
	if p.project == nil {
		return true, ""
	}
	manual := !state.Operation.InitiatedBy.Automated
	return window.MayContinue(p.project.Windows(), p.windowApp(), state.StartedAt.Time, p.now, manual)
}

// restart prepares a state for another try: of the revision that failed, or of
// what is there now if the retry says refresh.
func (p *pass) restart(state *v1alpha1.OperationState) {
	state.FinishedAt = nil
	state.Message = fmt.Sprintf("Retrying operation. Attempt #%d", state.RetryCount)
	if state.SyncResult != nil {
		state.SyncResult.Resources = nil
	}
	if state.Operation.Retry != nil && state.Operation.Retry.Refresh && state.Operation.InitiatedBy.Automated {
		sync := *state.Operation.Sync
		sync.Revision, sync.Revisions = "", nil
		state.SyncResult, state.Operation.Sync = nil, &sync
	}
	p.keep(state)
}

// launch makes the run of an operation: one that begins, is tried again, or was
// under way when the program ended.
func (p *pass) launch(ctx context.Context, state *v1alpha1.OperationState, seen *sight) (bool, error) {
	resumed := state.SyncResult != nil && state.SyncResult.Resources != nil
	made, err := p.build(ctx, state, seen)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && isTerminating(p.app):
		p.end(state, v1alpha1.OperationFailed, terminated)
		return false, nil
	case err != nil && resumed && (source.IsKind(err, source.Unreachable) || consequenceOf(err).again):
		state.Message = cut("the operation cannot go on: " + err.Error())
		p.keep(state)
		p.again = earliest(p.again, p.now.Add(pause(4)))
		return false, nil
	case err != nil:
		p.end(state, v1alpha1.OperationError, cut(err.Error()))
		return false, nil
	}
	p.session.run = made
	p.keep(state)
	if !resumed && made.waits() {
		// A hook must not run twice because we are killed, and whoever waits for
		// the operation wants to see it.
		p.started(state)
		if err := p.save(ctx); err != nil {
			return false, err
		}
	}
	return p.advance(ctx, state)
}

// waits reports whether the operation has more than one thing to do after the
// other, and so will most likely wait.
func (r *run) waits() bool {
	waves := 0
	for _, phase := range r.plan.Phases {
		waves += len(phase.Waves)
	}
	isHook := func(step *plan.Step) bool { return step.Hook != nil }
	return !r.plan.DryRun && (waves > 1 || slices.ContainsFunc(r.plan.Steps(), isHook))
}

// build makes the plan of an operation, with what it has done already.
func (p *pass) build(ctx context.Context, state *v1alpha1.OperationState, seen *sight) (*run, error) {
	if p.applier == nil || p.project == nil {
		return nil, errors.New("the application is refused")
	}
	sync := state.Operation.Sync
	sources, revisions := p.pins(state)
	chosen, err := p.renderingFor(ctx, sources, revisions)
	if err != nil {
		return nil, err
	}
	set, err := p.prepare(chosen, state.StartedAt.Time)
	if err != nil {
		return nil, err
	}
	options := planOptions(&p.app.Spec, sync)
	own, err := p.sightFor(ctx, chosen, set, seen)
	if err == nil {
		err = p.complete(ctx, own.live, hooks(set))
	}
	if err != nil {
		return nil, err
	}
	if key := (tracking.Key{Kind: "Namespace", Name: p.app.Spec.Destination.Namespace}); options.CreateNamespace && key.Name != "" && own.live[key] == nil {
		namespace, err := p.fetch(ctx, key, "v1")
		if err != nil {
			return nil, err
		}
		if namespace != nil {
			own.live[key] = namespace.Unstructured()
		}
	}
	result := p.result(chosen, sources)
	var marks map[plan.StepID]plan.Mark
	if state.SyncResult != nil {
		result.Resources = state.SyncResult.Resources
		marks = operation.Marks(result.Resources)
	}
	synced := own.synced()
	for id := range marks {
		delete(synced, id.Key) // what the operation did before stays a part of it, and is waited for
	}
	made, err := plan.Build(set, plan.Input{Live: own.live, Synced: synced, Gate: p.project.Gate(p.destination()), Options: options})
	if err != nil {
		return nil, err
	}
	state.SyncResult = result
	return &run{
		Run: operation.New(operation.Input{
			Plan: made, State: plan.NewState(marks), Live: p.to.Live, Applier: p.applier, Ignore: p.ignore,
			Began: state.StartedAt.Time, Now: p.Now, Log: p.log,
		}),
		plan: made, began: state.StartedAt, try: state.RetryCount,
	}, nil
}

// pins are the sources of an operation, and the revisions that it is about: what
// it began with, what it asks for, or nil for what is there now.
func (p *pass) pins(state *v1alpha1.OperationState) ([]v1alpha1.ApplicationSource, []string) {
	sync := state.Operation.Sync
	sources := p.app.Spec.AllSources()
	switch {
	case state.SyncResult != nil:
		return resultSources(state.SyncResult), resultRevisions(state.SyncResult)
	case len(sync.Sources) > 0:
		sources = sync.Sources
	case sync.Source != nil:
		sources = []v1alpha1.ApplicationSource{*sync.Source}
	}
	return sources, givenRevisions(sync)
}

// result is what a sync tells about what it is of.
func (p *pass) result(of *rendering, sources []v1alpha1.ApplicationSource) *v1alpha1.SyncOperationResult {
	result := &v1alpha1.SyncOperationResult{}
	result.Revision, result.Revisions = of.revision()
	if len(of.revisions) == 1 && len(p.app.Spec.Sources) == 0 {
		result.Source = &sources[0]
	} else {
		result.Sources, result.Revisions, result.Revision = sources, of.revisions, ""
	}
	if policy := p.app.Spec.SyncPolicy; policy != nil {
		result.ManagedNamespaceMetadata = policy.ManagedNamespaceMetadata
	}
	return result
}

// sightFor is what is live, compared with what an operation applies. That is
// what the pass saw already, or another set.
func (p *pass) sightFor(ctx context.Context, of *rendering, set *plan.Set, seen *sight) (*sight, error) {
	if of == p.session.rendering && seen != nil && seen.set != nil {
		return seen, nil
	}
	if err := p.follow(ctx, set); err != nil {
		return nil, err
	}
	own := &sight{set: set, live: p.owned()}
	if err := p.complete(ctx, own.live, set.Resources()); err != nil {
		return nil, err
	}
	matched := p.session.matched
	p.session.matched = nil // it is about another set
	err := p.compare(ctx, own)
	p.session.matched = matched
	return own, err
}

// advance lets the run do what it can, and keeps what became of it.
func (p *pass) advance(ctx context.Context, state *v1alpha1.OperationState) (bool, error) {
	made := p.session.run
	if isTerminating(p.app) {
		made.Terminate()
	}
	if p.isApproved(state.StartedAt.Time) {
		made.Confirm()
	}
	outcome := made.Advance(ctx)
	if ctx.Err() != nil {
		return true, ctx.Err()
	}
	state.SyncResult.Resources = made.Results()
	if outcome.Phase.Completed() {
		p.end(state, outcome.Phase, outcome.Message)
		return true, nil
	}
	state.Message = outcome.Message
	p.keep(state)
	p.started(state)
	p.again = earliest(p.again, outcome.Again)
	return outcome.Changed, nil
}

// isApproved reports whether somebody confirmed deletions since a time. The
// value of the annotation is when that was, as in Argo CD.
func (p *pass) isApproved(since time.Time) bool {
	at, err := time.Parse(time.RFC3339, p.app.Annotations[approvedAnnotation])
	return err == nil && !at.Before(since.Truncate(time.Second))
}

// copied is a state that can be changed. What the Application has is shared.
func copied(state *v1alpha1.OperationState) *v1alpha1.OperationState {
	own := *state
	if own.SyncResult != nil {
		result := *own.SyncResult
		own.SyncResult = &result
	}
	return &own
}

// keep notes the state of the operation, to be written.
func (p *pass) keep(state *v1alpha1.OperationState) {
	if p.session.unsaved == nil {
		p.session.unsaved = &unsaved{history: p.app.Status.History}
	}
	p.session.unsaved.state = state
}

// end ends an operation, or has it tried again.
func (p *pass) end(state *v1alpha1.OperationState, phase v1alpha1.OperationPhase, message string) {
	p.session.run = nil
	p.session.seen = ""
	state.Phase, state.Message, state.FinishedAt = phase, message, second(p.Now())
	retry := state.Operation.Retry
	dry := state.Operation.Sync != nil && state.Operation.Sync.DryRun
	if phase != v1alpha1.OperationSucceeded && !isTerminating(p.app) && !dry && retry.Allows(state.RetryCount) {
		at := state.FinishedAt.Add(retry.Wait(state.RetryCount))
		state.RetryCount++
		state.Phase = v1alpha1.OperationRunning
		state.Message = fmt.Sprintf("%s. Retrying attempt #%d at %s.", message, state.RetryCount, at.UTC().Format(time.TimeOnly))
		p.again = earliest(p.again, at)
	}
	p.keep(state)
	if state.Phase.Completed() {
		p.closed = true
		p.session.unsaved.history = remembered(p.session.unsaved.history, state, p.app.Spec.HistoryLimit())
	}
	p.ended(state)
}
