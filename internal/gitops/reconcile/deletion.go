package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// The finalizers of an Application, with Argo CD's names. Without one of the
// first three, the objects of an Application that is deleted stay. Argo CD adds
// the others for hooks; here the hooks are part of the deletion, and what Argo CD
// left behind is removed with it.
const (
	finalizer           = "resources-finalizer.argocd.argoproj.io"
	finalizerForeground = "resources-finalizer.argocd.argoproj.io/foreground"
	finalizerBackground = "resources-finalizer.argocd.argoproj.io/background"

	finalizerPreDelete   = "pre-delete-finalizer.argocd.argoproj.io"
	finalizerPostDelete  = "post-delete-finalizer.argocd.argoproj.io"
	finalizerPreCleanup  = "pre-delete-finalizer.argocd.argoproj.io/cleanup"
	finalizerPostCleanup = "post-delete-finalizer.argocd.argoproj.io/cleanup"
)

// hookRenderTimeout is how long a deletion waits for Git in order to find its
// hooks. After that it goes on without them: an Application must be deletable
// while its repository is gone.
const hookRenderTimeout = time.Minute

// deletion is the deletion of an Application's objects.
type deletion struct{ *operation.Run }

// allowAll is the gate of a deletion in the control namespace whose project is
// gone. The Application can only delete what carries its own marks.
type allowAll struct{}

// Allows permits everything.
func (allowAll) Allows(tracking.Key, *unstructured.Unstructured, string) *refusal.Refusal { return nil }

// TakesOver permits everything.
func (allowAll) TakesOver(tracking.Key) *refusal.Refusal { return nil }

// allowNone is the gate of a deletion that no project allows.
type allowNone struct{ reason string }

// Allows permits nothing.
func (n allowNone) Allows(tracking.Key, *unstructured.Unstructured, string) *refusal.Refusal {
	return refusal.New("", refusal.NotAllowed, "%s", n.reason)
}

// TakesOver permits nothing.
func (n allowNone) TakesOver(key tracking.Key) *refusal.Refusal { return n.Allows(key, nil, "") }

// finalizersOf returns the finalizers that are ours to remove, and whether one
// of them deletes the objects.
func finalizersOf(app *v1alpha1.Application) (ours []string, cascades bool) {
	for _, name := range app.Finalizers {
		switch name {
		case finalizer, finalizerForeground, finalizerBackground:
			cascades = true
			ours = append(ours, name)
		case finalizerPreDelete, finalizerPostDelete, finalizerPreCleanup, finalizerPostCleanup:
			ours = append(ours, name)
		}
	}
	return ours, cascades
}

// reconcileDeletion is the only step for an Application that is being deleted.
// Neither Git nor the project has to be there.
func (p *reconcileRun) reconcileDeletion(ctx context.Context) result {
	p.session.operation = nil
	finalizers, cascades := finalizersOf(p.app)
	switch {
	case len(finalizers) == 0:
		return proceed()
	case !cascades:
		return failed(p.removeFinalizers(ctx, finalizers))
	}
	if p.session.deletion == nil {
		made, err := p.planDeletion(ctx)
		if err != nil {
			return p.retryDeletion(ctx, err)
		}
		p.session.deletion = made
		p.log.Info("deleting application with its objects")
	}
	if p.isApproved(p.app.DeletionTimestamp.Time) {
		p.session.deletion.Confirm()
	}
	outcome := p.session.deletion.Advance(ctx)
	switch {
	case ctx.Err() != nil:
		return failed(ctx.Err())
	case outcome.Phase == v1alpha1.OperationSucceeded:
		did := operation.Describe(p.session.deletion.Results())
		p.log.Info("deleted application", "changed", did)
		p.recordEvent(false, "ResourcesDeleted", did)
		return failed(p.removeFinalizers(ctx, finalizers))
	case outcome.Phase.Completed():
		p.session.deletion = nil
		return p.retryDeletion(ctx, errors.New(outcome.Message))
	}
	err := p.writeDeletionStatus(ctx, health.Status{Code: v1alpha1.Progressing, Message: "deleting: " + outcome.Message}, nil)
	return failed(err).by(outcome.Again)
}

// removeFinalizers lets the API server remove the Application.
func (p *reconcileRun) removeFinalizers(ctx context.Context, finalizers []string) error {
	_, err := p.write(ctx, &applicationUpdate{status: p.app.Status, finalizers: finalizers})
	return err
}

// retryDeletion reports what blocks the deletion in the condition DeletionError,
// and retries with backoff. Log and Event come once for each text.
func (p *reconcileRun) retryDeletion(ctx context.Context, problem error) result {
	reported := condition(v1alpha1.ConditionDeletionError, problem.Error())
	if !hasCondition(p.app.Status.Conditions, problem.Error()) {
		p.log.Warn("deletion failed", "error", problem)
		p.recordEvent(true, "DeletionFailed", problem.Error())
	}
	p.session.failures++
	err := p.writeDeletionStatus(ctx, health.Status{Code: v1alpha1.Progressing, Message: "deleting"}, []v1alpha1.ApplicationCondition{reported})
	return failed(err).by(time.Now().Add(pause(p.session.failures)))
}

