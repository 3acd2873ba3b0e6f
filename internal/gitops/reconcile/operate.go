package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/window"
)

// runningOperation is an operation that is in memory. After a restart it is
// made again from the status.
type runningOperation struct {
	*operation.Run
	plan  *plan.Plan
	of    *rendering
	began metav1.Time
	try   int64
	// announced: an Event reported its start.
	announced bool
}

// terminated is the message of an operation that a user ended.
const terminated = "Operation terminated"

// equalOperations compares two requests by their content.
func equalOperations(a, b *v1alpha1.Operation) bool { return equality.Semantic.DeepEqual(a, b) }

// operated is what the operate step did.
type operated struct {
	// changed: something was written to the cluster, which has to be observed
	// again.
	changed bool
	// ended: an operation ended in this run.
	ended bool
	// syncError is the text of the condition SyncError; empty for none.
	syncError string
	// requeueAt is when the operation needs the next run; zero if only events
	// matter.
	requeueAt time.Time
}

// operate starts an operation that is requested or due, or continues the one
// that runs.
func (p *reconcileRun) operate(ctx context.Context) (operated, error) {
	seen, lastErr := p.observed, p.lastErr
	state := p.state()
	running := state != nil && !state.Phase.Completed()
	if run := p.session.operation; run != nil && (!running || !run.began.Equal(&state.StartedAt) || run.try != state.RetryCount) {
		p.session.operation = nil // another client wrote the state
	}
	wanted := p.requested()
	switch {
	case wanted != nil && p.isTakenUp():
		p.rejected, wanted = wanted, nil
	case wanted != nil && running:
		p.rejected = wanted
		p.recordEvent(true, "OperationRefused", "another operation is running: wait for its end, or terminate it")
		wanted = nil
	}
	switch {
	case running:
		return p.resumeOperation(ctx, copyState(state), seen)
	case wanted != nil:
		return p.startOperation(ctx, wanted, seen, lastErr)
	case lastErr != nil || seen == nil:
		return operated{}, nil
	}
	if p.isUnrecorded(seen) {
		return p.recordInterrupted(seen), nil
	}
	decision := p.decide(seen)
	if decision.start == nil && seen.isForSync() {
		if err := p.readRest(ctx, seen); err != nil {
			p.observed, p.lastErr = nil, err
			return operated{}, nil
		}
		decision = p.decide(seen)
	}
	done := operated{syncError: decision.syncError, requeueAt: decision.requeueAt}
	if decision.start == nil {
		p.log.Debug("no automated sync", "reason", decision.why)
		return done, nil
	}
	started, err := p.startOperation(ctx, decision.start, seen, nil)
	started.syncError, started.requeueAt = done.syncError, earliest(done.requeueAt, started.requeueAt)
	return started, err
}

// decide collects the input of the automated sync decision.
func (p *reconcileRun) decide(seen *observedState) autoSyncDecision {
	sync := v1alpha1.SyncOutOfSync
	if seen.inSync {
		sync = v1alpha1.SyncSynced
	}
	policy := p.effectivePolicy()
	switch {
	case !policy.IsAutomated() || seen.inSync:
		return autoSyncDecision{why: "the application is Synced or not automated"}
	case len(seen.refusals()) > 0:
		return autoSyncDecision{why: "the desired state is not known: " + seen.refusals()[0].Error()}
	}
	return decide(&autoSyncInput{
		policy: policy, sources: seen.of.sources, revisions: seen.of.revisions,
		sync: sync, resources: p.summarizeResources(seen).resources, last: p.state(), window: p.windows(), now: p.now,
	})
}

// windowApp is the Application in the terms of sync windows.
func (p *reconcileRun) windowApp() window.App {
	return window.App{Name: p.id.Name, Namespace: p.app.Spec.Destination.Namespace, Cluster: p.destinationCluster.Name, Server: p.destinationCluster.Server}
}

// windows returns what the project's sync windows allow now.
func (p *reconcileRun) windows() window.Decision {
	if p.project == nil {
		return window.Decision{CanSync: true, CanManual: true}
	}
	return window.Decide(p.project.Windows(), p.windowApp(), p.now)
}

