package reconcile_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/outbound"
)

// patience is how long tests wait for what should happen soon. The machine may
// be busy.
const patience = time.Minute

// world is a cluster, a Git server, and the engine between them: all real.
type world struct {
	t       testing.TB
	cluster *kubetest.Cluster
	git     *gittest.Server
	// control is where Applications and projects are, and target where their
	// objects go.
	control, target string

	// requests are those that were not for reading by watch, and renders those
	// of this engine and the ones before.
	requests kubetest.Gate
	renders  atomic.Int64

	options reconcile.Options
	// outbound limits the addresses of sources; nil allows all.
	outbound *outbound.Policy
	folder   string
	engine   *argotest.Engine
}

// writes reports whether a request writes an Application.
func writes(request *http.Request) bool {
	return request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/applications/") && request.URL.Query().Get("fieldManager") == "slipway-agent"
}

// meet calls a function with each request before it is sent; its error is what
// the request ends with.
func (w *world) meet(before func(*http.Request) error) {
	w.requests.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if err := before(request); err != nil {
			return nil, err
		}
		return send(request)
	})
}

// asked gives requests without watches, as methods and paths.
func asked(requests []string) []string {
	var asked []string
	for _, line := range requests {
		if path, query, _ := strings.Cut(line, "?"); !strings.Contains(query, "watch=") {
			asked = append(asked, path)
		}
	}
	return asked
}

// taken are the requests since the last call, without watches and Events.
func (w *world) taken() []string {
	return slices.DeleteFunc(asked(w.requests.Take()), func(one string) bool { return strings.Contains(one, "/events") })
}

// newWorld prepares a world without an engine.
func newWorld(t testing.TB) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	argotest.Install(t, cluster)
	return &world{
		t: t, cluster: cluster, git: gittest.Serve(t), control: cluster.Namespace(t), target: cluster.Namespace(t), folder: t.TempDir(),
	}
}

// start runs an engine. It is stopped at the end of the test, or by w.stop.
func (w *world) start() {
	w.t.Helper()
	settings := w.options
	settings.ControlNamespace = w.control
	settings.Events = kube.Reporter{Controller: "slipway.dev/test", Instance: "one"}
	if testing.Verbose() {
		settings.Log = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	w.engine = argotest.Start(w.t, argotest.EngineOptions{
		Cluster: w.cluster.Connect(w.t, kube.Rate(500, 1000), w.requests.Option), Sources: source.Options{Folder: w.folder, FetchTimeout: 10 * time.Second, Outbound: w.outbound},
		Rendered: func(render.Outcome) { w.renders.Add(1) }, Settings: settings,
	})
}

// repository makes a repository with files.
func (w *world) repository(name string, files map[string]string) *gittest.Repository {
	w.t.Helper()
	return w.git.Repository(w.t, name, files)
}

// configMap is the manifest of a ConfigMap with one value.
func configMap(name, value string, annotations ...string) string {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
	if len(annotations) > 0 {
		text += "  annotations:\n"
		for _, one := range annotations {
			text += "    " + one + "\n"
		}
	}
	return text + "data: {value: \"" + value + "\"}\n"
}

// application makes an Application of a folder of a repository. The policy is
// YAML for spec.syncPolicy; empty is none.
func (w *world) application(name string, of *gittest.Repository, path, policy string) {
	w.t.Helper()
	w.applicationIn("default", name, of, path, policy)
}

// applicationIn is application for one of a project.
func (w *world) applicationIn(project, name string, of *gittest.Repository, path, policy string) {
	w.t.Helper()
	w.cluster.Apply(w.t, w.control, w.manifest(project, name, of, path, policy))
}

func (w *world) manifest(project, name string, of *gittest.Repository, path, policy string) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: %s
  source: {repoURL: %q, path: %q, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: %s
`, name, project, of.URL(), path, w.target, cmp.Or(policy, "{}"))
}

// patch merges a JSON text into an Application.
func (w *world) patch(name, text string) {
	w.t.Helper()
	kubetest.Patch(w.t, argotest.Applications(w.cluster, w.control), name, text)
}

// wait follows an Application until the condition holds, and returns it.
func (w *world) wait(name string, holds func(app *v1alpha1.Application) error) *v1alpha1.Application {
	w.t.Helper()
	return argotest.WaitFor(w.t, argotest.Applications(w.cluster, w.control), name, patience, holds)
}

// synced waits until an Application is Synced at a revision.
func (w *world) synced(name, revision string) *v1alpha1.Application {
	w.t.Helper()
	return w.wait(name, func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncSynced || app.Status.Sync.Revision != revision {
			return fmt.Errorf("it is %q at %q, with %s", app.Status.Sync.Status, app.Status.Sync.Revision, summaryOf(app))
		}
		return nil
	})
}

// operated waits until the last operation has ended in a phase.
func (w *world) operated(name string, phase v1alpha1.OperationPhase) *v1alpha1.Application {
	w.t.Helper()
	return w.wait(name, func(app *v1alpha1.Application) error {
		if state := app.Status.OperationState; state == nil || state.Phase != phase || app.Operation != nil {
			return fmt.Errorf("it has %s", summaryOf(app))
		}
		return nil
	})
}

// summaryOf is the status of an Application in one line.
func summaryOf(app *v1alpha1.Application) string {
	text := fmt.Sprintf("sync %s, health %s", app.Status.Sync.Status, app.Status.Health.Status)
	if state := app.Status.OperationState; state != nil {
		text += fmt.Sprintf(", operation %s (%s)", state.Phase, state.Message)
	}
	for _, one := range app.Status.Conditions {
		text += fmt.Sprintf(", %s: %s", one.Type, one.Message)
	}
	return text
}

// condition waits until an Application has a condition with a text.
func (w *world) condition(name, kind, text string) *v1alpha1.Application {
	w.t.Helper()
	return w.wait(name, func(app *v1alpha1.Application) error {
		for _, one := range app.Status.Conditions {
			if one.Type == kind && strings.Contains(one.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("it has no condition %s with %q, but %s", kind, text, summaryOf(app))
	})
}

// value waits until a ConfigMap has a value; empty waits until there is none.
func (w *world) value(name, want string) {
	w.t.Helper()
	client := w.cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(w.target)
	kubetest.WaitFor(w.t, client, kube.Named(name), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			if want == "" {
				return nil
			}
			return errors.New("it does not exist")
		}
		value, _, _ := unstructured.NestedString(found[0].Object, "data", "value")
		if value != want {
			return fmt.Errorf("its value is %q, want %q", value, want)
		}
		return nil
	})
}

// valueOf is the value of a ConfigMap now.
func (w *world) valueOf(name string) string {
	w.t.Helper()
	return must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).Get(w.t.Context(), name, metav1.GetOptions{}))(w.t).Data["value"]
}

// exists reports whether a ConfigMap is there now.
func (w *world) exists(name string) bool {
	w.t.Helper()
	found := must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).List(w.t.Context(), kube.Named(name)))(w.t)
	return len(found.Items) > 0
}
