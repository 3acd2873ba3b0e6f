package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
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

// hookPatience is how long a deletion waits for its hooks to be known when Git
// cannot be read. After that it goes on without.
const hookPatience = time.Minute

// removal is the deletion of an Application's objects.
type removal struct{ *operation.Run }

// openGate is for deleting what the Application made, when its project is gone
// and nobody can say what it may touch.
type openGate struct{}

// Allows everything.
func (openGate) Allows(tracking.Key, *unstructured.Unstructured, string) *plan.Refusal { return nil }

// finalizersOf are the finalizers that are ours, and whether objects are deleted.
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

// remove is the pass over an Application that is deleted. Neither Git nor the
// project has to be there.
func (p *pass) remove(ctx context.Context) error {
	p.session.run = nil
	finalizers, cascades := finalizersOf(p.app)
	switch {
	case len(finalizers) == 0:
		return nil
	case !cascades:
		return p.release(ctx, finalizers)
	}
	if p.session.removal == nil {
		made, err := p.planRemoval(ctx)
		if err != nil {
			return p.delay(ctx, err)
		}
		p.session.removal = made
		p.log.Info("the application is deleted, with its objects")
	}
	if p.isApproved(p.app.DeletionTimestamp.Time) {
		p.session.removal.Confirm()
	}
	outcome := p.session.removal.Advance(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case outcome.Phase == v1alpha1.OperationSucceeded:
		did := operation.Describe(p.session.removal.Results())
		p.log.Info("the application is deleted", "changed", did)
		p.tell(false, "ResourcesDeleted", did)
		return p.release(ctx, finalizers)
	case outcome.Phase.Completed():
		p.session.removal = nil
		return p.delay(ctx, fmt.Errorf("%s", outcome.Message))
	}
	p.again = earliest(p.again, outcome.Again)
	return p.tellRemoval(ctx, health.Status{Code: v1alpha1.Progressing, Message: "deleting: " + outcome.Message}, nil)
}

// release lets the Application go.
func (p *pass) release(ctx context.Context, finalizers []string) error {
	_, err := p.write(ctx, &draft{status: p.app.Status, finalizers: finalizers})
	return err
}

// delay tells what is in the way, and tries again later.
func (p *pass) delay(ctx context.Context, problem error) error {
	told := condition(v1alpha1.ConditionDeletionError, problem.Error())
	if !hasCondition(p.app.Status.Conditions, problem.Error()) {
		p.log.Warn("the application cannot be deleted yet", "error", problem)
		p.tell(true, "DeletionFailed", problem.Error())
	}
	p.session.failures++
	p.again = earliest(p.again, p.Now().Add(pause(p.session.failures)))
	return p.tellRemoval(ctx, health.Status{Code: v1alpha1.Progressing, Message: "deleting"}, []v1alpha1.ApplicationCondition{told})
}

func (p *pass) tellRemoval(ctx context.Context, now health.Status, conditions []v1alpha1.ApplicationCondition) error {
	status := p.app.Status
	status.Health = *toldHealth(&p.app.Status.Health, now, p.now)
	status.Conditions = settled(p.app.Status.Conditions, conditions, p.now)
	_, err := p.write(ctx, &draft{status: status})
	return err
}

// planRemoval plans the deletion: with the hooks of what was rendered last, if
// the Application may still run any.
func (p *pass) planRemoval(ctx context.Context) (*removal, error) {
	gate, set, err := p.deleteHooks(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.follow(ctx, set); err != nil {
		return nil, err
	}
	objects := p.owned()
	if err := p.complete(ctx, objects, hooks(set)); err != nil {
		return nil, err
	}
	options := objectOptions(&p.app.Spec, nil)
	options.Propagation = metav1.DeletePropagationForeground
	if slices.Contains(p.app.Finalizers, finalizerBackground) {
		options.Propagation = metav1.DeletePropagationBackground
	}
	made, err := plan.Deletion(set, plan.Input{Live: objects, Gate: gate, Options: options})
	if err != nil {
		return nil, err
	}
	return &removal{operation.New(operation.Input{
		Plan: made, Live: p.to.Live, Applier: p.applier, Ignore: p.ignore,
		Began: p.app.DeletionTimestamp.Time, Now: p.Now, Log: p.log,
	})}, nil
}

// deleteHooks is what has the hooks of the deletion, and who decides what may be
// touched. An Application that is refused runs no hooks: what it has is deleted
// with our own rights.
func (p *pass) deleteHooks(ctx context.Context) (plan.Gate, *plan.Set, error) {
	bare := &rendering{}
	refusal := p.judge()
	if refusal != nil {
		p.applier = p.to.Applier
		p.log.Warn("the application is deleted without its hooks, because it is refused", "reason", refusal)
		set, err := p.prepare(bare, time.Time{})
		return openGate{}, set, err
	}
	gate := p.project.Gate(p.destination())
	last := p.session.rendering
	if last == nil {
		var err error
		last, err = p.renderingFor(ctx, p.app.Spec.AllSources(), comparedRevisions(&p.app.Status))
		patient := p.now.Sub(p.app.DeletionTimestamp.Time) < hookPatience
		switch {
		case err != nil && patient:
			return nil, nil, fmt.Errorf("whether there are hooks that run at the deletion is not known, and is asked for a minute: %w", err)
		case err != nil:
			p.log.Warn("the application is deleted without its hooks, because they cannot be read", "error", err)
			p.tell(true, "DeletedWithoutHooks", err.Error())
			last = bare
		}
	}
	set, err := p.prepare(last, p.app.DeletionTimestamp.Time)
	return gate, set, err
}

// comparedRevisions are those that the status tells; nil if it does not.
func comparedRevisions(status *v1alpha1.ApplicationStatus) []string {
	switch {
	case len(status.Sync.Revisions) > 0:
		return status.Sync.Revisions
	case status.Sync.Revision != "":
		return []string{status.Sync.Revision}
	}
	return nil
}