// startOperation starts an operation that was requested, or that an automated
// sync needs.
func (p *reconcileRun) startOperation(ctx context.Context, operation *v1alpha1.Operation, seen *observedState, lastErr error) (operated, error) {
	state := &v1alpha1.OperationState{
		Operation: *operation, Phase: v1alpha1.OperationRunning, StartedAt: *wholeSecond(p.now), Message: "operation started",
	}
	p.setPending(state)
	p.session.started, p.session.replans = state.StartedAt, 0
	if operation == p.app.Operation {
		p.session.pending.consumed = operation
		if p.hasStatusSubresource.Load() {
			state.RequestGeneration = p.app.Generation
		}
		if objection := p.rejection(operation, lastErr); objection != "" {
			// Asking again would not help.
			state.Operation.Retry = nil
			return p.finishOperation(state, v1alpha1.OperationError, objection), nil
		}
	}
	return p.launch(ctx, state, seen)
}

// rejection returns why a requested operation is not started, or an empty text.
func (p *reconcileRun) rejection(operation *v1alpha1.Operation, lastErr error) string {
	var refused []refusal.Refusal
	for _, one := range p.refused {
		if ofOperation(one) {
			refused = append(refused, one)
		}
	}
	var invalid *invalidSpec
	sync := operation.Sync
	switch {
	case len(refused) > 0:
		return refusal.Summary(refused)
	case sync == nil:
		return "operation.sync is missing"
	case errors.As(lastErr, &invalid):
		return v1alpha1.ConditionInvalidSpecError + ": " + invalid.Error()
	}
	if objection := p.holdRejection(sync); objection != "" {
		return objection
	}
	if decision := p.windows(); !decision.CanManual {
		return window.InTheWay + decision.Why
	}
	return ""
}

// givenRevisions returns the revisions that an operation names; nil if it names
// none and means the newest.
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
// these resolve to at the moment. Only such a sync is not undone by the next
// automated one.
func (p *reconcileRun) isCurrent(given []string) bool {
	sources := p.app.Spec.AllSources()
	if len(given) != len(sources) {
		return false
	}
	for i, revision := range given {
		named := cmp.Or(sources[i].TargetRevision, "HEAD")
		is := p.session.rendering != nil && i < len(p.session.rendering.revisions) && p.session.rendering.revisions[i] == revision
		if revision != named && revision != "" && !is {
			return false
		}
	}
	return true
}

// resumeOperation continues the operation that runs, or the one whose retry is
// due.
func (p *reconcileRun) resumeOperation(ctx context.Context, state *v1alpha1.OperationState, seen *observedState) (operated, error) {
	if state.Operation.Sync == nil {
		return p.finishOperation(state, v1alpha1.OperationError, "the operation has no sync"), nil
	}
	if problem := p.inconsistency(state); problem != "" {
		state.Operation.Retry = nil
		return p.finishOperation(state, v1alpha1.OperationError, "the operation in the status is not continued: "+problem), nil
	}
	if state.FinishedAt != nil {
		at := state.FinishedAt.Add(state.Operation.Retry.Wait(state.RetryCount - 1))
		switch {
		case isTerminating(p.app):
			return p.finishOperation(state, v1alpha1.OperationFailed, terminated), nil
		case at.After(p.now):
			return operated{requeueAt: at}, nil
		}
	}
	if may, why := p.mayContinue(state); !may && !isTerminating(p.app) {
		if text := window.InTheWay + why; text != state.Message {
			state.Message = text
			p.log.Warn("sync waits", "revision", revisionText(state), "by", initiator(state), "message", text)
		}
		p.setPending(state)
		return operated{requeueAt: p.windows().Until}, nil
	}
	if state.FinishedAt != nil {
		p.prepareRetry(state)
	}
	if p.session.operation == nil {
		return p.launch(ctx, state, seen)
	}
	return p.advance(ctx, state)
}

// mayContinue reports whether sync windows let a running operation go on, and
// otherwise which window does not. The start of an operation that was found in
// the status proves nothing: it may go on when it may start now.
func (p *reconcileRun) mayContinue(state *v1alpha1.OperationState) (bool, string) {
	if p.project == nil {
		return true, ""
	}
	manual, began := !state.Operation.InitiatedBy.Automated, state.StartedAt.Time
	if !p.isOwn(state) {
		began = p.now
	}
	return window.MayContinue(p.project.Windows(), p.windowApp(), began, p.now, manual)
}

