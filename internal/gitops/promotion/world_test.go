package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// environments of a world, in their order.
var environments = []string{"dev", "staging", "prod"}

var installOnce sync.Once

// world is a cluster whose Applications are synced by a real engine from a real Git
// server: one in each of three environments.
type world struct {
	*kubetest.Cluster
	namespace string
	// targets are the namespaces of the environments.
	targets    map[string]string
	git        *gittest.Server
	repository *gittest.Repository
}

// config is the file of an environment, with a version that is promoted and a host that
// is not.
func config(environment, version string) string {
	return fmt.Sprintf("# settings of %[1]s\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  host: %[1]s.example.com\n  version: %[2]s # of the image\n", environment, version)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	installOnce.Do(func() {
		argotest.Install(t, cluster)
		cluster.Define(t, string(must.Get(slipway.CRDs())(t)))
		cluster.Define(t, string(must.Get(v1beta1.CRDs())(t)))
	})
	w := &world{Cluster: cluster, namespace: cluster.Namespace(t), targets: map[string]string{}, git: gittest.Serve(t)}
	files := map[string]string{}
	for _, name := range environments {
		w.targets[name] = cluster.Namespace(t)
		files["env/"+name+"/config.yaml"] = config(name, "v1")
	}
	w.repository = w.git.Repository(t, "shop", files)
	return w
}

// objects creates the Applications, the Environments with their gates, the Product and
// a flow. repoURL is where the Applications read the repository.
func (w *world) objects(t *testing.T, repoURL string, gates map[string]string) {
	t.Helper()
	for _, name := range environments {
		w.application(t, "web-"+name, repoURL, name)
		w.Apply(t, w.namespace, fmt.Sprintf("apiVersion: slipway.dev/v1alpha1\nkind: Environment\nmetadata: {name: %s}\nspec:\n  destinations: [{namespaces: [%s]}]\n  gates: {%s}\n", name, w.targets[name], gates[name]))
	}
	w.Apply(t, w.namespace, `apiVersion: codefresh.io/v1beta1
kind: Product
metadata: {name: shop}
spec:
  promotionTemplateRef: shop
  promotionFlows: [{name: to-prod}]
---
apiVersion: codefresh.io/v1beta1
kind: PromotionTemplate
metadata: {name: shop}
spec:
  applicationSourceSelector: {matchLabels: {codefresh.io/product: shop}}
  priority: 0
  versionSource: {file: config.yaml, jsonPath: $.data.version}
  promotion: {config.yaml: {jsonPaths: [$.data.version]}}
---
apiVersion: codefresh.io/v1beta1
kind: PromotionFlow
metadata: {name: to-prod}
spec:
  triggerEnvironment: dev
  steps:
  - {environment: staging, dependsOn: [dev], policy: {action: commit}}
  - {environment: prod, dependsOn: [staging], policy: {action: commit}}
`)
}

