package operation_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// memory has objects as an API server has them, and forgets everything else that
// one does. It is for properties of thousands of operations; what an operation
// does to a cluster is shown with a real one.
type memory struct {
	t    testing.TB
	dice *rand.Rand
	now  time.Time
	// trouble is how many requests there are for each that fails; 0 is none.
	trouble int

	mu      sync.Mutex
	objects map[tracking.Key]*unstructured.Unstructured
	last    map[tracking.Key]*unstructured.Unstructured
	version int
	// busy and most are how many requests there are, and were, at a time.
	busy, most int
	applied    map[plan.StepID]int
	deleted    map[types.UID]int
	cleared    map[types.UID]int
}

func newMemory(t testing.TB, dice *rand.Rand) *memory {
	return &memory{
		t: t, dice: dice, now: time.Unix(1700000000, 0),
		objects: map[tracking.Key]*unstructured.Unstructured{}, last: map[tracking.Key]*unstructured.Unstructured{},
		applied: map[plan.StepID]int{}, deleted: map[types.UID]int{}, cleared: map[types.UID]int{},
	}
}

// enter is the beginning of a request. What it returns is its end.
func (m *memory) enter() func() {
	m.mu.Lock()
	m.busy++
	m.most = max(m.most, m.busy)
	m.mu.Unlock()
	return func() {
		m.mu.Lock()
		m.busy--
		m.mu.Unlock()
	}
}

// fault is an error that a request may meet. The lock is held.
func (m *memory) fault(key tracking.Key) error {
	if m.trouble == 0 || m.dice.IntN(m.trouble) > 0 {
		return nil
	}
	kinds := []apply.ErrorKind{apply.Transient, apply.Transient, apply.Conflict, apply.Invalid}
	return &apply.Error{Kind: kinds[m.dice.IntN(len(kinds))], Key: key, Message: "trouble"}
}

func (m *memory) next() string {
	m.version++
	return strconv.Itoa(m.version)
}

func (m *memory) Apply(_ context.Context, step *plan.Step, options apply.Options) (*unstructured.Unstructured, error) {
	defer m.enter()()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault(step.Key); err != nil {
		return nil, err
	}
	object := step.Object.DeepCopy()
	if before := m.objects[step.Key]; before != nil {
		object.SetUID(before.GetUID())
		object.SetGeneration(before.GetGeneration() + 1)
		if status, has := before.Object["status"]; has {
			object.Object["status"] = runtime.DeepCopyJSONValue(status) // the answer to an apply has it
		}
		if step.Hook != nil && step.Hook.Has(plan.BeforeHookCreation) {
			m.t.Errorf("%s is applied over an object that was to be deleted first", step.StepID)
		}
	} else {
		object.SetUID(types.UID("uid-" + m.next()))
		object.SetGeneration(1)
	}
	object.SetResourceVersion(m.next())
	if !options.DryRun {
		m.objects[step.Key] = object
		m.applied[step.StepID]++
	}
	return object.DeepCopy(), nil
}

func (m *memory) Delete(_ context.Context, step *plan.Step, options apply.Options) error {
	defer m.enter()()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault(step.Key); err != nil {
		return err
	}
	if !options.DryRun {
		m.deleted[step.Live.GetUID()]++
		m.leave(step.Key)
	}
	return nil
}

func (m *memory) Clear(_ context.Context, key tracking.Key, uid types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault(key); err != nil {
		return err
	}
	m.cleared[uid]++
	m.leave(key)
	return nil
}

// leave marks an object as being deleted. It goes later.
func (m *memory) leave(key tracking.Key) {
	if object := m.objects[key]; object != nil {
		object = object.DeepCopy()
		object.SetDeletionTimestamp(&metav1.Time{Time: m.now})
		object.SetResourceVersion(m.next())
		m.objects[key] = object
	}
}

// memoryLive is a Live that only takes calls: a Run in memory looks at the maps.
type memoryLive struct{ operation.Live }

func (memoryLive) Follow(context.Context, []schema.GroupKind) error { return nil }

func (memoryLive) Note(*unstructured.Unstructured) {}

func (m *memory) find(in map[tracking.Key]*unstructured.Unstructured) func(tracking.Key) *unstructured.Unstructured {
	return func(key tracking.Key) *unstructured.Unstructured {
		m.mu.Lock()
		defer m.mu.Unlock()
		return in[key]
	}
}

// tick lets something happen: an object that is being deleted goes, or a Job or
// Deployment is done.
func (m *memory) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(m.objects), tracking.Key.Compare)
	for range 1 + m.dice.IntN(3) {
		if len(keys) == 0 {
			return
		}
		key := keys[m.dice.IntN(len(keys))]
		object := m.objects[key]
		if object == nil {
			continue
		}
		object = object.DeepCopy()
		object.SetResourceVersion(m.next())
		if object.GetDeletionTimestamp() != nil {
			m.last[key] = object
			delete(m.objects, key)
			continue
		}
		object.Object["status"] = m.status(object)
		m.objects[key] = object
	}
}

func (m *memory) status(object *unstructured.Unstructured) map[string]any {
	if object.GetKind() == "Deployment" {
		return map[string]any{"observedGeneration": object.GetGeneration()}
	}
	end := "Complete"
	if m.trouble > 0 && m.dice.IntN(5) == 0 {
		end = "Failed"
	}
	return map[string]any{"conditions": []any{map[string]any{"type": end, "status": "True"}}}
}

// render makes a random application of few objects.
func render(dice *rand.Rand) []*unstructured.Unstructured {
	one := func(of ...string) string { return of[dice.IntN(len(of))] }
	var all []*unstructured.Unstructured
	for range 1 + dice.IntN(7) {
		kind := one("v1 ConfigMap", "v1 Secret", "apps/v1 Deployment", "batch/v1 Job")
		object := &unstructured.Unstructured{Object: map[string]any{}}
		var version, name string
		_, _ = fmt.Sscan(kind, &version, &name)
		object.SetAPIVersion(version)
		object.SetKind(name)
		object.SetName(one("a", "b", "c", "d"))
		if name == "Deployment" {
			object.Object["spec"] = map[string]any{"replicas": int64(0)}
		}
		notes := map[string]string{"argocd.argoproj.io/sync-wave": one("0", "0", "1", "-1")}
		if dice.IntN(3) == 0 {
			notes["argocd.argoproj.io/hook"] = one("PreSync", "Sync", "PostSync", "SyncFail", "PreSync,PostSync", "PreDelete", "PostDelete")
			notes["argocd.argoproj.io/hook-delete-policy"] = one("BeforeHookCreation", "BeforeHookCreation,HookSucceeded",
				"BeforeHookCreation,HookFailed")
		}
		notes["argocd.argoproj.io/sync-options"] = one("PruneLast=true", "Prune=confirm", "Replace=true", "Prune=true")
		object.SetAnnotations(notes)
		all = append(all, object)
	}
	return all
}
