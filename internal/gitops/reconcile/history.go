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
