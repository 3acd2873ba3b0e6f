package operation_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

func plainObject(version, kind, name string, annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	object.SetName(name)
	object.SetAnnotations(annotations)
	return object
}

// quietStory has no objects and no trouble.
func quietStory(t testing.TB, rendered ...*unstructured.Unstructured) *story {
	s := newStory(t, 0)
	s.deletion, s.trouble, s.rendered = false, 0, rendered
	clear(s.objects)
	return s
}

// gated lets requests wait until a gate opens.
type gated struct {
	*memory
	gate chan struct{}
	busy atomic.Int32
}

func (g *gated) Apply(ctx context.Context, step *plan.Step, options apply.Options) (*unstructured.Unstructured, error) {
	g.busy.Add(1)
	defer g.busy.Add(-1)
	<-g.gate
	return g.memory.Apply(ctx, step, options)
}

// Objects of a kind are written together, as many at a time as allowed and never
// more. An operation that is terminated meanwhile starts no more of them.
func TestParallel(t *testing.T) {
	for _, terminates := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var rendered []*unstructured.Unstructured
			for i := range 10 {
				rendered = append(rendered, plainObject("v1", "ConfigMap", fmt.Sprint("a", i), nil))
			}
			s := quietStory(t, rendered...)
			g := &gated{memory: s.memory, gate: make(chan struct{})}
			run := operation.New(operation.Input{Plan: s.plan(), Live: memoryLive{}, Applier: g, Parallel: 3})
			run.LookAt(s.find(s.objects), s.find(s.last))
			ended := make(chan operation.Outcome)
			go func() { ended <- run.Advance(context.Background()) }()
			synctest.Wait()
			if busy := g.busy.Load(); busy != 3 {
				t.Errorf("%d requests at a time, want 3", busy)
			}
			want, phase := 10, v1alpha1.OperationSucceeded
			if terminates {
				run.Terminate()
				want, phase = 4, v1alpha1.OperationFailed // one waited for its turn already
			}
			close(g.gate)
			if outcome := <-ended; outcome.Phase != phase || len(s.applied) != want {
				t.Errorf("it is %+v with %d written, want %d", outcome, len(s.applied), want)
			}
		})
	}
}

// Another object of the same name is not what was pruned.
func TestPrunedAndMadeAnew(t *testing.T) {
	s := quietStory(t,
		plainObject("v1", "ConfigMap", "old", map[string]string{"argocd.argoproj.io/sync-wave": "3"}), plainObject("v1", "ConfigMap", "older", nil))
	s.run(s.plan(), nil, 1).Advance(t.Context())
	s.rendered = []*unstructured.Unstructured{plainObject("v1", "ConfigMap", "keep", nil)}
	run := s.run(s.plan(), nil, 1)
	key := parseKey("ConfigMap shop/old")
	if outcome := run.Advance(t.Context()); outcome.Phase.Completed() || !strings.Contains(outcome.Message, key.String()+" to be gone") {
		t.Fatalf("it is %+v", outcome)
	}
	s.change(key, func(object *unstructured.Unstructured) {
		object.SetUID("another")
		object.SetDeletionTimestamp(nil)
	})
	if outcome := run.Advance(t.Context()); outcome.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %+v", outcome)
	}
	if s.deleted["another"] > 0 {
		t.Error("the new object was deleted")
	}
}

// stubborn does not let some hooks be deleted.
type stubborn struct {
	*memory
	asked map[string]int
}

func (s *stubborn) Clear(ctx context.Context, key tracking.Key, uid types.UID) error {
	s.asked[key.Name]++
	switch {
	case key.Name == "denied":
		return &apply.Error{Kind: apply.Forbidden, Key: key, Message: "no right"}
	case key.Name == "slow" && s.asked[key.Name] < 3:
		return &apply.Error{Kind: apply.Transient, Key: key, Message: "busy"}
	}
	return s.memory.Clear(ctx, key, uid)
}

// Spent hooks that cannot be deleted now are tried again before the operation is
// reported as ended. Those that cannot be deleted at all are reported, once.
func TestSpentHooksThatStay(t *testing.T) {
	notes := map[string]string{"argocd.argoproj.io/hook": "Sync", "argocd.argoproj.io/hook-delete-policy": "HookSucceeded"}
	s := quietStory(t, plainObject("v1", "ConfigMap", "denied", notes), plainObject("v1", "ConfigMap", "fine", notes),
		plainObject("v1", "ConfigMap", "slow", notes))
	applier := &stubborn{memory: s.memory, asked: map[string]int{}}
	run := s.run(s.plan(), nil, 1)
	run.Applier = applier
	for range 2 {
		outcome := run.Advance(t.Context())
		if outcome.Phase != v1alpha1.OperationRunning || !outcome.Again.After(s.now) || len(outcome.Waiting) != 1 {
			t.Fatalf("it is %+v, want it to try again", outcome)
		}
		s.now = outcome.Again
	}
	outcome := run.Advance(t.Context())
	want := "synced: 3 ran as hook; ConfigMap shop/denied could not be deleted: no right"
	if outcome.Phase != v1alpha1.OperationSucceeded || outcome.Message != want {
		t.Errorf("it is %+v, want %q", outcome, want)
	}
	if got := fmt.Sprint(applier.asked); got != "map[denied:1 fine:1 slow:3]" {
		t.Errorf("it asked %s", got)
	}
}

// An old object of a hook that does not go fails the hook when it takes too long.
func TestOldHookStays(t *testing.T) {
	s := quietStory(t, plainObject("v1", "ConfigMap", "hook", map[string]string{
		"argocd.argoproj.io/hook": "PreSync", "slipway.dev/progress-deadline": "1m",
	}))
	s.run(s.plan(), nil, 1).Advance(t.Context())
	key := parseKey("ConfigMap shop/hook")
	s.change(key, func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/hold"}) })
	run := s.run(s.plan(), nil, 1)
	run.Advance(t.Context())
	outcome := run.Advance(t.Context())
	if outcome.Phase.Completed() || outcome.Message != "waiting for the last "+key.String()+" to be gone" || outcome.Again.IsZero() {
		t.Fatalf("it is %+v", outcome)
	}
	s.now = outcome.Again
	outcome = run.Advance(t.Context())
	if outcome.Phase != v1alpha1.OperationFailed || !strings.Contains(outcome.Message, "the object of the last run does not go") ||
		!strings.Contains(outcome.Message, "example.com/hold") {
		t.Errorf("it is %+v", outcome)
	}
}
