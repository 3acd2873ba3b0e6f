package operation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

func applyForReal() apply.Options { return apply.Options{} }

// parseKey reads Deployment.apps shop/web.
func parseKey(text string) tracking.Key {
	kindText, name, _ := strings.Cut(text, " ")
	var key tracking.Key
	key.Kind, key.Group, _ = strings.Cut(kindText, ".")
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		key.Namespace, name = namespace, rest
	}
	key.Name = name
	return key
}

// resultLine reads Deployment.apps shop/web|status|hook|phase|message.
func resultLine(text string) v1alpha1.ResourceResult {
	part := strings.Split(text, "|")
	key := parseKey(part[0])
	return v1alpha1.ResourceResult{
		Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Status: v1alpha1.ResultCode(part[1]),
		HookType: v1alpha1.HookType(part[2]), HookPhase: v1alpha1.OperationPhase(part[3]), Message: part[4],
	}
}

func TestDescribe(t *testing.T) {
	tests := []struct {
		name    string
		results []string
		want    string
	}{
		{"nothing", nil, "nothing to do"},
		{
			"all kinds",
			[]string{
				"ConfigMap shop/a|Synced||Succeeded|configmap/a created", "Deployment.apps shop/web|Synced||Running|deployment.apps/web configured",
				"ConfigMap shop/b|Synced||Succeeded|configmap/b unchanged", "ConfigMap shop/c|Synced||Succeeded|configmap/c unchanged",
				"Job.batch shop/run||PreSync|Succeeded|done", "Job.batch shop/old||PostSync||the object of the last run is gone",
				"Secret shop/s|Pruned||Succeeded|secret/s pruned", "Service shop/x|SyncFailed||Failed|no", "Pod p|PruneSkipped||Succeeded|ignored",
				"Job.batch shop/j|Synced||Succeeded|job.batch/j replaced",
			},
			"1 created (ConfigMap shop/a), 1 configured (Deployment.apps shop/web), 1 replaced (Job.batch shop/j), 1 pruned (Secret shop/s), " +
				"1 ran as hook (Job.batch shop/run), 1 failed (Service shop/x), 1 not pruned (Pod p), 2 unchanged",
		},
		{
			"many",
			[]string{
				"Pod a|Synced||Running|pod/a created", "Pod b|Synced||Running|pod/b created", "Pod c|Synced||Running|pod/c created",
				"Pod d|Synced||Running|pod/d created", "Pod e|Synced||Running|pod/e created", "Pod f|Synced||Running|pod/f created",
				"Pod g|Synced||Running|pod/g created (dry run)",
			},
			"7 created (Pod a, Pod b, Pod c, Pod d, Pod e, and 2 more)",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var results []v1alpha1.ResourceResult
			for _, line := range test.results {
				results = append(results, resultLine(line))
			}
			if got := operation.Describe(results); got != test.want {
				t.Errorf("it is\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// The refusals of the plan are in the result of each object.
func TestBlockedResults(t *testing.T) {
	run := operation.New(operation.Input{Plan: &plan.Plan{Blocked: true, Refusals: []refusal.Refusal{
		{Object: refusal.Object(parseKey("ConfigMap shop/a")), Reason: refusal.Invalid, Field: "data", Message: "one"},
		{Object: refusal.Object(parseKey("ConfigMap shop/a")), Reason: refusal.Invalid, Message: "two"},
		{Reason: plan.WouldWipe, Message: "about no object"},
	}}})
	outcome := run.Advance(t.Context())
	if outcome.Phase != v1alpha1.OperationFailed || !strings.Contains(outcome.Message, "about no object") {
		t.Errorf("it is %+v", outcome)
	}
	results := run.Results()
	if len(results) != 1 || results[0].Message != "data: one; two" || results[0].Status != v1alpha1.ResultSyncFailed {
		t.Errorf("results are %+v", results)
	}
}

// Argo CD reports the images of an object with its result.
func TestImages(t *testing.T) {
	s := newStory(t, 1)
	object := &unstructured.Unstructured{}
	err := json.Unmarshal([]byte(`{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x"}, "spec": {"jobTemplate": {"spec": {
		"template": {"spec": {"initContainers": [{"image": "a:1"}], "containers": [{"image": "b:2"}, {"image": "a:1"}, {}, 7]}}}}}}`), object)
	must.Do(t, err)
	s.trouble, s.deletion, s.rendered = 0, false, []*unstructured.Unstructured{object}
	clear(s.objects)
	run := s.run(s.plan(), nil, 1)
	run.Advance(t.Context())
	results := run.Results()
	if len(results) != 1 || strings.Join(results[0].Images, " ") != "a:1 b:2" {
		t.Errorf("results are %+v, want the images a:1 and b:2", results)
	}
}

// Results come from a status that any client can write. Whatever is in them, the
// marks are ones that a State can have.
func FuzzMarks(f *testing.F) {
	f.Add([]byte(`[{"kind": "Job", "group": "batch", "name": "a", "hookType": "PreSync", "hookPhase": "Error", "syncPhase": "PreSync"}]`))
	f.Add([]byte(`[{"kind": "ConfigMap", "name": "a", "status": "Synced", "hookPhase": "Running", "syncPhase": "Sync"}]`))
	f.Add([]byte(`[{"kind": "ConfigMap", "name": "a", "status": "PruneSkipped", "hookPhase": "Succeeded"}, {"status": "Synced"}, {"hookType": "x"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var results []v1alpha1.ResourceResult
		if json.Unmarshal(text, &results) != nil {
			t.Skip()
		}
		for id, mark := range operation.Marks(results) {
			switch {
			case mark.Progress == plan.Pending && mark == (plan.Mark{Cleared: true}):
			case mark.Progress == plan.Failed && mark.Result == plan.ResultSyncFailed:
			case (mark.Progress == plan.Running || mark.Progress == plan.Succeeded || mark.Progress == plan.Failed) &&
				(mark.Result == plan.ResultSynced || mark.Result == plan.ResultPruned):
			default:
				t.Errorf("%s has the mark %+v", id, mark)
			}
		}
	})
}
