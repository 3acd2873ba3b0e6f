package operation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// demoJob is a Job that ends after a time.
func demoJob(name, hook, after string) string {
	return fmt.Sprintf(`
---
apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {argocd.argoproj.io/hook: %s}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "slipway.dev/demo:v1", args: [--exit-after=%s, --exit-code=0]}]
`, name, hook, after)
}

func configMap(name, annotations string) string {
	return fmt.Sprintf("\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s}}\n", name, annotations)
}

const (
	never = "1h"
	soon  = "100ms"
)

func (w *world) key(kind, name string) tracking.Key {
	return parseKey(kind + " " + w.namespace + "/" + name)
}

// Argo CD: an object with Prune=confirm is deleted when a user confirms it, and all
// of its wave waits for that.
func TestArgoConfirmPrune(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	w.mustSync(configMap("keep", "") + configMap("precious", "argocd.argoproj.io/sync-options: Prune=confirm") + configMap("other", ""))
	run := w.run(w.build(configMap("keep", ""), plan.Options{AllowPrune: true}, plan.Build), nil)
	outcome := run.Advance(t.Context())
	want := "the deletion of ConfigMap " + w.namespace + "/precious to be confirmed"
	if outcome.Phase != v1alpha1.OperationRunning || !slices.Equal(outcome.Waiting, []string{want}) || !outcome.Again.IsZero() {
		t.Errorf("it is %+v, want it to wait for %q alone", outcome, want)
	}
	for _, name := range []string{"precious", "other"} {
		if w.get(w.key("ConfigMap", name), "v1") == nil {
			t.Errorf("%s was deleted without being confirmed", name)
		}
	}
	run.Confirm()
	if outcome := w.finish(run); outcome.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %+v", outcome)
	}
	w.check(false, "ConfigMap/v1 NAMESPACE/precious\nConfigMap/v1 NAMESPACE/other")
}

// Argo CD: an operation that is terminated has failed. Its hooks that run are
// deleted, and nothing more is done.
func TestArgoTerminate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	run := w.run(w.build(demoJob("endless", "PreSync", never)+configMap("a", ""), plan.Options{}, plan.Build), nil)
	if outcome := run.Advance(t.Context()); outcome.Phase != v1alpha1.OperationRunning {
		t.Fatalf("it is %+v", outcome)
	}
	run.Terminate()
	outcome := w.finish(run)
	if outcome.Phase != v1alpha1.OperationFailed || outcome.Message != "Operation terminated" {
		t.Errorf("it is %+v", outcome)
	}
	want := "PreSync Job.batch NAMESPACE/endless hook Failed: it was terminated with the operation\n"
	if got := showResults(w, run.Results()); got != want {
		t.Errorf("results are\n%s\nwant\n%s", got, want)
	}
	if job := w.get(w.key("Job.batch", "endless"), "v1"); job != nil && job.GetDeletionTimestamp() == nil {
		t.Error("the hook still runs")
	}
	if again := run.Advance(t.Context()); again.Phase != outcome.Phase || again.Message != outcome.Message || again.Changed {
		t.Errorf("after the end it is %+v", again)
	}
}

const restartManifests = `
apiVersion: v1
kind: ConfigMap
metadata: {name: first, annotations: {argocd.argoproj.io/sync-wave: "-1"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "slipway.dev/demo:v1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: after, annotations: {argocd.argoproj.io/sync-wave: "1"}}
`