// writeDeletionStatus writes how far the deletion is. Nothing else of the status
// changes.
func (p *reconcileRun) writeDeletionStatus(ctx context.Context, now health.Status, conditions []v1alpha1.ApplicationCondition) error {
	status := p.app.Status
	status.Health = *healthStatus(&p.app.Status.Health, now, p.now)
	status.Conditions = mergeConditions(p.app.Status.Conditions, conditions, p.now)
	_, err := p.write(ctx, &applicationUpdate{status: status})
	return err
}

// planDeletion plans the deletion, with the PreDelete and PostDelete hooks of
// the last render if the Application may still run them.
func (p *reconcileRun) planDeletion(ctx context.Context) (*deletion, error) {
	gate, set, err := p.deleteHooks(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.watchKinds(ctx, set); err != nil {
		return nil, err
	}
	owned := p.observeOwned(set, gate)
	if err := p.fetchMissing(ctx, owned.live, hooks(set)); err != nil {
		return nil, err
	}
	options := objectOptions(&p.app.Spec, nil)
	options.Propagation = metav1.DeletePropagationForeground
	if slices.Contains(p.app.Finalizers, finalizerBackground) {
		options.Propagation = metav1.DeletePropagationBackground
	}
	made, err := plan.Deletion(set, plan.Input{Live: owned.live, Gate: gate, Options: options})
	if err != nil {
		return nil, err
	}
	if left := owned.excluded; len(left) > 0 {
		p.log.Warn("deleting application without some of its objects", "count", len(left), "first", left[0])
		p.recordEvent(true, "ResourcesLeft", truncate(strings.Join(left, "; ")))
	}
	return &deletion{operation.New(operation.Input{
		Plan: made, Live: p.destinationCluster.Live, Applier: p.applier, Ignore: p.ignore, Health: p.Health,
		Began: p.app.DeletionTimestamp.Time, Now: time.Now, Log: p.log,
	})}, nil
}

// deleteHooks returns the set that has the hooks of the deletion, and the gate.
// An Application that is refused runs no hooks.
func (p *reconcileRun) deleteHooks(ctx context.Context) (plan.Gate, *plan.Set, error) {
	bare := &rendering{}
	refused := p.compile()
	if refused != nil {
		p.log.Warn("deleting refused application without hooks", "reason", refused)
		set, err := p.prepare(bare, time.Time{})
		if err != nil {
			return nil, nil, err
		}
		gate, err := p.refusedGate()
		return gate, set, err
	}
	gate := p.gate()
	last := p.session.rendering
	if last == nil {
		var err error
		last, err = p.renderingFor(ctx, p.app.Spec.AllSources(), comparedRevisions(&p.app.Status))
		patient := p.now.Sub(p.app.DeletionTimestamp.Time) < hookRenderTimeout
		switch {
		case err != nil && patient:
			return nil, nil, fmt.Errorf("the hooks of the deletion are not known yet, and are retried for a minute: %w", err)
		case err != nil:
			p.log.Warn("deleting application without hooks, which cannot be rendered", "error", err)
			p.recordEvent(true, "DeletedWithoutHooks", err.Error())
			last = bare
		}
	}
	set, err := p.prepare(last, p.app.DeletionTimestamp.Time)
	return gate, set, err
}

// refusedGate returns the gate of a refused Application that is deleted, and
// chooses whose rights count: those of a sync, so that nothing is deleted by
// being refused that could not be deleted otherwise. Without a project all
// objects of an Application in the control namespace are deleted, with the
// agent's own rights. Elsewhere its author chooses the project, and could name
// one that does not exist: the objects stay.
func (p *reconcileRun) refusedGate() (plan.Gate, error) {
	p.applier = p.destinationCluster.Applier
	isControl := p.id.Namespace == p.ControlNamespace
	name := p.app.Spec.ProjectName()
	switch {
	case p.project == nil && isControl:
		return allowAll{}, nil
	case p.project == nil || !isControl && !p.project.AllowsNamespace(p.id.Namespace):
		return allowNone{fmt.Sprintf("there is no project %s that the application may be in", name)}, nil
	case !p.project.HasAccount(p.destination()):
		return allowNone{fmt.Sprintf("project %s has no ServiceAccount for the destination of the application", name)}, nil
	}
	return p.gate(), p.impersonate()
}

// comparedRevisions returns the revisions of the last comparison; nil if there
// was none.
func comparedRevisions(status *v1alpha1.ApplicationStatus) []string {
	switch {
	case len(status.Sync.Revisions) > 0:
		return status.Sync.Revisions
	case status.Sync.Revision != "":
		return []string{status.Sync.Revision}
	}
	return nil
}
