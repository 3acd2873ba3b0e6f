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
