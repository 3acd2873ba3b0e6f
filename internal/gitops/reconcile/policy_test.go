package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// set changes the value of a ConfigMap as a user with kubectl does.
func (w *world) set(name, value string) {
	w.t.Helper()
	must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).Patch(w.t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"data": {"value": %q}}`, value), metav1.PatchOptions{FieldManager: "kubectl-edit"}))(w.t)
}

func (w *world) outOfSync(name string) *v1alpha1.Application {
	w.t.Helper()
	return w.wait(name, func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncOutOfSync {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
}

// With selfHeal a change in the cluster is undone, by a sync of what drifted.
// Without it, it is only reported, as Argo CD documents.
func TestSelfHeal(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "2")})
	w.start()
	w.application("web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	w.set("one", "drifted")
	w.outOfSync("web")
	w.patch("web", `{"spec": {"syncPolicy": {"automated": {"selfHeal": true}}}}`)
	w.value("one", "1")
	app := w.synced("web", repository.Head(t))
	sync := app.Status.OperationState.Operation.Sync
	if len(sync.Resources) != 1 || sync.Resources[0].Name != "one" || sync.SelfHealAttemptsCount != 1 {
		t.Errorf("the repair was %+v, want one of the object that drifted", sync)
	}
	if len(app.Status.History) != 1 {
		t.Errorf("a repair is in the history: %+v", app.Status.History)
	}
	must.Do(w.t, w.cluster.Client.CoreV1().ConfigMaps(w.target).Delete(t.Context(), "two", metav1.DeleteOptions{}))
	w.value("two", "2")
}

// What leaves Git is pruned only if the policy allows it.
func TestPrune(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "2")})
	w.start()
	w.application("web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	repository.Delete(t, "web/two.yaml")
	w.refresh("web")
	app := w.outOfSync("web")
	if i := slices.IndexFunc(app.Status.Resources, func(r v1alpha1.ResourceStatus) bool { return r.Name == "two" }); i < 0 || !app.Status.Resources[i].RequiresPruning {
		t.Errorf("the resources are %+v, want that two requires pruning", app.Status.Resources)
	}
	if !w.exists("two") {
		t.Fatal("it was pruned without being allowed")
	}
	w.patch("web", `{"spec": {"syncPolicy": {"automated": {"prune": true}}}}`)
	w.value("two", "")
	w.synced("web", repository.Head(t))
}

// A render without objects does not wipe an application, unless allowEmpty is
// set.
func TestAllowEmpty(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/README.md": "about"})
	w.start()
	w.application("web", repository, "web", `{automated: {prune: true}}`)
	w.synced("web", repository.Head(t))
	repository.Delete(t, "web/one.yaml")
	w.refresh("web")
	w.condition("web", v1alpha1.ConditionSyncError, "wipe out all resources")
	if !w.exists("one") {
		t.Fatal("the application was wiped")
	}
	w.patch("web", `{"spec": {"syncPolicy": {"automated": {"prune": true, "allowEmpty": true}}}}`)
	w.value("one", "")
	w.synced("web", repository.Head(t))
}

// refresh asks for a look at Git.
func (w *world) refresh(name string) {
	w.t.Helper()
	w.patch(name, `{"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}`)
}

// project makes an AppProject that allows everything, and what is given.
func (w *world) project(name, more string) {
	w.t.Helper()
	w.cluster.Apply(w.t, w.control, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %s}
spec:
  sourceRepos: ["*"]
  destinations: [{server: "*", namespace: "*"}]
  %s
`, name, strings.ReplaceAll(strings.TrimSpace(more), "\n", "\n  ")))
}

// A sync window that denies keeps automated syncs away, and by hand too unless
// it has manualSync. A project that changes is looked at at once.
func TestSyncWindows(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.project("team", `syncWindows: [{kind: deny, schedule: "* * * * *", duration: 1h, applications: ["*"]}]`)
	w.start()
	w.applicationIn("team", "web", repository, "web", automated)
	w.outOfSync("web")
	w.patch("web", `{"operation": {"sync": {}}}`)
	app := w.operated("web", v1alpha1.OperationError)
	if !strings.Contains(app.Status.OperationState.Message, "sync window") || w.exists("one") {
		t.Errorf("the operation says %q", app.Status.OperationState.Message)
	}
	w.project("team", `syncWindows: [{kind: deny, schedule: "* * * * *", duration: 1h, applications: ["*"], manualSync: true}]`)
	// The engine learns of the project by watch: asking again is part of it.
	w.eventually("the sync by hand is let through", func() error {
		w.patch("web", `{"operation": {"sync": {}}}`)
		app := w.wait("web", func(app *v1alpha1.Application) error {
			if app.Operation != nil {
				return errors.New("it was not taken up")
			}
			return nil
		})
		if app.Status.OperationState.Phase != v1alpha1.OperationSucceeded {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	w.value("one", "1")
	second := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "change")
	w.refresh("web")
	w.outOfSync("web")
	w.project("team", `syncWindows: []`)
	w.synced("web", second)
}

// eventually tries something until it goes well.
func (w *world) eventually(what string, try func() error) {
	w.t.Helper()
	programs.Eventually(w.t, func(context.Context) error {
		if err := try(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// A sync that fails is retried as the Application sets, and then no more for
// the same revision.
func TestRetry(t *testing.T) {
	w := newWorld(t)
	wrong := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {value: {not: text}}\n"
	repository := w.repository("shop", map[string]string{"web/one.yaml": wrong})
	w.start()
	w.application("web", repository, "web", `{automated: {}, retry: {limit: 2, backoff: {duration: 1s, factor: 1, maxDuration: 1s}}}`)
	app := w.operated("web", v1alpha1.OperationFailed)
	if state := app.Status.OperationState; state.RetryCount != 2 || state.FinishedAt == nil {
		t.Errorf("it was tried again %d times, want 2: %s", state.RetryCount, summaryOf(app))
	}
	w.condition("web", v1alpha1.ConditionSyncError, "Failed last sync attempt to "+repository.Head(t))
	right := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "1")}, "right")
	w.refresh("web")
	app = w.synced("web", right)
	if len(app.Status.Conditions) > 0 {
		t.Errorf("the conditions are %+v, want none", app.Status.Conditions)
	}
}

// A rollback is a sync to an entry of the history. Without automated syncs the
// Application is OutOfSync then, as in Argo CD.
func TestRollback(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", automated)
	first := repository.Head(t)
	w.synced("web", first)
	second := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2"), "web/two.yaml": configMap("two", "2")}, "change")
	w.refresh("web")
	w.synced("web", second)
	w.patch("web", `{"spec": {"syncPolicy": {"automated": null}}}`)
	back := fmt.Sprintf(`{"operation": {"sync": {"revision": %q, "prune": true, "source": {"repoURL": %q, "path": "web", "targetRevision": "main"}}}}`, first, repository.URL())
	w.patch("web", back)
	w.value("one", "1")
	w.value("two", "")
	app := w.operated("web", v1alpha1.OperationSucceeded)
	if last := app.Status.History[len(app.Status.History)-1]; last.Revision != first || last.ID != 2 {
		t.Errorf("the last entry of the history is %+v", last)
	}
	if app.Status.Sync.Status != v1alpha1.SyncOutOfSync || app.Status.Sync.Revision != second {
		t.Errorf("the application is %s at %s, want OutOfSync at what Git has", app.Status.Sync.Status, app.Status.Sync.Revision)
	}
}