// prepareRetry resets a state for the next attempt: of the revision that
// failed, or of the newest one if the retry strategy has refresh.
func (p *reconcileRun) prepareRetry(state *v1alpha1.OperationState) {
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
	p.setPending(state)
}

// launch builds the plan of an operation and runs it: one that starts, is
// retried, or was interrupted by a restart.
func (p *reconcileRun) launch(ctx context.Context, state *v1alpha1.OperationState, seen *observedState) (operated, error) {
	resumed := state.SyncResult != nil && state.SyncResult.Resources != nil
	made, err := p.build(ctx, state, seen)
	var refused *invalidSpec
	switch {
	case ctx.Err() != nil:
		return operated{}, ctx.Err()
	case err != nil && isTerminating(p.app):
		return p.finishOperation(state, v1alpha1.OperationFailed, terminated), nil
	case errors.As(err, &refused):
		// Asking again would not help.
		state.Operation.Retry = nil
		return p.finishOperation(state, v1alpha1.OperationError, truncate(refusedSources(err))), nil
	case err != nil && resumed && (source.IsKind(err, source.Unreachable) || policyFor(err).retry):
		state.Message = truncate("the operation cannot continue: " + err.Error())
		p.setPending(state)
		return operated{requeueAt: p.now.Add(pause(4))}, nil
	case err != nil:
		return p.finishOperation(state, v1alpha1.OperationError, truncate(err.Error())), nil
	}
	p.session.operation = made
	p.setPending(state)
	if !resumed {
		p.updateHold(state, made.of)
	}
	if !resumed && made.waits() {
		// A hook must not run twice after a restart, and a client that waits for
		// the operation wants to see it.
		p.recordStart(state)
		if err := p.writePending(ctx); err != nil {
			return operated{}, err
		}
	}
	return p.advance(ctx, state)
}

// waits reports whether the operation has more than one wave or any hook, and
// so will most likely wait.
func (r *runningOperation) waits() bool {
	waves := 0
	for _, phase := range r.plan.Phases {
		waves += len(phase.Waves)
	}
	isHook := func(step *plan.Step) bool { return step.Hook != nil }
	return !r.plan.DryRun && (waves > 1 || slices.ContainsFunc(r.plan.Steps(), isHook))
}