// A process that restarts goes on where the last one was: the plan is
// made again, of what is live now and what the status has kept. Nothing is done
// twice.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	w.mustSync(configMap("old", "") + configMap("older", `argocd.argoproj.io/sync-wave: "-5"`))
	w.applier.taken()
	manifests := restartManifests + demoJob("migrate", "PreSync", soon) + demoJob("notify", `"PostSync"`, soon)
	runs := 0
	var marks map[plan.StepID]plan.Mark
	var results []v1alpha1.ResourceResult
	outcome := operation.Outcome{Phase: v1alpha1.OperationRunning}
	for !outcome.Phase.Completed() {
		runs++
		run := w.run(w.build(manifests, plan.Options{AllowPrune: true}, plan.Build), marks)
		before := showResults(w, run.Results())
		// It is thrown away as soon as something has changed.
		outcome = w.until(run, "something changes", func(outcome operation.Outcome) bool {
			return outcome.Phase.Completed() || showResults(w, run.Results()) != before
		})
		results = run.Results()
		marks = operation.Marks(results)
	}
	if outcome.Phase != v1alpha1.OperationSucceeded || runs < 5 {
		t.Errorf("it is %+v after %d runs\n%s", outcome, runs, showResults(w, results))
	}
	if summary := operation.Describe(results); !strings.Contains(summary, "2 pruned (ConfigMap "+w.namespace+"/old, ConfigMap "+w.namespace+"/older)") {
		t.Errorf("what was done before is not told: %s", summary)
	}
	did := w.applier.taken()
	want := []string{
		"hook Job.batch NAMESPACE/migrate", "apply ConfigMap NAMESPACE/first", "apply Deployment.apps NAMESPACE/web",
		"apply ConfigMap NAMESPACE/after", "delete ConfigMap NAMESPACE/old", "delete ConfigMap NAMESPACE/older",
		"hook Job.batch NAMESPACE/notify",
	}
	if !slices.Equal(did, want) {
		t.Errorf("it did\n%s\nwant\n%s", strings.Join(did, "\n"), strings.Join(want, "\n"))
	}
}

// An API server that is away for a while fails nothing.
func TestServerAway(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	w := newWorld(t, cluster)
	manifests := configMap("a", "") + configMap("b", `argocd.argoproj.io/sync-wave: "1"`)
	run := w.run(w.build(manifests, plan.Options{}, plan.Build), nil)
	cluster.Kill(t)
	outcome := run.Advance(t.Context())
	if outcome.Phase != v1alpha1.OperationRunning || outcome.Again.IsZero() || len(outcome.Waiting) != 1 {
		t.Errorf("without an API server it is %+v, want it to say what it tries again, and when", outcome)
	}
	cluster.Restart(t)
	if outcome := w.finish(run); outcome.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %+v\n%s", outcome, showResults(w, run.Results()))
	}
}

// A caller that stops leaves nothing half noted: the next call goes on.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	run := w.run(w.build(configMap("a", "")+configMap("b", ""), plan.Options{}, plan.Build), nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.applier.fail = func(_ string, key tracking.Key) error {
		if key.Name == "b" {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	outcome := run.Advance(ctx)
	if outcome.Phase != v1alpha1.OperationRunning || len(run.Results()) != 1 || outcome.Again.IsZero() {
		t.Errorf("it is %+v with %d results, want it running with one", outcome, len(run.Results()))
	}
	w.applier.fail = nil
	if outcome := w.finish(run); outcome.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %+v", outcome)
	}
	if did := w.applier.taken(); len(did) != 3 {
		t.Errorf("it did %q, want a once and b twice", did)
	}
}

