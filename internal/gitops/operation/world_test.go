package operation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// patience is how long a test waits for something that takes seconds at most.
const patience = 2 * time.Minute

// world is one Application in a real cluster, with the real cache and applier.
type world struct {
	t         testing.TB
	cluster   *kubetest.Cluster
	namespace string
	// destination is where objects go that name no namespace.
	destination string
	app         tracking.App
	tracker     tracking.Tracker
	kinds       *live.Kinds
	cache       *live.Cache
	applier     *recorder
	changed     chan struct{}
	began       time.Time
	now         func() time.Time
	// deletes are objects without a namespace that are deleted at the end.
	deletes map[tracking.Key]string
}

// newWorld needs a cluster that stays until the end of the test.
func newWorld(t testing.TB, cluster *kubetest.Cluster) *world {
	t.Helper()
	namespace := cluster.Namespace(t)
	w := &world{
		t: t, cluster: cluster, namespace: namespace, destination: namespace,
		app: tracking.App{Namespace: "argocd", Name: namespace}, tracker: tracking.Tracker{ControlNamespace: "argocd"},
		kinds: live.NewKinds(cluster.Cluster), changed: make(chan struct{}, 1), began: time.Now(), now: time.Now,
		deletes: map[tracking.Key]string{},
	}
	w.cache = live.New(live.Options{Cluster: cluster.Cluster, Kinds: w.kinds, Changed: func(label string, _ tracking.Key) {
		if label == w.app.Label() {
			w.wake()
		}
	}})
	w.applier = &recorder{Applier: apply.New(cluster.Cluster, w.kinds), world: w}
	ctx, cancel := context.WithCancel(context.Background())
	programs.Background(t, func() { _ = w.cache.Run(ctx) }, cancel)
	t.Cleanup(w.cleanUp)
	return w
}

func (w *world) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// cleanUp deletes what does not go with the namespace.
func (w *world) cleanUp() {
	for key, version := range w.deletes {
		mapping, err := w.kinds.Mapping(context.Background(), key.GroupKind().WithVersion(version))
		if err == nil {
			_ = w.cluster.Dynamic.Resource(mapping.Resource).Delete(context.Background(), key.Name, metav1.DeleteOptions{})
		}
	}
}

// objects reads manifests. NAMESPACE in them is that of the world, which no
// other test uses.
func (w *world) objects(manifests string) []*unstructured.Unstructured {
	w.t.Helper()
	manifests = strings.ReplaceAll(manifests, "NAMESPACE", w.namespace)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(manifests), 4096)
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			w.t.Fatalf("read %q: %v", manifests, err)
		case len(object.Object) > 0:
			all = append(all, object)
		}
	}
}

type openGate struct{}

func (openGate) Allows(tracking.Key, *unstructured.Unstructured, string) *refusal.Refusal { return nil }

func (openGate) TakesOver(tracking.Key) *refusal.Refusal { return nil }

// build makes the plan of a sync or a deletion, as it would be made now.
func (w *world) build(manifests string, options plan.Options, build func(*plan.Set, plan.Input) (*plan.Plan, error)) *plan.Plan {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	set := plan.Prepare(plan.Source{
		App: w.app, Tracker: w.tracker, Namespace: w.destination, Revision: "0123456789", Began: w.began,
		Scope: w.kinds.Scope, Objects: w.objects(manifests),
	})
	var kinds []schema.GroupKind
	for _, desired := range set.Objects {
		kinds = append(kinds, desired.Key.GroupKind())
	}
	if err := w.cache.Follow(ctx, kinds); err != nil {
		w.t.Fatalf("follow: %v", err)
	}
	objects := map[tracking.Key]*unstructured.Unstructured{}
	for _, object := range w.cache.Of(w.app) {
		objects[object.Key] = object.Unstructured()
	}
	if options.CreateNamespace {
		w.deletes[tracking.Key{Kind: "Namespace", Name: w.destination}] = "v1"
	}
	for _, desired := range set.Objects {
		version := desired.Object.GroupVersionKind().Version
		if desired.Key.Namespace == "" {
			w.deletes[desired.Key] = version
		}
		if w.kinds.Scope(desired.Key.GroupKind()) == plan.UnknownScope {
			continue
		}
		object, err := w.cache.Fetch(ctx, desired.Key, version)
		if err != nil {
			w.t.Fatalf("fetch %s: %v", desired.Key, err)
		}
		if object != nil {
			objects[desired.Key] = object.Unstructured()
		}
	}
	return must.Get(build(set, plan.Input{Live: objects, Gate: openGate{}, Options: options}))(w.t)
}

// run begins an operation, or goes on with one.
func (w *world) run(p *plan.Plan, marks map[plan.StepID]plan.Mark) *operation.Run {
	w.applier.use(p)
	return operation.New(operation.Input{
		Plan: p, State: plan.NewState(marks), Live: w.cache, Applier: w.applier, Began: w.began, Parallel: 1, Now: w.now,
	})
}

