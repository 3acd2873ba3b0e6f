package operation

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Results is what was done to each object, in Argo CD's shape and in the order
// of the plan. Objects that were not touched yet are not in it. Those that would
// be pruned if that were allowed are, as PruneSkipped; and if the plan is
// blocked, those that are refused.
//
// As in Argo CD a hook has no status, and hookPhase is how far any object is. A
// hook that the API server did not accept is in the phase Error, one that failed
// in the phase Failed. A hook without a phase is one whose last object was
// deleted, and that was not created yet.
func (r *Run) Results() []v1alpha1.ResourceResult {
	var results []v1alpha1.ResourceResult
	marks := r.State.Marks()
	for _, step := range r.Plan.Steps() {
		if result, ok := resultOf(step, marks[step.StepID], r.Plan.Fails(r.State, step)); ok {
			results = append(results, result)
		}
		delete(marks, step.StepID)
	}
	results = append(results, finished(marks)...)
	for _, skipped := range r.Plan.Skipped {
		if skipped.Kept {
			result := resultFor(skipped.Key, plan.Sync)
			result.Status, result.HookPhase = v1alpha1.ResultPruneSkipped, v1alpha1.OperationSucceeded
			result.Message = skipped.Reason
			results = append(results, result)
		}
	}
	if r.Plan.Blocked {
		results = append(results, r.refused()...)
	}
	return results
}

// Unchanged are the results of a sync that finds all resources as desired.
func Unchanged(resources []*plan.Desired) []v1alpha1.ResourceResult {
	results := make([]v1alpha1.ResourceResult, 0, len(resources))
	for _, one := range resources {
		result := resultFor(one.Key, plan.Sync)
		result.Version, result.Images = one.Object.GroupVersionKind().Version, imagesOf(one.Object)
		result.Status, result.HookPhase = v1alpha1.ResultSynced, v1alpha1.OperationSucceeded
		result.Message = bounded(messageFor(one.Key, unchanged), maxText)
		results = append(results, result)
	}
	return results
}

// finished are the results of steps that are not in the plan any more: it was
// made again after a restart, when what they pruned was gone.
func finished(marks map[plan.StepID]plan.Mark) []v1alpha1.ResourceResult {
	var results []v1alpha1.ResourceResult
	ids := slices.SortedFunc(maps.Keys(marks), func(a, b plan.StepID) int {
		return cmp.Or(cmp.Compare(a.Phase, b.Phase), a.Key.Compare(b.Key))
	})
	for _, id := range ids {
		mark := marks[id]
		if mark.Result != plan.ResultPruned && mark.Result != plan.ResultSynced {
			continue
		}
		result := resultFor(id.Key, id.Phase)
		result.Status, result.HookPhase = v1alpha1.ResultCode(mark.Result), v1alpha1.OperationSucceeded
		result.Message = mark.Message
		results = append(results, result)
	}
	return results
}

// refused are the objects that block the plan, each once.
func (r *Run) refused() []v1alpha1.ResourceResult {
	var results []v1alpha1.ResourceResult
	at := map[tracking.Key]int{}
	for _, refused := range r.Plan.Refusals {
		key := tracking.Key(refused.Object)
		if key.Kind == "" || key.Name == "" {
			continue // it is about no object that can be named
		}
		if i, ok := at[key]; ok {
			results[i].Message = bounded(results[i].Message+"; "+refused.Text(), maxText)
			continue
		}
		at[key] = len(results)
		result := resultFor(key, plan.Sync)
		result.Status, result.HookPhase = v1alpha1.ResultSyncFailed, v1alpha1.OperationFailed
		result.Message = bounded(refused.Text(), maxText)
		results = append(results, result)
	}
	return results
}

// resultFor is an empty result for an object.
func resultFor(key tracking.Key, phase plan.PhaseName) v1alpha1.ResourceResult {
	return v1alpha1.ResourceResult{
		Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, SyncPhase: v1alpha1.HookType(phase),
	}
}

