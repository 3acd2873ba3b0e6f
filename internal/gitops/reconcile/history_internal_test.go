package reconcile

import (
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

func TestHistory(t *testing.T) {
	state := func(change func(*v1alpha1.OperationState)) *v1alpha1.OperationState {
		state := &v1alpha1.OperationState{
			Phase: v1alpha1.OperationSucceeded, Operation: v1alpha1.Operation{Sync: &v1alpha1.SyncOperation{}},
			SyncResult: &v1alpha1.SyncOperationResult{Revision: "aaa"}, StartedAt: *wholeSecond(noon()), FinishedAt: wholeSecond(noon()),
		}
		if change != nil {
			change(state)
		}
		return state
	}
	before := []v1alpha1.RevisionHistory{{ID: 6}, {ID: 7}}
	got := appendHistory(before, state(nil), 2)
	if len(got) != 2 || got[0].ID != 7 || got[1].ID != 8 || got[1].Revision != "aaa" || before[0].ID != 6 {
		t.Errorf("the history is %+v", got)
	}
	if len(appendHistory(before, state(nil), 0)) != 0 {
		t.Error("a limit of 0 keeps something")
	}
	for what, change := range map[string]func(*v1alpha1.OperationState){
		"failed":  func(s *v1alpha1.OperationState) { s.Phase = v1alpha1.OperationFailed },
		"dry run": func(s *v1alpha1.OperationState) { s.Operation.Sync.DryRun = true },
		"some objects": func(s *v1alpha1.OperationState) {
			s.Operation.Sync.Resources = []v1alpha1.SyncOperationResource{{Kind: "Job"}}
		},
		"no result": func(s *v1alpha1.OperationState) { s.SyncResult = nil },
	} {
		if got := appendHistory(before, state(change), 10); len(got) != 2 {
			t.Errorf("%s: the history is %+v, want it unchanged", what, got)
		}
	}
}

// A revision that was held is in the history when the hold is lifted, also if the agent ended
// before it wrote its sync: the next release goes back to it, and not to the one that failed.
func TestHistoryOfHeld(t *testing.T) {
	sources := []v1alpha1.ApplicationSource{{RepoURL: "https://git.example.com/shop"}}
	good := v1alpha1.RevisionHistory{ID: 6, Revision: "good", Source: &sources[0]}
	failed := v1alpha1.RevisionHistory{ID: 7, Revision: "failed", Source: &sources[0]}
	hold := &v1alpha1.HeldRevision{Revisions: []string{"good"}, Sources: sources, Reason: v1alpha1.HeldByRelease}
	missing := []v1alpha1.RevisionHistory{good, failed}
	if got := withHeld(missing, hold, 2); len(got) != 2 || got[1].ID != 8 || got[1].Revision != "good" || missing[0].ID != 6 {
		t.Errorf("the history is %+v", got)
	}
	if got := withHeld([]v1alpha1.RevisionHistory{failed, good}, hold, 10); len(got) != 2 {
		t.Errorf("a sync that is there is added again: %+v", got)
	}
	byUser := *hold
	byUser.Reason = v1alpha1.HeldByRollback
	if got := withHeld(missing, &byUser, 10); len(got) != 2 || len(withHeld(missing, nil, 10)) != 2 {
		t.Errorf("the history of a rollback is %+v", got)
	}
}
