package migrate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const patience = time.Minute

// world is a cluster with two engines: the runtime, and one in the place of Argo CD,
// which syncs, heals, prunes and deletes with finalizers as Argo CD does. They see
// the same Git server.
type world struct {
	t       testing.TB
	cluster *kubetest.Cluster
	git     *gittest.Server
	// argo and control are where the Applications of the two are, and target where
	// the objects go.
	argo, control, target string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	argotest.Install(t, cluster)
	return &world{t: t, cluster: cluster, git: gittest.Serve(t), argo: cluster.Namespace(t), control: cluster.Namespace(t), target: cluster.Namespace(t)}
}

// start runs an engine for the Applications of a namespace.
func (w *world) start(namespace string) {
	w.t.Helper()
	argotest.Start(w.t, argotest.EngineOptions{
		Cluster: w.cluster.Connect(w.t, kube.Rate(500, 1000)), Sources: source.Options{Folder: w.t.TempDir(), FetchTimeout: 10 * time.Second, MaxAge: time.Second},
		Settings: reconcile.Options{
			ControlNamespace: namespace, Events: kube.Reporter{Controller: "slipway.dev/test", Instance: namespace}, Interval: 2 * time.Second, Jitter: time.Millisecond,
		},
	})
}

// manifests are what is in Git for an Application.
func manifests(name string) map[string]string {
	return map[string]string{
		name + "/config.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {value: one}\n",
		name + "/service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {selector: {app: " + name + "}, ports: [{port: 80}]}\n",
		name + "/web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + "}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: " + name + "}}\n" +
			"  template:\n    metadata: {labels: {app: " + name + "}}\n    spec: {containers: [{name: web, image: example.com/web}]}\n",
	}
}

// argoApp is an Application of Argo CD, with all that could delete something.
func (w *world) argoApp(name string, of *gittest.Repository) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: %[1]s
  namespace: %[2]s
  labels: {team: a}
  annotations: {notifications.argoproj.io/subscribe.on-deployed.slack: here}
  finalizers: [resources-finalizer.argocd.argoproj.io]
spec:
  project: default
  source: {repoURL: %[3]q, path: %[1]q, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %[4]s}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [ServerSideApply=true]}
`, name, w.argo, of.URL(), w.target)
}

func (w *world) options(name string, cluster *kube.Cluster) migrate.Options {
	return migrate.Options{
		Cluster: cluster, From: tracking.App{Namespace: w.argo, Name: name}, To: tracking.App{Namespace: w.control, Name: name},
		ControlNamespace: w.control, Wait: patience,
	}
}

// app reads an Application; nil if it is not there.
func (w *world) app(namespace, name string) *v1alpha1.Application {
	w.t.Helper()
	list := must.Get(argotest.Applications(w.cluster, namespace).List(w.t.Context(), kube.Named(name)))(w.t)
	if len(list.Items) == 0 {
		return nil
	}
	app, _, err := v1alpha1.Decode(list.Items[0].Object)
	must.Do(w.t, err)
	return app
}

// wait follows an Application until the condition holds.
func (w *world) wait(namespace, name string, holds func(*v1alpha1.Application) bool) {
	w.t.Helper()
	argotest.WaitFor(w.t, argotest.Applications(w.cluster, namespace), name, patience, func(app *v1alpha1.Application) error {
		if !holds(app) {
			return errors.New("not yet")
		}
		return nil
	})
}

func synced(app *v1alpha1.Application) bool {
	return app.Status.Sync.Status == v1alpha1.SyncSynced && len(app.Status.Resources) == 3
}

// identity is what may not change of the objects of an Application.
type identity struct {
	uid        types.UID
	generation int64
}

func (w *world) identities(name string) map[string]identity {
	w.t.Helper()
	made := map[string]identity{}
	for _, kind := range []schema.GroupVersionResource{{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "deployments"}} {
		one, err := w.cluster.Metadata.Resource(kind).Namespace(w.target).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			w.t.Errorf("%s %s: %v", kind.Resource, name, err)
			continue
		}
		if one.DeletionTimestamp != nil {
			w.t.Errorf("%s %s is being deleted", kind.Resource, name)
		}
		made[kind.Resource] = identity{one.UID, one.Generation}
	}
	return made
}

// essence is what an Application has that people wrote.
func essence(app *v1alpha1.Application) string {
	text, _ := json.Marshal([]any{app.Labels, app.Annotations, app.Finalizers, app.Spec})
	return string(text)
}

// errKilled is what a killed process gets.
var errKilled = errors.New("the process was killed")

// killedAfter is a connection whose process is killed after some writes, and the
// counter of them: the last one reaches the API server, its response no process.
func (w *world) killedAfter(writes int64) (*kube.Cluster, *atomic.Int64) {
	w.t.Helper()
	var count atomic.Int64
	gate := &kubetest.Gate{}
	gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if count.Load() >= writes {
			return nil, errKilled
		}
		response, err := send(request)
		// A conflict is no write: the engines write statuses meanwhile.
		if request.Method == http.MethodGet || err != nil || response.StatusCode >= http.StatusBadRequest {
			return response, err
		}
		if count.Add(1) >= writes {
			_ = response.Body.Close()
			return nil, errKilled
		}
		return response, nil
	})
	return w.cluster.Connect(w.t, gate.Option), &count
}