// What may go well the next time is tried again, later and not for ever. A kind
// that the cluster did not have when the plan was made may come. After a conflict
// with an object that does not exist, each try has a second request.
func TestTriesAgain(t *testing.T) {
	for _, test := range []struct {
		kind    apply.ErrorKind
		newKind bool
		tries   int
	}{
		{apply.Transient, false, 10}, {apply.Conflict, false, 20}, {apply.Invalid, false, 1}, {apply.Immutable, false, 1},
		{apply.Forbidden, false, 1}, {apply.NotFound, false, 1}, {apply.NotFound, true, 10}, {apply.TooLarge, false, 1},
	} {
		t.Run(fmt.Sprint(test.kind, test.newKind), func(t *testing.T) {
			s := quietStory(t, plainObject("v1", "ConfigMap", "a", nil))
			s.newKinds, s.options.SkipDryRunOnMissingResource = test.newKind, true
			faulty := &faulty{memory: s.memory, kind: test.kind}
			run := s.run(s.plan(), nil, 1)
			run.Applier = faulty
			outcome := run.Advance(t.Context())
			for !outcome.Phase.Completed() {
				before := faulty.asked
				if !outcome.Again.After(s.now) || outcome.Again.Sub(s.now) > time.Minute {
					t.Fatalf("at %s it is %+v, want a pause", s.now, outcome)
				}
				if run.Advance(t.Context()); faulty.asked != before {
					t.Fatal("it was tried before its time")
				}
				s.now = outcome.Again
				outcome = run.Advance(t.Context())
			}
			if faulty.asked != test.tries || outcome.Phase != v1alpha1.OperationFailed || !strings.Contains(outcome.Message, "trouble") {
				t.Errorf("after %d tries, want %d, it is %+v", faulty.asked, test.tries, outcome)
			}
		})
	}
}

// faulty refuses everything.
type faulty struct {
	*memory
	kind  apply.ErrorKind
	asked int
}

func (f *faulty) Apply(_ context.Context, step *plan.Step, _ apply.Options) (*unstructured.Unstructured, error) {
	f.asked++
	return nil, &apply.Error{Kind: f.kind, Key: step.Key, Message: "trouble"}
}

// An object that a finalizer holds is reported with what it waits for. It fails a
// sync when that takes too long, and not the deletion of an Application.
func TestHeldByFinalizer(t *testing.T) {
	t.Parallel()
	const held = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: held
  finalizers: [example.com/hold]
  annotations: {argocd.argoproj.io/sync-wave: "2", slipway.dev/progress-deadline: 2s}
`
	w := newWorld(t, kubetest.Shared(t))
	w.mustSync(held + configMap("next", "") + configMap("keep", ""))
	key := w.key("ConfigMap", "held")
	release := func() {
		_, err := w.cluster.Client.CoreV1().ConfigMaps(w.namespace).Patch(context.Background(), "held", types.MergePatchType,
			[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	}
	run := w.run(w.build(configMap("keep", ""), plan.Options{AllowPrune: true}, plan.Build), nil)
	w.until(run, "it says what it waits for", func(outcome operation.Outcome) bool {
		return len(outcome.Waiting) == 1 && strings.Contains(outcome.Waiting[0], key.String()+" to be gone: Pending deletion") &&
			strings.Contains(outcome.Waiting[0], "example.com/hold")
	})
	if outcome := w.finish(run); outcome.Phase != v1alpha1.OperationFailed || !strings.Contains(outcome.Message, "takes longer than 2s") {
		t.Errorf("the sync is %+v", outcome)
	}
	deletion := w.run(w.build("", plan.Options{}, plan.Deletion), nil)
	w.until(deletion, "it waits beyond the deadline", func(outcome operation.Outcome) bool {
		return len(outcome.Waiting) == 1 && strings.Contains(outcome.Waiting[0], "takes longer than 2s")
	})
	release()
	if outcome := w.finish(deletion); outcome.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("the deletion is %+v", outcome)
	}
}

// A hook that is deleted before it has finished has failed.
func TestHookDeletedBySomebody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	run := w.run(w.build(demoJob("endless", "PreSync", never)+configMap("a", ""), plan.Options{}, plan.Build), nil)
	run.Advance(t.Context())
	background := metav1.DeletePropagationBackground
	err := w.cluster.Client.BatchV1().Jobs(w.namespace).Delete(t.Context(), "endless", metav1.DeleteOptions{PropagationPolicy: &background})
	must.Do(t, err)
	outcome := w.finish(run)
	if outcome.Phase != v1alpha1.OperationFailed || !strings.Contains(outcome.Message, "deleted before it was seen to finish") {
		t.Errorf("it is %+v", outcome)
	}
}
