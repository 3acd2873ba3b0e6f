package notify

import (
	"fmt"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// TestRevisionsOf: a source has the revisions at its place, and the single revision of a
// status is that of the first source alone.
func TestRevisionsOf(t *testing.T) {
	single := &v1alpha1.Application{}
	single.Status.Sync.Revision = "b"
	single.Status.OperationState = &v1alpha1.OperationState{SyncResult: &v1alpha1.SyncOperationResult{Revision: "a"}}
	several := &v1alpha1.Application{}
	several.Status.Sync.Revisions = []string{"b", "y"}
	several.Status.OperationState = &v1alpha1.OperationState{SyncResult: &v1alpha1.SyncOperationResult{Revisions: []string{"b", "x"}}}
	for _, one := range []struct {
		app  *v1alpha1.Application
		of   int
		want string
	}{{single, 0, "[b a]"}, {single, 1, "[]"}, {several, 0, "[b]"}, {several, 1, "[y x]"}, {&v1alpha1.Application{}, 0, "[]"}} {
		if got := fmt.Sprint(revisionsOf(one.app, one.of)); got != one.want {
			t.Errorf("source %d has %s, want %s", one.of, got, one.want)
		}
	}
}
