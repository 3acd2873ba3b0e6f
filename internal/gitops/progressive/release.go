package progressive

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/v1alpha1"
)

func releaseState(object *unstructured.Unstructured) (*State, error) {
	release := &v1alpha1.Release{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, release); err != nil {
		return nil, err
	}
	status := &release.Status
	state := &State{
		Strategy: strategyCanary,
		Phase:    status.Phase, Message: status.Message,
		Step: status.Step, Steps: status.Steps,
		Decision: status.Decision,
	}
	if state.Phase == "" {
		state.Phase, state.Message = v1alpha1.ReleaseProgressing, "waiting for the agent"
	}
	for i := range release.Spec.Revisions {
		revision := &release.Spec.Revisions[i]
		weight := revision.Weight
		shown := Revision{Name: revision.Name, Hash: revision.Hash, Commit: revision.Commit, Weight: &weight}
		if revision.Name == v1alpha1.RevisionCanary {
			state.Weight = &weight
		}
		for j := range status.Revisions {
			// Counts of an older pair of revisions are not those of this one.
			if counted := &status.Revisions[j]; counted.Name == revision.Name && (counted.Hash == "" || counted.Hash == revision.Hash) {
				shown.Traffic, shown.Ready = counted, counted.Ready
			}
		}
		state.Revisions = append(state.Revisions, shown)
	}
	return state, nil
}

// actOnRelease writes the request into an annotation. Its time makes it differ
// from an earlier request for the same action.
func (r *Reader) actOnRelease(ctx context.Context, state *State, action Action) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		v1alpha1.AnnotationReleaseRequest: v1alpha1.FormatReleaseRequest(v1alpha1.ReleaseAction(action), time.Now()),
	}}})
	if err != nil {
		return err
	}
	_, err = r.of(state.Kind, state.Namespace).Patch(ctx, state.Name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: r.Manager})
	if err != nil {
		return &AccessError{Verb: "patch", ID: state.ID, Err: err}
	}
	return nil
}
