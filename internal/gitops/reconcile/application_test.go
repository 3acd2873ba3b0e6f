package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/must"
)

// versionOf is the version of a ConfigMap.
func (w *world) versionOf(name string) string {
	w.t.Helper()
	found := must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).Get(w.t.Context(), name, metav1.GetOptions{}))(w.t)
	return found.ResourceVersion
}

// What never becomes healthy is Degraded when its time is over, although nothing
// happens in the cluster; and stays so after a restart.
func TestDeadlineMakesDegraded(t *testing.T) {
	w := newWorld(t)
	text := strings.Replace(gate("stuck", "0"), "annotations: {", `annotations: {slipway.dev/progress-deadline: 1s, `, 1)
	repository := w.repository("shop", map[string]string{"web/stuck.yaml": text})
	w.start()
	w.application("web", repository, "web", automated)
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Health.Status != v1alpha1.Degraded {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	if !strings.Contains(app.Status.Health.Message, "longer than 1s") {
		t.Errorf("the health says %q", app.Status.Health.Message)
	}
	w.idle()
	w.engine.Stop()
	w.start()
	w.eventually("it was looked at", func() error { return w.engine.Ready() })
	w.idle()
	again := w.wait("web", func(*v1alpha1.Application) error { return nil })
	if again.ResourceVersion != app.ResourceVersion {
		t.Errorf("after a restart the status was written again: %s", summaryOf(again))
	}
}

// A sync window that closes holds what runs, and lets it go on when it opens.
func TestWindowHoldsWhatRuns(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", waiting())
	w.project("team", "")
	w.start()
	w.applicationIn("team", "web", repository, "web", automated)
	w.waits("web", "first to be healthy")
	w.project("team", `syncWindows: [{kind: deny, schedule: "* * * * *", duration: 1h, applications: ["*"]}]`)
	w.waits("web", "sync window is in the way")
	w.open("first")
	w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Health.Status != v1alpha1.Healthy && app.Status.Health.Status != v1alpha1.Missing {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	if w.exists("second") {
		t.Error("the sync went on while the window was closed")
	}
	w.project("team", `syncWindows: []`)
	w.synced("web", repository.Head(t))
}

// An operation that asks for something that we do not do ends with the reason.
func TestInvalidOperationIsTold(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", "")
	w.outOfSync("web")
	w.patch("web", `{"operation": {"sync": {"syncOptions": ["Prun=true"]}}}`)
	app := w.operated("web", v1alpha1.OperationError)
	if message := app.Status.OperationState.Message; !strings.Contains(message, "did you mean Prune?") || w.exists("one") {
		t.Errorf("the operation says %q", message)
	}
	w.patch("web", `{"operation": {"sync": {"revision": "nowhere"}}}`)
	app = w.wait("web", func(app *v1alpha1.Application) error {
		if state := app.Status.OperationState; app.Operation != nil || !strings.Contains(state.Message, "nowhere") {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	if app.Status.OperationState.Phase != v1alpha1.OperationError || app.Status.Sync.Status != v1alpha1.SyncOutOfSync {
		t.Errorf("the application is %s", summaryOf(app))
	}
}

// CreateNamespace makes the destination, with its metadata, before what is in
// it; deleting the Application leaves it.
func TestCreateNamespace(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.target += "-made"
	w.application("web", repository, "web", `{automated: {}, syncOptions: [CreateNamespace=true], managedNamespaceMetadata: {labels: {team: a}}}`)
	w.synced("web", repository.Head(t))
	w.value("one", "1")
	namespace := must.Get(w.cluster.Client.CoreV1().Namespaces().Get(t.Context(), w.target, metav1.GetOptions{}))(w.t)
	if namespace.Labels["team"] != "a" {
		t.Errorf("the labels are %v", namespace.Labels)
	}
	w.delete("web", finalizer)
	w.gone("web")
	w.value("one", "")
	if _, err := w.cluster.Client.CoreV1().Namespaces().Get(t.Context(), w.target, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// Two Applications with the same object: the second has a condition.
func TestSharedResource(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("first", repository, "web", automated)
	w.synced("first", repository.Head(t))
	w.application("second", repository, "web", "")
	w.condition("second", v1alpha1.ConditionSharedResourceWarning, "is part of applications")
}

// A project that names a ServiceAccount has objects applied with its rights.
func TestImpersonation(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.cluster.Apply(t, w.target, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: deployer}\n")
	w.project("team", `destinationServiceAccounts: [{server: "*", namespace: "*", defaultServiceAccount: deployer}]`)
	w.start()
	w.applicationIn("team", "web", repository, "web", `{automated: {}, retry: {limit: 20, backoff: {duration: 1s, factor: 1}}}`)
	w.waits("web", "deployer")
	if w.exists("one") {
		t.Fatal("it was applied without the right to")
	}
	w.cluster.Apply(t, w.target, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: deployer}]
`)
	w.synced("web", repository.Head(t))
}

// An Application of several sources has a revision of each.
func TestSeveralSources(t *testing.T) {
	w := newWorld(t)
	one := w.repository("one", map[string]string{"app/one.yaml": configMap("one", "1")})
	two := w.repository("two", map[string]string{"app/two.yaml": configMap("two", "2")})
	w.start()
	w.cluster.Apply(t, w.control, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web}
spec:
  project: default
  sources:
  - {repoURL: %q, path: app, targetRevision: main}
  - {repoURL: %q, path: app, targetRevision: main}
  destination: {name: in-cluster, namespace: %s}
  syncPolicy: {automated: {}}
`, one.URL(), two.URL(), w.target))
	w.value("one", "1")
	second := two.Commit(t, map[string]string{"app/two.yaml": configMap("two", "changed")}, "change")
	w.engine.Pushed(pushTo(two))
	w.value("two", "changed")
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if got := app.Status.Sync.Revisions; len(got) != 2 || got[1] != second || app.Status.Sync.Status != v1alpha1.SyncSynced {
			return fmt.Errorf("the revisions are %v, and it is %s", got, summaryOf(app))
		}
		return nil
	})
	last := app.Status.History[len(app.Status.History)-1]
	if len(last.Sources) != 2 || last.Revisions[0] != one.Head(t) || last.Revision != "" || len(app.Status.SourceTypes) != 2 {
		t.Errorf("the history is %+v", last)
	}
}