// build makes the plan of an operation, with the results that it has already.
func (p *reconcileRun) build(ctx context.Context, state *v1alpha1.OperationState, seen *observedState) (*runningOperation, error) {
	if p.applier == nil || p.project == nil {
		return nil, errors.New("the application is refused")
	}
	sync := state.Operation.Sync
	sources, revisions := p.operationSources(state)
	chosen, err := p.renderingFor(ctx, sources, revisions)
	if err != nil {
		return nil, err
	}
	set, err := p.prepare(chosen, state.StartedAt.Time)
	if err != nil {
		return nil, err
	}
	options := planOptions(&p.app.Spec, sync)
	own, err := p.observeFor(ctx, chosen, set, seen)
	if err == nil {
		err = p.fetchMissing(ctx, own.live, hooks(set))
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
	releases, err := p.overlayReleases(ctx, set, own.live, chosen)
	if err != nil {
		return nil, err
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
	made, err := plan.Build(set, plan.Input{Live: own.live, Synced: synced, Gate: p.gate(), Options: options})
	if err != nil {
		return nil, err
	}
	if err := p.beginReleases(ctx, made, releases); err != nil {
		return nil, err
	}
	state.SyncResult = result
	return &runningOperation{
		Run: operation.New(operation.Input{
			Plan: made, State: plan.NewState(marks), Live: p.destinationCluster.Live, Applier: p.applier, Ignore: p.ignore, Health: p.Health,
			Began: state.StartedAt.Time, Now: time.Now, Log: p.log,
		}),
		plan: made, of: chosen, began: state.StartedAt, try: state.RetryCount,
	}, nil
}

// result describes what a sync is of: its revisions and sources.
func (p *reconcileRun) result(of *rendering, sources []v1alpha1.ApplicationSource) *v1alpha1.SyncOperationResult {
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

// observeFor returns the live objects compared with what an operation applies:
// the comparison of this run, or another one for other sources.
func (p *reconcileRun) observeFor(ctx context.Context, of *rendering, set *plan.Set, seen *observedState) (*observedState, error) {
	if seen != nil && seen.set != nil && of == seen.of {
		return seen, nil
	}
	if err := p.watchKinds(ctx, set); err != nil {
		return nil, err
	}
	own := p.observeOwned(set, p.gate())
	if err := p.fetchMissing(ctx, own.live, set.Resources()); err != nil {
		return nil, err
	}
	matched := p.session.syncedVersions
	p.session.syncedVersions = nil // it is about another set
	_, err := p.overlayReleases(ctx, set, own.live, of)
	if err == nil {
		err = p.compare(ctx, own)
	}
	p.session.syncedVersions = matched
	return own, err
}

// advance lets the operation do what is possible now, and keeps its results.
func (p *reconcileRun) advance(ctx context.Context, state *v1alpha1.OperationState) (operated, error) {
	made := p.session.operation
	if isTerminating(p.app) {
		made.Terminate()
	}
	if p.isApproved(state.StartedAt.Time) {
		made.Confirm()
	}
	outcome := made.Advance(ctx)
	if ctx.Err() != nil {
		return operated{changed: true}, ctx.Err()
	}
	state.SyncResult.Resources = made.Results()
	if len(outcome.Existing) > 0 {
		return p.replan(ctx, state, outcome.Existing[0])
	}
	if outcome.Phase.Completed() {
		done := p.finishOperation(state, outcome.Phase, outcome.Message)
		done.changed = true
		return done, nil
	}
	state.Message = outcome.Message
	p.setPending(state)
	p.recordStart(state)
	return operated{changed: outcome.Changed, requeueAt: outcome.Again}, nil
}

// isApproved reports whether deletions were confirmed since a time. The value
// of the annotation is when, as in Argo CD.
func (p *reconcileRun) isApproved(since time.Time) bool {
	at, err := time.Parse(time.RFC3339, p.app.Annotations[approvedAnnotation])
	return err == nil && !at.Before(since.Truncate(time.Second))
}

// copyState is a copy of a state that can be changed. The one in the store is
// shared between goroutines.
func copyState(state *v1alpha1.OperationState) *v1alpha1.OperationState {
	own := *state
	if own.SyncResult != nil {
		result := *own.SyncResult
		own.SyncResult = &result
	}
	return &own
}

// setPending keeps the state of the operation until it is written. The history
// is kept with it: both are written together.
func (p *reconcileRun) setPending(state *v1alpha1.OperationState) {
	if p.session.pending == nil {
		p.session.pending = &pendingStatus{history: p.history(), held: p.held()}
	}
	p.session.pending.state = state
}

// finishOperation ends an operation, or schedules its retry.
func (p *reconcileRun) finishOperation(state *v1alpha1.OperationState, phase v1alpha1.OperationPhase, message string) operated {
	var done operated
	p.session.operation = nil
	p.session.fingerprint = ""
	state.Phase, state.Message, state.FinishedAt = phase, message, wholeSecond(time.Now())
	retry := state.Operation.Retry
	dry := state.Operation.Sync != nil && state.Operation.Sync.DryRun
	if phase != v1alpha1.OperationSucceeded && !isTerminating(p.app) && !dry && retry.Allows(state.RetryCount) {
		at := state.FinishedAt.Add(retry.Wait(state.RetryCount))
		state.RetryCount++
		state.Phase = v1alpha1.OperationRunning
		state.Message = fmt.Sprintf("%s. Retrying attempt #%d at %s.", message, state.RetryCount, at.UTC().Format(time.TimeOnly))
		done.requeueAt = at
	}
	p.setPending(state)
	if state.Phase.Completed() {
		done.ended = true
		p.session.started = metav1.Time{}
		p.session.pending.history = appendHistory(p.session.pending.history, state, p.app.Spec.HistoryLimit())
	}
	p.recordEnd(state)
	return done
}
