package operation_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// twoWaves is a Deployment that a ConfigMap waits for.
func twoWaves(t *testing.T) (*story, tracking.Key) {
	web := plainObject("apps/v1", "Deployment", "web", nil)
	web.Object["spec"] = map[string]any{"replicas": int64(0)}
	after := plainObject("v1", "ConfigMap", "after", map[string]string{"argocd.argoproj.io/sync-wave": "1"})
	return quietStory(t, web, after), parseKey("Deployment.apps shop/web")
}

// change gives an object another state and version.
func (s *story) change(key tracking.Key, change func(*unstructured.Unstructured)) {
	object := s.objects[key].DeepCopy()
	object.SetResourceVersion(s.next())
	change(object)
	s.objects[key] = object
}

func (s *story) isApplied(text string) bool {
	return s.applied[plan.StepID{Phase: plan.Sync, Key: parseKey(text)}] > 0
}

func rolledOut(object *unstructured.Unstructured) {
	object.Object["status"] = map[string]any{"observedGeneration": object.GetGeneration()}
}

// A watch that is behind shows the object as it was before our write: healthy.
// That does not count.
func TestOlderObjectDoesNotCount(t *testing.T) {
	s, key := twoWaves(t)
	run := s.run(s.plan(), nil, 1)
	run.Advance(t.Context())
	behind := s.objects[key].DeepCopy()
	behind.SetResourceVersion("1")
	rolledOut(behind)
	run.LookAt(func(tracking.Key) *unstructured.Unstructured { return behind }, s.find(s.last))
	if outcome := run.Advance(t.Context()); outcome.Phase.Completed() || s.isApplied("ConfigMap shop/after") {
		t.Errorf("an old object was believed: %+v", outcome)
	}
	s.change(key, rolledOut)
	run.LookAt(s.find(s.objects), s.find(s.last))
	if outcome := run.Advance(t.Context()); outcome.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %+v", outcome)
	}
}

// A resource that is deleted while the sync waits for it may come back. If it
// does not, the sync fails.
func TestResourceDeletedBySomebody(t *testing.T) {
	for _, returns := range []bool{true, false} {
		s, key := twoWaves(t)
		run := s.run(s.plan(), nil, 1)
		run.Advance(t.Context())
		object := s.objects[key]
		delete(s.objects, key)
		outcome := run.Advance(t.Context())
		if outcome.Phase.Completed() || !strings.Contains(outcome.Message, "deleted by another client") {
			t.Fatalf("it is %+v", outcome)
		}
		s.now = outcome.Again
		want := v1alpha1.OperationFailed
		if returns {
			s.objects[key] = object
			s.change(key, rolledOut)
			want = v1alpha1.OperationSucceeded
		}
		if outcome = run.Advance(t.Context()); outcome.Phase != want {
			t.Errorf("returns %t: it is %+v", returns, outcome)
		}
	}
}

// The clock of a deadline starts with our write, is not reset by other
// changes, and is known after a restart from the object.
func TestDeadlineClock(t *testing.T) {
	s, key := twoWaves(t)
	s.rendered[0].SetAnnotations(map[string]string{"slipway.dev/progress-deadline": "1m"})
	p := s.plan()
	run := s.run(p, nil, 1)
	started := s.now
	outcome := run.Advance(t.Context())
	if want := started.Add(time.Minute); !outcome.Again.Equal(want) {
		t.Fatalf("it asks for %s, want %s", outcome.Again, want)
	}
	s.now = started.Add(40 * time.Second)
	s.change(key, func(*unstructured.Unstructured) {})
	if again := run.Advance(t.Context()).Again; !again.Equal(started.Add(time.Minute)) {
		t.Errorf("after a change it asks for %s", again)
	}

	// The operation began long ago, and our last write was 30 seconds before.
	s.began = started.Add(-time.Hour)
	s.change(key, func(object *unstructured.Unstructured) {
		when := metav1.NewTime(started.Add(10 * time.Second))
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "slipway", Time: &when}, {Manager: "other"}})
	})
	second := s.run(p, operation.Marks(run.Results()), 1)
	if again := second.Advance(t.Context()).Again; !again.Equal(started.Add(70 * time.Second)) {
		t.Errorf("after a restart it asks for %s, want a minute after our last write", again)
	}
	s.now = started.Add(70 * time.Second)
	outcome = second.Advance(t.Context())
	if outcome.Phase != v1alpha1.OperationFailed || !strings.Contains(outcome.Message, "it takes longer than 1m0s") {
		t.Errorf("it is %+v", outcome)
	}
}

// An object that no watch knows is asked for from time to time.
func TestUnwatchedIsAskedFor(t *testing.T) {
	s, key := twoWaves(t)
	run := s.run(s.plan(), nil, 1)
	run.FetchOnly(s.find(s.objects), s.find(s.last))
	run.Advance(t.Context())
	outcome := run.Advance(t.Context())
	if outcome.Phase.Completed() || outcome.Again.Sub(s.now) != 5*time.Second {
		t.Errorf("it is %+v, want it to ask again in 5 seconds", outcome)
	}
	s.change(key, rolledOut)
	if outcome = run.Advance(t.Context()); outcome.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %+v", outcome)
	}
}

// A hook that was deleted counts as it ended, no matter which client deleted it and whether it
// is gone. One that had not ended has failed.
func TestDeletedHookCountsAsItEnded(t *testing.T) {
	for _, test := range []struct {
		name, condition string
		gone            bool
		want            v1alpha1.OperationPhase
	}{
		{"going, complete", "Complete", false, v1alpha1.OperationSucceeded},
		{"gone, complete", "Complete", true, v1alpha1.OperationSucceeded},
		{"going, failed", "Failed", false, v1alpha1.OperationFailed},
		{"gone, failed", "Failed", true, v1alpha1.OperationFailed},
		{"going, unfinished", "Other", false, v1alpha1.OperationRunning},
		{"gone, unfinished", "Other", true, v1alpha1.OperationFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := quietStory(t, plainObject("batch/v1", "Job", "hook", map[string]string{"argocd.argoproj.io/hook": "Sync"}))
			key := parseKey("Job.batch shop/hook")
			run := s.run(s.plan(), nil, 1)
			if outcome := run.Advance(t.Context()); outcome.Phase.Completed() {
				t.Fatalf("it is %+v", outcome)
			}
			s.change(key, func(object *unstructured.Unstructured) {
				object.SetDeletionTimestamp(&metav1.Time{Time: s.now})
				object.SetFinalizers([]string{"foregroundDeletion"})
				object.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": test.condition, "status": "True"}}}
			})
			if test.gone {
				s.last[key] = s.objects[key]
				delete(s.objects, key)
			}
			if outcome := run.Advance(t.Context()); outcome.Phase != test.want {
				t.Errorf("it is %+v, want %s", outcome, test.want)
			}
		})
	}
}

// The last state of an older object of that name does not count for a hook that no
// watch knows.
func TestOlderHookIsAnother(t *testing.T) {
	s := quietStory(t, plainObject("batch/v1", "Job", "hook", map[string]string{"argocd.argoproj.io/hook": "Sync"}))
	key := parseKey("Job.batch shop/hook")
	s.last[key] = plainObject("batch/v1", "Job", "hook", nil)
	s.last[key].SetUID("older")
	run := s.run(s.plan(), nil, 1)
	run.FetchOnly(s.find(s.objects), s.find(s.last))
	run.Advance(t.Context())
	if outcome := run.Advance(t.Context()); outcome.Phase != v1alpha1.OperationRunning {
		t.Errorf("it is %+v", outcome)
	}
}
