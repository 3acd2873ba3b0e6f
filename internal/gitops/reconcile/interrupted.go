package reconcile

import (
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
)

// A sync of one wave without hooks is written to the status once, with its end. If the
// process ends after the last object and before that write, the next one finds the
// Application Synced, and would start no sync that could be recorded. The digest of
// the objects that were last Synced shows that there was one.

// isUnrecorded reports whether the cluster has the objects of an automated sync that
// the status lacks. Only the first comparison of a process can find that; later, an
// Application that is Synced at a new revision needed no sync. A requested sync needs
// nothing of this: its request is still there.
func (p *reconcileRun) isUnrecorded(seen *observedState) bool {
	if p.session.compared || !seen.inSync || seen.of == nil || len(seen.refusals()) > 0 || !p.effectivePolicy().IsAutomated() {
		return false
	}
	if len(hooks(seen.set)) > 0 {
		return false // such a sync is in the status from its start
	}
	status := &p.app.Status
	if status.Sync.Status == v1alpha1.SyncSynced && slices.Equal(comparedRevisions(status), seen.of.revisions) {
		return false // what is written as Synced is written with its sync
	}
	if last := p.state(); last != nil && last.SyncResult != nil &&
		slices.Equal(resultRevisions(last.SyncResult), seen.of.revisions) && sameSources(resultSources(last.SyncResult), seen.of.sources) {
		return false
	}
	if len(p.history()) == 0 {
		return p.hasCreated(seen)
	}
	return status.SyncedObjects != "" && status.SyncedObjects != seen.of.digest
}

// hasCreated reports whether an object is younger than the Application. Those of one
// that was deleted without its objects and made again are older.
func (p *reconcileRun) hasCreated(seen *observedState) bool {
	since := p.app.CreationTimestamp.Time
	return slices.ContainsFunc(seen.compared, func(one plan.Status) bool {
		object := seen.live[one.Key]
		return object != nil && !object.GetCreationTimestamp().Time.Before(since)
	})
}

// recordInterrupted records the sync that isUnrecorded found. Nothing is applied: when
// it began, and what it changed, is not known any more.
func (p *reconcileRun) recordInterrupted(seen *observedState) operated {
	sync := &v1alpha1.SyncOperation{Prune: p.effectivePolicy().Automated.Prune}
	sync.Revision, sync.Revisions = seen.of.revision()
	state := &v1alpha1.OperationState{
		Operation: v1alpha1.Operation{Sync: sync, InitiatedBy: v1alpha1.OperationInitiator{Automated: true}},
		StartedAt: *wholeSecond(p.now), SyncResult: p.result(seen.of, seen.of.sources),
	}
	state.SyncResult.Resources = operation.Unchanged(seen.set.Resources())
	return p.finishOperation(state, v1alpha1.OperationSucceeded, "synced; the agent ended before it recorded that")
}

// setSyncedObjects keeps the digest of what is Synced. It begins with a sync, so that
// an upgrade of the agent does not write to every Application.
func (p *reconcileRun) setSyncedObjects(status *v1alpha1.ApplicationStatus, seen *observedState) {
	isKept := p.hasStatusSubresource.Load() // Argo CD's definition drops the field
	if isKept && seen.of != nil && seen.inSync && len(seen.refusals()) == 0 && (p.operated.ended || status.SyncedObjects != "") {
		status.SyncedObjects = seen.of.digest
	}
}
