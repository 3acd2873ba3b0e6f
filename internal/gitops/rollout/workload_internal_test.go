package rollout

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// workloadSize is the size that a decision gives the Deployment; -1 if it does not.
func workloadSize(decision Decision) int32 {
	for _, write := range decision.Writes {
		if write.Resource == deployments {
			return write.Patch["spec"].(map[string]any)["replicas"].(int32)
		}
	}
	return -1
}

// TestScaleWorkload: a Deployment is scaled down for the first revision only: by onsuccess
// when the Rollout is healthy, by progressively with each Pod that is ready.
func TestScaleWorkload(t *testing.T) {
	for name, test := range map[string]struct {
		scaleDown string
		revision  string
		phase     string
		ready     int32
		now       int32
		want      int32
	}{
		"never":                        {v1alpha1.ScaleDownNever, "1", v1alpha1.PhaseHealthy, 2, 2, -1},
		"nothing is written":           {"", "1", v1alpha1.PhaseHealthy, 2, 2, -1},
		"onsuccess":                    {v1alpha1.ScaleDownOnSuccess, "1", v1alpha1.PhaseHealthy, 2, 2, 0},
		"onsuccess, not yet":           {v1alpha1.ScaleDownOnSuccess, "1", v1alpha1.PhaseProgressing, 2, 2, -1},
		"onsuccess, later":             {v1alpha1.ScaleDownOnSuccess, "2", v1alpha1.PhaseHealthy, 2, 2, -1},
		"onsuccess, done":              {v1alpha1.ScaleDownOnSuccess, "1", v1alpha1.PhaseHealthy, 2, 0, -1},
		"progressively, one":           {v1alpha1.ScaleDownProgressively, "1", v1alpha1.PhaseProgressing, 1, 2, 1},
		"progressively, none":          {v1alpha1.ScaleDownProgressively, "1", v1alpha1.PhaseProgressing, 0, 2, -1},
		"progressively, more":          {v1alpha1.ScaleDownProgressively, "1", v1alpha1.PhaseProgressing, 3, 2, 0},
		"progressively, healthy":       {v1alpha1.ScaleDownProgressively, "1", v1alpha1.PhaseHealthy, 1, 2, 0},
		"progressively, later":         {v1alpha1.ScaleDownProgressively, "2", v1alpha1.PhaseHealthy, 2, 2, -1},
		"progressively, no Deployment": {v1alpha1.ScaleDownProgressively, "1", v1alpha1.PhaseHealthy, 2, -1, -1},
	} {
		seen := withSets(t, strings.Replace(analysed, "STRATEGY", "canary: {}", 1), 0)
		rollout := seen.Rollout
		rollout.Spec.WorkloadRef = &v1alpha1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "demo", ScaleDown: test.scaleDown}
		seen.Workload = &Workload{Name: "demo", Generation: 3, Replicas: &test.now}
		if test.now < 0 {
			seen.Workload.Replicas = nil
		}
		rollout.Annotations[annotationRevision] = test.revision
		rollout.Status.StableRS, rollout.Status.Phase, rollout.Status.ReadyReplicas = rollout.Status.CurrentPodHash, test.phase, test.ready
		for _, set := range seen.ReplicaSets {
			if set.Annotations[annotationRevision] = "0"; hashOf(set) == rollout.Status.CurrentPodHash {
				set.Annotations[annotationRevision] = test.revision
			}
		}
		decision := Decide(seen)
		if got := workloadSize(decision); got != test.want {
			t.Errorf("%s: the size is %d, want %d", name, got, test.want)
		}
		if decision.Status == nil || decision.Status.WorkloadObservedGeneration != "3" {
			t.Errorf("%s: the status is %+v", name, decision.Status)
		}
	}
}

// TestWorkloadGeneration: the Rollout has the generation of its workload as an annotation,
// and none without a workload.
func TestWorkloadGeneration(t *testing.T) {
	generation := func(decision Decision) any {
		for _, write := range decision.Writes {
			metadata, _ := write.Patch["metadata"].(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			if value, found := annotations[annotationWorkload]; found && write.Resource == rolloutsKind {
				return value
			}
		}
		return "unchanged"
	}
	for _, test := range []struct {
		before   string
		workload *Workload
		want     any
	}{
		{"", &Workload{Generation: 2}, "2"}, {"1", &Workload{Generation: 2}, "2"}, {"2", &Workload{Generation: 2}, "unchanged"},
		{"2", nil, nil}, {"", nil, "unchanged"},
	} {
		seen := observed(t, plain)
		seen.Workload = test.workload
		if test.before != "" {
			seen.Rollout.Annotations = map[string]string{annotationWorkload: test.before}
		}
		if got := generation(Decide(seen)); got != test.want {
			t.Errorf("%+v: the annotation becomes %v", test, got)
		}
	}
}

// TestReferrers: a kind of workload is watched once, from the first reference to it, and an
// event of a workload leads to the Rollouts that refer to it.
func TestReferrers(t *testing.T) {
	var watched []schema.GroupVersionResource
	index := newReferrers(func(resource schema.GroupVersionResource) { watched = append(watched, resource) })
	put := func(name string, ref any) {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		object.SetNamespace("shop")
		object.SetName(name)
		if ref != nil {
			object.Object["spec"].(map[string]any)["workloadRef"] = ref
		}
		index.put(object)
	}
	deployment := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
	key := workloadKey{deployments, "shop", "web"}
	put("plain", nil)
	put("wrong", map[string]any{"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web"})
	if len(watched) > 0 || len(index.to(key)) > 0 {
		t.Errorf("%v is watched without a reference", watched)
	}
	put("one", deployment)
	put("one", deployment)
	put("two", deployment)
	if len(watched) != 1 || watched[0] != deployments || len(index.to(key)) != 2 || len(index.to(workloadKey{deployments, "other", "web"})) > 0 {
		t.Errorf("%v is watched, and %v refer", watched, index.to(key))
	}
	put("one", nil)
	index.remove(types.NamespacedName{Namespace: "shop", Name: "two"}, "")
	if found := index.to(key); len(found) > 0 {
		t.Errorf("%v refer", found)
	}
}
