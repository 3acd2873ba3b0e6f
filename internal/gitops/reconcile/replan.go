package reconcile

import (
	"context"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// maxReplans bounds how often the plan of an operation is built again. Each time
// another object has to appear in between.
const maxReplans = 5

// replan builds the plan of a running operation again, because an object exists
// that it creates. All objects are read now, so that the project, the owner and
// the sync options decide about that one before it is touched. What the operation
// has done stays a part of it, as after a restart.
func (p *reconcileRun) replan(ctx context.Context, state *v1alpha1.OperationState, existing tracking.Key) (operated, error) {
	p.session.operation = nil
	if p.session.replans++; p.session.replans > maxReplans {
		done := p.finishOperation(state, v1alpha1.OperationFailed, existing.String()+" was created by another client while the sync ran")
		done.changed = true
		return done, nil
	}
	if state.SyncResult.Resources == nil {
		state.SyncResult.Resources = []v1alpha1.ResourceResult{} // launch continues an operation that has results
	}
	p.setPending(state)
	p.observeCluster(ctx)
	done, err := p.launch(ctx, state, p.observed)
	done.changed = true
	return done, err
}
