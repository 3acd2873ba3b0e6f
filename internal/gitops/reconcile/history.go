package reconcile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// appendHistory adds an operation that ended to the history. Only complete
// syncs that succeeded are in it: a rollback can only go to these. IDs only
// grow, also when old entries are dropped: a rollback names an entry by its ID.
func appendHistory(history []v1alpha1.RevisionHistory, state *v1alpha1.OperationState, limit int) []v1alpha1.RevisionHistory {
	sync, result := state.Operation.Sync, state.SyncResult
	if state.Phase != v1alpha1.OperationSucceeded || sync == nil || result == nil || sync.DryRun || len(sync.Resources) > 0 {
		return history
	}
	entry := v1alpha1.RevisionHistory{
		Revision: result.Revision, Revisions: result.Revisions, Source: result.Source, Sources: result.Sources,
		DeployStartedAt: &metav1.Time{Time: state.StartedAt.Time}, InitiatedBy: state.Operation.InitiatedBy,
	}
	if state.FinishedAt != nil {
		entry.DeployedAt = *state.FinishedAt
	}
	if len(history) > 0 {
		entry.ID = history[len(history)-1].ID + 1
	}
	all := append(slices.Clone(history), entry)
	return all[max(0, len(all)-limit):]
}

// withHeld adds the revision that an Application was held at because of a release. It
// serves, but its sync is missing if the agent ended after the last object was written.
// The next release would go back to the entry before then, which is the one that failed.
func withHeld(history []v1alpha1.RevisionHistory, hold *v1alpha1.HeldRevision, limit int) []v1alpha1.RevisionHistory {
	if hold == nil || hold.Reason != v1alpha1.HeldByRelease || len(hold.Revisions) == 0 || len(history) == 0 {
		return history
	}
	last := &history[len(history)-1]
	if slices.Equal(pastRevisions(last), hold.Revisions) && sameSources(pastSources(last), hold.Sources) {
		return history
	}
	entry := v1alpha1.RevisionHistory{ID: last.ID + 1, DeployedAt: hold.HeldAt, InitiatedBy: v1alpha1.OperationInitiator{Automated: true}}
	if len(hold.Revisions) == 1 && len(hold.Sources) == 1 {
		entry.Revision, entry.Source = hold.Revisions[0], &hold.Sources[0]
	} else {
		entry.Revisions, entry.Sources = hold.Revisions, hold.Sources
	}
	all := append(slices.Clone(history), entry)
	return all[max(0, len(all)-limit):]
}
