package reconcile

import (
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// isOwn reports whether this process started an operation. One that it only
// found in the status can be of a process before it, or of any client: the
// status is writable like the spec.
func (p *reconcileRun) isOwn(state *v1alpha1.OperationState) bool {
	return !p.session.started.IsZero() && p.session.started.Equal(&state.StartedAt)
}

// inconsistency returns why an operation that was found in the status is none
// that the runtime started; empty if it can be one. Its sources are checked by
// the project when they are resolved, as all are.
func (p *reconcileRun) inconsistency(state *v1alpha1.OperationState) string {
	sync := state.Operation.Sync
	named := operationNames(sync)
	switch {
	case p.isOwn(state):
	case state.StartedAt.After(p.now.Add(clockSkew)):
		return "it starts in the future"
	case state.Operation.InitiatedBy.Automated && named != nil:
		return "an automated sync names no sources"
	case named != nil && state.SyncResult != nil && !sameSources(named, resultSources(state.SyncResult)):
		return "its result is of other sources than it names"
	}
	return ""
}

// clockSkew is how much the clocks of two replicas may differ.
const clockSkew = 5 * time.Minute

// operationNames are the sources that an operation names itself, as a rollback
// does; nil for those of the spec.
func operationNames(sync *v1alpha1.SyncOperation) []v1alpha1.ApplicationSource {
	switch {
	case len(sync.Sources) > 0:
		return sync.Sources
	case sync.Source != nil:
		return []v1alpha1.ApplicationSource{*sync.Source}
	}
	return nil
}

// refusedOperation returns why the project does not allow the sources of the
// last operation, for a condition that stays until the next one; empty if it
// does.
func (p *reconcileRun) refusedOperation() string {
	state := p.state()
	if p.project == nil || state == nil || state.Phase != v1alpha1.OperationError || state.Operation.Sync == nil {
		return ""
	}
	sources, _ := p.operationSources(state)
	if _, err := p.admit(sources); err != nil {
		return refusedSources(err)
	}
	return ""
}

// refusedSources is the message of an operation with sources that the project
// does not allow.
func refusedSources(err error) string {
	return "the sources of the operation are refused: " + err.Error()
}

// operationSources returns the sources of an operation and its revisions: those
// that it started with, those that it names, or nil for the newest.
func (p *reconcileRun) operationSources(state *v1alpha1.OperationState) ([]v1alpha1.ApplicationSource, []string) {
	if state.SyncResult != nil {
		return resultSources(state.SyncResult), resultRevisions(state.SyncResult)
	}
	sources, revisions := operationNames(state.Operation.Sync), givenRevisions(state.Operation.Sync)
	if sources != nil {
		return sources, revisions
	}
	if hold := p.held(); hold != nil && state.Operation.InitiatedBy.Automated {
		return hold.Sources, hold.Revisions
	}
	return p.app.Spec.AllSources(), revisions
}
