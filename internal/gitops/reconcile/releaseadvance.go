package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// releaseRetry is when a release goes on after an error.
const releaseRetry = 2 * time.Second

// advanceReleases carries out what was decided about the releases that run: the
// shares first, then the Deployment, or the hold of the whole Application. One
// that begins waits for its sync. An error delays the release, and nothing else.
func (p *reconcileRun) advanceReleases(ctx context.Context) result {
	var at time.Time
	isChanged := false
	for key, state := range p.releases {
		if state.plan.Begins {
			continue
		}
		at = earliest(at, state.plan.RequeueAt)
		changed, err := p.advanceRelease(ctx, state)
		isChanged = isChanged || changed
		if err != nil {
			p.log.Warn("release failed to advance", "object", key.String(), "error", err)
			at = earliest(at, time.Now().Add(releaseRetry))
		}
	}
	if isChanged {
		p.observeCluster(ctx)
	}
	return failed(ctx.Err()).by(at)
}

// advanceRelease carries out one decision, and reports whether the Deployment or
// what is desired changed. Each write can be repeated: after a restart the same
// decision follows from what is in the cluster.
func (p *reconcileRun) advanceRelease(ctx context.Context, state *releaseState) (bool, error) {
	if err := p.writeRelease(ctx, state); err != nil {
		return false, err
	}
	switch {
	case state.isRetried && p.held() != nil && p.held().Reason == v1alpha1.HeldByRelease:
		p.lift("a user tries the release again")
		return true, nil
	case state.plan.RollBack != "":
		return p.rollBack(ctx, state)
	case state.plan.Apply && p.lastErr == nil:
		after, err := p.applier.Apply(ctx, &plan.Step{
			StepID: plan.StepID{Key: state.desired.Key}, Action: plan.Apply, Object: state.desired.Object, Live: state.live,
		}, apply.Options{})
		if err != nil {
			return false, err
		}
		return after.GetResourceVersion() != state.live.GetResourceVersion(), nil
	}
	return false, nil
}

// rollBack holds the Application at the sync before the release. The sync to it
// follows in the next run.
func (p *reconcileRun) rollBack(ctx context.Context, state *releaseState) (bool, error) {
	past := p.pastSync(state.mark.From)
	switch {
	case p.held() != nil:
		return false, nil
	case p.session.rendering == nil:
		return false, nil // the sources are not polled yet
	case state.mark.From < 0 || past == nil || slices.Equal(pastRevisions(past), p.session.rendering.revisions) && sameSources(pastSources(past), p.session.rendering.sources):
		p.log.Warn("no earlier sync to go back to: the new revision gets no requests", "object", state.desired.Key.String())
		return false, nil
	}
	at, err := p.renderingFor(ctx, pastSources(past), pastRevisions(past))
	if err != nil {
		return false, fmt.Errorf("render the revision to go back to: %w", err)
	}
	text := fmt.Sprintf("the release of %s failed: %s", state.desired.Key.Name, state.plan.RollBack)
	if running := p.state(); running != nil && !running.Phase.Completed() {
		running = copyState(running)
		running.Operation.Retry = nil
		p.finishOperation(running, v1alpha1.OperationFailed, text)
	}
	p.setPending(p.state())
	p.hold(at, v1alpha1.HeldByRelease, text)
	return true, nil
}

// beginReleases writes the Releases of Deployments that a plan is about to
// change, before their first Pod of the new revision gets a request.
func (p *reconcileRun) beginReleases(ctx context.Context, made *plan.Plan, states map[tracking.Key]*releaseState) error {
	if made.DryRun {
		return nil
	}
	for _, step := range made.Steps() {
		state := states[step.Key]
		if state == nil || !state.plan.Begins || step.Hook != nil {
			continue
		}
		if err := p.writeRelease(ctx, state); err != nil {
			return fmt.Errorf("begin the release of %s: %w", step.Key, err)
		}
	}
	return nil
}

// effectivePolicy is the sync policy that decides about automated syncs. An
// Application that is held because of a release is synced to the held revision
// once, whatever its policy is.
func (p *reconcileRun) effectivePolicy() *v1alpha1.SyncPolicy {
	policy := p.app.Spec.SyncPolicy
	if hold := p.held(); hold == nil || hold.Reason != v1alpha1.HeldByRelease || policy.IsAutomated() {
		return policy
	}
	own := v1alpha1.SyncPolicy{}
	if policy != nil {
		own = *policy
	}
	own.Automated = &v1alpha1.SyncPolicyAutomated{}
	return &own
}

// releaseHealth is the health of a Deployment whose release runs; nil if none
// does.
func (p *reconcileRun) releaseHealth(key tracking.Key) *health.Status {
	state := p.releases[key]
	if state == nil || state.plan.Begins || state.plan.Release == nil || state.plan.Release.Status.FinishedAt != nil {
		return nil
	}
	status := &state.plan.Release.Status
	if state.plan.RollBack != "" && p.held() == nil {
		return &health.Status{Code: v1alpha1.Degraded, Message: "rolled back: " + status.Message}
	}
	return &health.Status{Code: v1alpha1.Progressing, Message: status.Message}
}
