package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/must"
)

func listAll() metav1.ListOptions { return metav1.ListOptions{} }

// open makes a gate healthy, as a controller of Ingresses does.
func (w *world) open(name string) {
	w.t.Helper()
	must.Get(w.cluster.Client.NetworkingV1().Ingresses(w.target).Patch(w.t.Context(), name, types.MergePatchType,
		[]byte(`{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}`), metav1.PatchOptions{FieldManager: "controller"}, "status"))(w.t)
}

// waits follows an Application until its operation waits for something.
func (w *world) waits(name, what string) *v1alpha1.Application {
	w.t.Helper()
	return w.wait(name, func(app *v1alpha1.Application) error {
		if state := app.Status.OperationState; state == nil || !strings.Contains(state.Message, what) {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
}

// A wave waits for the one before it to be healthy, and an operation that waits
// is in the status.
func TestWavesWait(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", waiting())
	w.start()
	w.application("web", repository, "web", automated)
	app := w.waits("web", "first to be healthy")
	if w.exists("second") || app.Status.Health.Status != v1alpha1.Progressing || len(app.Status.OperationState.SyncResult.Resources) != 1 {
		t.Errorf("the second wave did not wait: %s", summaryOf(app))
	}
	w.open("first")
	app = w.synced("web", repository.Head(t))
	if app.Status.OperationState.Phase != v1alpha1.OperationSucceeded || app.Status.Health.Status != v1alpha1.Healthy {
		t.Errorf("the application is %s", summaryOf(app))
	}
	wave := app.Status.Resources[slices.IndexFunc(app.Status.Resources, func(r v1alpha1.ResourceStatus) bool { return r.Kind == "Ingress" })].SyncWave
	if wave != -1 {
		t.Errorf("the wave is %d, want -1", wave)
	}
}

// Argo CD's clients end an operation by writing its phase.
func TestTerminate(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", waiting())
	w.start()
	w.application("web", repository, "web", "")
	w.outOfSync("web")
	w.patch("web", `{"operation": {"sync": {}, "retry": {"limit": 5}}}`)
	w.operated("web", v1alpha1.OperationRunning)
	w.patch("web", `{"status": {"operationState": {"phase": "Terminating"}}}`)
	app := w.operated("web", v1alpha1.OperationFailed)
	if !strings.Contains(app.Status.OperationState.Message, "terminated") || w.exists("second") {
		t.Errorf("the application is %s", summaryOf(app))
	}
}

// A program that ends in the middle of an operation goes on with it: the same
// revision, although Git has another one by now, the same start, and what was
// done is not done again.
func TestRestartInTheMiddle(t *testing.T) {
	w := newWorld(t)
	files := waiting()
	files["web/hook.yaml"] = configMap("hook", "1", "argocd.argoproj.io/hook: PreSync")
	repository := w.repository("shop", files)
	w.start()
	w.application("web", repository, "web", "")
	w.outOfSync("web")
	w.patch("web", `{"operation": {"sync": {}}}`)
	before := w.waits("web", "first to be healthy")
	hook := must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).Get(t.Context(), "hook", metav1.GetOptions{}))(w.t)
	w.engine.Stop()
	repository.Commit(t, map[string]string{"web/second.yaml": configMap("second", "newer")}, "meanwhile")
	w.open("first")
	w.start()
	after := w.operated("web", v1alpha1.OperationSucceeded)
	w.value("second", "2")
	again := must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).Get(t.Context(), "hook", metav1.GetOptions{}))(w.t)
	if again.UID != hook.UID {
		t.Error("the hook ran again")
	}
	was, is := before.Status.OperationState, after.Status.OperationState
	if is.SyncResult.Revision != was.SyncResult.Revision || !is.StartedAt.Equal(&was.StartedAt) || len(after.Status.History) != 1 {
		t.Errorf("the operation was %s at %v, and is %s at %v", was.SyncResult.Revision, was.StartedAt, is.SyncResult.Revision, is.StartedAt)
	}
}

// An application of applications: the second child waits for the first to be
// healthy, which Argo CD needs a script for.
func TestAppOfAppsWaits(t *testing.T) {
	w := newWorld(t)
	first := w.repository("first", map[string]string{"app/gate.yaml": gate("gate", "0")})
	second := w.repository("second", map[string]string{"app/two.yaml": configMap("two", "2")})
	child := func(name, wave, text string) string {
		return strings.Replace(text, "metadata: {name: "+name+"}",
			fmt.Sprintf("metadata: {name: %s, namespace: %s, annotations: {argocd.argoproj.io/sync-wave: %q}}", name, w.control, wave), 1)
	}
	parent := w.repository("parent", map[string]string{
		"apps/first.yaml":  child("first", "1", w.manifest("default", "first", first, "app", automated)),
		"apps/second.yaml": child("second", "2", w.manifest("default", "second", second, "app", automated)),
	})
	w.start()
	w.application("parent", parent, "apps", automated)
	w.waits("parent", "first to be healthy")
	w.synced("first", first.Head(t))
	if w.exists("two") {
		t.Error("the second child did not wait for the first")
	}
	w.open("gate")
	w.synced("second", second.Head(t))
	app := w.synced("parent", parent.Head(t))
	if want := []string{"Application/first", "Application/second"}; !slices.Equal(resourceNames(app), want) {
		t.Errorf("the resources are %v", resourceNames(app))
	}
}

// An operation with manifests of a client fails by the name of the field, and applies nothing.
func TestLocalManifestsAreRefused(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", "")
	w.outOfSync("web")
	local := `{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"local\"}}`
	w.patch("web", `{"operation": {"sync": {"manifests": ["`+local+`"]}}}`)
	app := w.operated("web", v1alpha1.OperationError)
	if message := app.Status.OperationState.Message; !strings.Contains(message, "operation.sync.manifests: it is not supported") || !strings.Contains(message, "--local") {
		t.Errorf("the operation ends with %q", message)
	}
	if w.exists("local") || w.exists("one") {
		t.Error("something was applied")
	}
}
