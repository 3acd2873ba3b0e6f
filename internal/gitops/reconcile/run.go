package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// refreshHard is the value of the refresh annotation that renders again without
// the cache. Any other value polls the repository now.
const refreshHard = "hard"

// input is what a reconcile run is about. It is set before the first step and
// no step changes it.
type input struct {
	id    tracking.App
	entry *storedApplication
	// refused are the fields of the Application that are not supported.
	refused []refusal.Refusal
	reasons reason
	now     time.Time
	// refresh is the value of the refresh annotation; empty if it is not there.
	refresh string
	// destinationCluster is the cluster that the Application deploys to.
	// destinationError is why there is no such cluster; it is then the local one.
	destinationCluster *Destination
	destinationError   *refusal.Refusal
	log                *slog.Logger
}

// outputs is what the steps of a run found out. Each field is set by the step
// that its comment names, and read by later steps.
type outputs struct {
	// steady: the last run compared everything without an error, and no operation
	// runs. Set by skipEcho.
	steady bool
	// project, ignore and applier follow from the spec and its project. Set by
	// compileSpec; applier is nil for an Application that is refused.
	project *project.Project
	ignore  *plan.Ignore
	applier *apply.Applier
	// lastErr is the first error of compileSpec, renderSources and
	// observeCluster: why the Application cannot be compared.
	lastErr error
	// pendingSource: the repository has not been polled since a refresh was
	// requested. Set by renderSources.
	pendingSource bool
	// lifted: the hold of the Application ends with this run. Set by
	// renderSources and runOperation.
	lifted bool
	// observed is the state of the cluster. Set by observeCluster, and again by
	// observeChanges.
	observed *observedState
	// releases are those of the Application's Deployments. Set by observeCluster.
	releases map[tracking.Key]*releaseState
	// rejected is a request that is removed without being started, because an
	// operation runs, or because it was taken up before. Set by runOperation, like
	// operated.
	rejected *v1alpha1.Operation
	operated operated
}

// reconcileRun is one run over one Application. It belongs to the worker that
// holds the Application's item of the queue, and so does the session.
type reconcileRun struct {
	*Controller
	input
	outputs
	session *session
	// app is the Application in the newest version that was read: a write
	// replaces it.
	app *v1alpha1.Application
}

// reconcile runs the steps for an Application, and schedules the next run.
func (c *Controller) reconcile(ctx context.Context, id tracking.App, why reason) {
	ctx, end, owned := c.begin(ctx, id)
	if !owned {
		return // it is enqueued when it is gained
	}
	defer end()
	if c.store.activate(id) {
		if err := c.load(ctx, id); err != nil {
			c.Log.Warn("cannot read an Application; retrying", "application", id.String(), "error", err)
			c.queue.at(item{app: id}, reasonChange, time.Now().Add(firstPause))
			return
		}
	}
	found, app, refused := c.store.get(id)
	if found == nil {
		return
	}
	p := &reconcileRun{
		Controller: c, session: &found.session, app: app,
		input: input{
			id: id, entry: found, refused: refused, reasons: why, now: time.Now(),
			log: c.Log.With("application", id.String()), refresh: app.Annotations[refreshAnnotation],
		},
	}
	p.destinationCluster, p.destinationError = c.locate(app)
	p.session.bindDestination(p.destinationCluster)
	began := time.Now()
	outcome := p.runSteps(ctx)
	c.Metrics.durations.Observe(time.Since(began).Seconds())
	requeueAt := outcome.requeueAt
	switch {
	case ctx.Err() != nil, errors.Is(outcome.err, errGone):
		return
	case outcome.err != nil:
		p.session.fingerprint = ""
		p.session.failures++
		requeueAt = earliest(requeueAt, time.Now().Add(pause(p.session.failures)))
		p.log.Warn("reconcile failed", "error", outcome.err)
	case outcome.skipped:
		return // the timer that was set stays
	}
	c.queue.at(item{app: id}, reasonTimer, requeueAt)
}

// prepareSession drops what a changed Application may have made invalid.
func (p *reconcileRun) prepareSession() {
	if p.reasons&reasonChange != 0 {
		p.session.syncedVersions = nil
	}
	switch {
	case p.refresh == "":
		p.session.refreshSince = time.Time{}
	case p.session.refreshSince.IsZero():
		p.session.refreshSince = p.now
	}
}

// comparable returns the rendering to compare with the cluster; nil for an
// Application that is refused, or that was not rendered yet.
func (p *reconcileRun) comparable() *rendering {
	if p.applier == nil {
		return nil
	}
	return p.desiredRendering()
}

// isEcho reports whether the run is only for events of objects, and these are
// as they were.
func (p *reconcileRun) isEcho() bool {
	return p.reasons.only(reasonLive) && p.session.fingerprint != "" && !p.isOperating() && fingerprint(p.destinationCluster.Live.Of(p.id)) == p.session.fingerprint
}

// isOperating reports whether an operation runs, or its end is not written yet.
func (p *reconcileRun) isOperating() bool {
	state := p.state()
	return p.session.pending != nil || state != nil && !state.Phase.Completed()
}

// ownKey is the Application itself as an object: an app of apps may contain
// itself, and is not judged by its own health.
func (p *reconcileRun) ownKey() tracking.Key {
	return tracking.Key{Group: v1alpha1.Group, Kind: v1alpha1.KindApplication, Namespace: p.id.Namespace, Name: p.id.Name}
}

// state is that of the current or the last operation; nil if there was none.
// What is pending goes before what the API server has.
func (p *reconcileRun) state() *v1alpha1.OperationState {
	if p.session.pending != nil {
		return p.session.pending.state
	}
	return p.app.Status.OperationState
}

// history is the list of past syncs, pending ones included.
func (p *reconcileRun) history() []v1alpha1.RevisionHistory {
	if p.session.pending != nil {
		return p.session.pending.history
	}
	if p.lifted {
		return withHeld(p.app.Status.History, p.app.Status.Held, p.app.Spec.HistoryLimit())
	}
	return p.app.Status.History
}

// requested is the operation in the Application's spec; nil if there is none,
// or if it was taken up and only its removal is not written yet.
func (p *reconcileRun) requested() *v1alpha1.Operation {
	if unwritten := p.session.pending; unwritten != nil && unwritten.consumed != nil && equalOperations(unwritten.consumed, p.app.Operation) {
		return nil
	}
	return p.app.Operation
}

// recordEvent queues an Event about the Application.
func (p *reconcileRun) recordEvent(warning bool, what, note string) {
	p.events.record(kube.Notice{
		Regarding: reference(p.app), Warning: warning, Reason: what, Action: "Reconcile", Note: note, Times: 1,
	})
}
