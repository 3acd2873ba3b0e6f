package progressive

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rolloutPatch is what an action writes to a Rollout: merge patches of the status
// and of the spec, in this order. A nil one is not sent.
type rolloutPatch struct {
	status, spec map[string]any
}

// patchOf returns the patches of Argo Rollouts' plugin of kubectl. Resume is an
// action of Argo CD.
func (r *rollout) patchOf(action Action) rolloutPatch {
	switch action {
	case Pause:
		return rolloutPatch{spec: map[string]any{"paused": true}}
	case Abort:
		return rolloutPatch{status: map[string]any{"abort": true}}
	case Retry:
		return rolloutPatch{status: map[string]any{"abort": false}}
	case Resume:
		patch := r.unpause()
		if len(r.Status.PauseConditions) > 0 {
			patch.status = map[string]any{"pauseConditions": nil}
		}
		return patch
	case PromoteFull:
		patch := r.unpause()
		// A Rollout that has nothing to promote would keep the field, and skip the
		// steps of the next revision.
		if r.Status.CurrentPodHash != r.Status.StableRS {
			patch.status = map[string]any{"promoteFull": true}
		}
		return patch
	}
	return r.promotion()
}

// unpause ends a pause by a person.
func (r *rollout) unpause() rolloutPatch {
	if !r.Spec.Paused {
		return rolloutPatch{}
	}
	return rolloutPatch{spec: map[string]any{"paused": false}}
}

// promotion ends the pause of a Rollout or, without one, skips the current step,
// such as an analysis. It does both only after an analysis without a result:
// the controller would pause at that step again.
func (r *rollout) promotion() rolloutPatch {
	patch := r.unpause()
	next, hasSteps := r.nextStep()
	paused := len(r.Status.PauseConditions) > 0
	switch {
	case paused && r.Status.ControllerPause && r.inconclusive():
		if hasSteps {
			patch.status = map[string]any{"pauseConditions": nil, "controllerPause": false, "currentStepIndex": next}
		}
	case paused:
		patch.status = map[string]any{"pauseConditions": nil}
	case hasSteps:
		patch.status = map[string]any{"pauseConditions": nil, "currentStepIndex": next}
	}
	return patch
}

// actOnRollout sends the patches of an action.
func (r *Reader) actOnRollout(ctx context.Context, state *State, action Action) error {
	decoded, err := decodeRollout(state.Object)
	if err != nil {
		return err
	}
	patch := decoded.patchOf(action)
	for _, part := range []struct {
		field        string
		change       map[string]any
		subresources []string
	}{{"status", patch.status, []string{"status"}}, {"spec", patch.spec, nil}} {
		if part.change == nil {
			continue
		}
		text, err := json.Marshal(map[string]any{part.field: part.change})
		if err != nil {
			return err
		}
		_, err = r.of(state.Kind, state.Namespace).Patch(ctx, state.Name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: r.Manager}, part.subresources...)
		if err != nil {
			return &AccessError{Verb: "patch", ID: state.ID, Err: err}
		}
	}
	return nil
}