// application creates an Application of the Product.
func (w *world) application(t *testing.T, name, repoURL, environment string) {
	t.Helper()
	w.Apply(t, w.namespace, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, labels: {codefresh.io/product: shop}}
spec:
  project: default
  source: {repoURL: %q, path: env/%s, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {selfHeal: true}}
`, name, repoURL, environment, w.targets[environment]))
}

// startEngine syncs the Applications until the end of the test.
func (w *world) startEngine(t *testing.T) *argotest.Engine {
	t.Helper()
	return w.startEngineWith(t, source.Options{})
}

// startEngineWith is startEngine with credentials.
func (w *world) startEngineWith(t *testing.T, sources source.Options) *argotest.Engine {
	t.Helper()
	sources.Folder, sources.FetchTimeout, sources.MaxAge = t.TempDir(), 10*time.Second, 100*time.Millisecond
	return argotest.Start(t, argotest.EngineOptions{
		Cluster: w.Connect(t, kube.Rate(500, 1000)), Sources: sources,
		Settings: reconcile.Options{ControlNamespace: w.namespace, Namespaces: []string{w.namespace}, Interval: 100 * time.Millisecond, Jitter: time.Millisecond, Workers: 4},
	})
}

// start runs a controller until the end of the test, or until the function is called.
func (w *world) start(t *testing.T, change func(*promotion.Options)) (stop func()) {
	t.Helper()
	sources := must.Get(source.New(source.Options{Folder: t.TempDir(), FetchTimeout: 10 * time.Second}))(t)
	options := promotion.Options{
		Cluster: w.Connect(t, kube.Rate(500, 1000)), Sources: sources, ControlNamespace: w.namespace, Namespaces: []string{w.namespace},
		Interval: 50 * time.Millisecond, Folder: t.TempDir(), Reporter: kube.Reporter{Controller: "slipway.dev/test", Instance: "test"},
	}
	if testing.Verbose() {
		options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if change != nil {
		change(&options)
	}
	controller := promotion.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait(); _ = sources.Close() })
	t.Cleanup(stop)
	return stop
}

// promotions are the Promotions of the world.
func (w *world) promotions() dynamic.ResourceInterface {
	return w.Dynamic.Resource(schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourcePromotion}).Namespace(w.namespace)
}

// promote creates a Promotion.
func (w *world) promote(t *testing.T, name, more string) {
	t.Helper()
	w.Apply(t, w.namespace, fmt.Sprintf("apiVersion: slipway.dev/v1alpha1\nkind: Promotion\nmetadata: {name: %s}\nspec: {product: shop, by: ada%s}\n", name, more))
}

// patch merges fields into a Promotion.
func (w *world) patch(t *testing.T, name, text string) {
	t.Helper()
	must.Get(w.promotions().Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}))(t)
}

// await waits until a condition of a Promotion holds, and returns it.
func (w *world) await(t *testing.T, name string, holds func(*slipway.Promotion) error) *slipway.Promotion {
	t.Helper()
	var last *slipway.Promotion
	kubetest.WaitFor(t, w.promotions(), kube.Named(name), programs.Timeout, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no such Promotion")
		}
		last = &slipway.Promotion{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, last); err != nil {
			return err
		}
		return holds(last)
	})
	return last
}

// awaitPhase waits for a phase with a text in the message.
func (w *world) awaitPhase(t *testing.T, name, phase, part string) *slipway.Promotion {
	t.Helper()
	return w.await(t, name, func(p *slipway.Promotion) error {
		if p.Status.Phase != phase || !strings.Contains(p.Status.Message, part) {
			return fmt.Errorf("it is %s: %s", p.Status.Phase, p.Status.Message)
		}
		return nil
	})
}

// awaitSynced waits until an Application has a revision, or any if it is empty.
func (w *world) awaitSynced(t *testing.T, name, revision string) {
	t.Helper()
	argotest.WaitFor(t, argotest.Applications(w.Cluster, w.namespace), name, programs.Timeout, func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncSynced || app.Status.Health.Status != v1alpha1.Healthy || revision != "" && app.Status.Sync.Revision != revision {
			return fmt.Errorf("%s is %s and %s at %s", name, app.Status.Sync.Status, app.Status.Health.Status, app.Status.Sync.Revision)
		}
		return nil
	})
}

// commits are the ids of the commits with a line, the newest first.
func (w *world) commits(t *testing.T, line string) []string {
	t.Helper()
	return strings.Fields(w.repository.Git(t, "log", "--format=%H", "--grep=^"+line+"$", "main"))
}

// file is the content of a file on the branch.
func (w *world) file(t *testing.T, name string) string {
	t.Helper()
	return w.repository.Git(t, "show", "main:"+name)
}

// setVersion commits a version to the trigger environment, and waits until it is synced.
func (w *world) setVersion(t *testing.T, version string) {
	t.Helper()
	commit := w.repository.Commit(t, map[string]string{"env/dev/config.yaml": config("dev", version)}, "version "+version)
	w.awaitSynced(t, "web-dev", commit)
}

// promoted checks that every environment has a version, by one commit each.
func (w *world) promoted(t *testing.T, name, version string) {
	t.Helper()
	done := w.awaitPhase(t, name, slipway.PromotionSucceeded, version+" is in staging, prod")
	for i, environment := range environments[1:] {
		found := w.commits(t, "Promotion: "+w.namespace+"/"+name+"/"+environment)
		if len(found) != 1 {
			t.Errorf("%s has %d commits: %v", environment, len(found), found)
			continue
		}
		if writes := done.Status.Steps[i].Writes; len(writes) != 1 || writes[0].Commit != found[0] {
			t.Errorf("the status of %s has %+v, and the commit is %s", environment, writes, found[0])
		}
		if got, want := w.file(t, "env/"+environment+"/config.yaml"), config(environment, version); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s has\n%s\nwant\n%s", environment, got, want)
		}
	}
}

// ingressAddress makes an Ingress healthy.
var ingressAddress = networkingv1.IngressLoadBalancerIngress{IP: "127.0.0.1"}

// patchStatus merges fields into the status of a Promotion.
func (w *world) patchStatus(t *testing.T, name, text string) {
	t.Helper()
	must.Get(w.promotions().Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, "status"))(t)
}