// resultOf returns the result of a step, and false for one that was not tried. A
// step has failed only if that fails the operation: a resource that was applied
// and is Degraded while nothing waits for it is Running, as in Argo CD.
func resultOf(step *plan.Step, mark plan.Mark, failed bool) (v1alpha1.ResourceResult, bool) {
	result := resultFor(step.Key, step.Phase)
	result.Version, result.Message = versionOf(step), mark.Message
	result.Images = imagesOf(step.Object)
	if step.Hook != nil {
		result.HookType = v1alpha1.HookType(step.Phase)
	} else {
		result.Status = v1alpha1.ResultCode(mark.Result)
	}
	switch mark.Progress {
	case plan.Running:
		result.HookPhase = v1alpha1.OperationRunning
	case plan.Succeeded:
		result.HookPhase = v1alpha1.OperationSucceeded
	case plan.Failed:
		if !failed {
			result.HookPhase = v1alpha1.OperationRunning
			break
		}
		result.HookPhase, result.Message = v1alpha1.OperationFailed, mark.Reason()
		if step.Hook != nil && mark.Result == plan.ResultSyncFailed {
			result.HookPhase = v1alpha1.OperationError
		}
	default:
		result.Message = "the object of the last run is gone"
		return result, step.Hook != nil && mark.Cleared
	}
	return result, true
}

// Marks restores the state of a plan from results after a restart. A result
// that it cannot read is left out, and the step is done again.
//
// The plan must have the steps that it had. Objects that were applied are
// Synced by now: with the options that leave such objects out, those of the
// marks must not be passed as Synced.
func Marks(results []v1alpha1.ResourceResult) map[plan.StepID]plan.Mark {
	marks := map[plan.StepID]plan.Mark{}
	for _, result := range results {
		if mark, ok := markOf(result); ok {
			key := tracking.Key{Group: result.Group, Kind: result.Kind, Namespace: result.Namespace, Name: result.Name}
			marks[plan.StepID{Phase: plan.PhaseName(result.SyncPhase), Key: key}] = mark
		}
	}
	return marks
}

// markOf is the inverse of resultOf.
func markOf(result v1alpha1.ResourceResult) (plan.Mark, bool) {
	mark := plan.Mark{Result: plan.Result(result.Status), Message: result.Message}
	isHook := result.HookType != ""
	if isHook {
		mark.Result = plan.ResultSynced
	}
	switch result.HookPhase {
	case v1alpha1.OperationRunning:
		mark.Progress = plan.Running
	case v1alpha1.OperationSucceeded:
		mark.Progress = plan.Succeeded
	case v1alpha1.OperationFailed:
		mark.Progress = plan.Failed
	case v1alpha1.OperationError:
		mark.Result, mark.Progress = plan.ResultSyncFailed, plan.Failed
	case "":
		return plan.Mark{Cleared: true}, isHook
	default:
		return plan.Mark{}, false
	}
	switch mark.Result {
	case plan.ResultSynced, plan.ResultPruned:
		return mark, true
	case plan.ResultSyncFailed:
		return mark, mark.Progress == plan.Failed
	}
	return plan.Mark{}, false
}

// imagesOf are the images of the containers that an object makes, each once.
func imagesOf(object *unstructured.Unstructured) []string {
	if object == nil {
		return nil
	}
	var images []string
	for _, path := range [][]string{
		{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"},
	} {
		spec, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
		pod, ok := spec.(map[string]any)
		if !found || err != nil || !ok {
			continue
		}
		for _, field := range []string{"initContainers", "containers"} {
			containers, _ := pod[field].([]any)
			for _, element := range containers {
				container, _ := element.(map[string]any)
				if image, _ := container["image"].(string); image != "" && !slices.Contains(images, image) {
					images = append(images, image)
				}
			}
		}
	}
	return images
}