// until advances the operation as a controller does, when an object changed or
// at the time that it asks for, until something holds.
func (w *world) until(run *operation.Run, what string, holds func(operation.Outcome) bool) operation.Outcome {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		outcome := run.Advance(ctx)
		if holds(outcome) {
			return outcome
		}
		if outcome.Phase.Completed() {
			w.t.Fatalf("it has ended, and not %s: %+v\n%s", what, outcome, showResults(w, run.Results()))
		}
		var again <-chan time.Time
		if !outcome.Again.IsZero() {
			again = time.After(time.Until(outcome.Again))
		}
		select {
		case <-w.changed:
		case <-again:
		case <-ctx.Done():
			w.t.Fatalf("waited %s until %s: %+v\n%s", patience, what, outcome, showResults(w, run.Results()))
		}
	}
}

func hasEnded(outcome operation.Outcome) bool { return outcome.Phase.Completed() }

func (w *world) finish(run *operation.Run) operation.Outcome {
	w.t.Helper()
	return w.until(run, "it ends", hasEnded)
}

// sync carries out a sync of manifests.
func (w *world) sync(manifests string, options plan.Options) (operation.Outcome, *operation.Run) {
	w.t.Helper()
	run := w.run(w.build(manifests, options, plan.Build), nil)
	return w.finish(run), run
}

// mustSync is a sync that goes well.
func (w *world) mustSync(manifests string) {
	w.t.Helper()
	outcome, run := w.sync(manifests, plan.Options{AllowPrune: true})
	if outcome.Phase != v1alpha1.OperationSucceeded {
		w.t.Fatalf("the sync is %+v\n%s", outcome, showResults(w, run.Results()))
	}
}

// get is an object as the API server has it, or nil.
func (w *world) get(key tracking.Key, version string) *unstructured.Unstructured {
	w.t.Helper()
	fetched, err := w.tryGet(key, version)
	if err != nil {
		w.t.Fatalf("get %s: %v", key, err)
	}
	return fetched
}

// recorder is the real applier. It keeps what it was asked for, and looks
// whether the order of the plan is kept: what is in an earlier wave must be
// ready in the cluster when something of a later one is written.
type recorder struct {
	operation.Applier
	world *world

	mu   sync.Mutex
	plan *plan.Plan
	log  []string
	// fail is asked before each request, if it is set.
	fail func(action string, key tracking.Key) error
}

func (r *recorder) use(p *plan.Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan = p
}

// taken is what was asked for since the last time.
func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

func (r *recorder) note(action string, key tracking.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.ReplaceAll(action+" "+key.String(), r.world.namespace, "NAMESPACE")
	if r.fail != nil {
		if err := r.fail(action, key); err != nil {
			r.log = append(r.log, text+": "+err.Error())
			return err
		}
	}
	r.log = append(r.log, text)
	return nil
}

func (r *recorder) Apply(ctx context.Context, step *plan.Step, options apply.Options) (*unstructured.Unstructured, error) {
	if err := r.note(string(step.Action), step.Key); err != nil {
		return nil, err
	}
	if !options.DryRun {
		r.checkOrder(step)
	}
	return r.Applier.Apply(ctx, step, options)
}

func (r *recorder) Delete(ctx context.Context, step *plan.Step, options apply.Options) error {
	if err := r.note(string(step.Action), step.Key); err != nil {
		return err
	}
	return r.Applier.Delete(ctx, step, options)
}

func (r *recorder) Clear(ctx context.Context, key tracking.Key, uid types.UID) error {
	if err := r.note("clear", key); err != nil {
		return err
	}
	return r.Applier.Clear(ctx, key, uid)
}

// checkOrder is the promise of waves, asked of the API server itself. Steps of
// SyncFail run after a failure, which is no order.
func (r *recorder) checkOrder(step *plan.Step) {
	if step.Phase == plan.SyncFail || step.Phase == plan.PostDelete {
		return
	}
	for _, phase := range r.plan.Phases {
		for _, wave := range phase.Waves {
			if phase.Name == step.Phase && wave.Number >= step.Wave || wave.Prune {
				return
			}
			for _, earlier := range wave.Steps {
				if err := r.world.ready(earlier); err != nil {
					r.world.t.Errorf("%s is written, and %s of an earlier wave %v", step.StepID, earlier.StepID, err)
				}
			}
		}
	}
}

func (w *world) ready(step *plan.Step) error {
	object, err := w.tryGet(step.Key, step.Object.GroupVersionKind().Version)
	switch {
	case err != nil:
		return err
	case object == nil && step.Hook != nil:
		return nil // it was deleted after it ended
	case object == nil:
		return errors.New("is not there")
	}
	if step.Hook != nil {
		object.SetDeletionTimestamp(nil) // how it ended is what counts
	}
	if status := health.NewRules(nil).Of(object, time.Now()); status != nil && status.Code != v1alpha1.Healthy {
		return fmt.Errorf("is %s: %s", status.Code, status.Message)
	}
	return nil
}
