package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const farServer = "https://far.example:6443"

// far is another cluster, as the cluster registry would give it to the
// engine.
type far struct {
	*kubetest.Cluster
	world *world

	mu      sync.Mutex
	known   *reconcile.Destination
	refusal string
}

// Refusal is why the cluster is not known.
func (f *far) Refusal(server, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if server == farServer || name == "far" {
		return f.refusal
	}
	return ""
}

// All is the cluster, or nothing before it was added.
func (f *far) All() []*reconcile.Destination {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		return nil
	}
	return []*reconcile.Destination{f.known}
}

// add makes the cluster known, with a cache of its own.
func (f *far) add() {
	kinds := live.NewKinds(f.Cluster.Cluster)
	cache := live.New(live.Options{Cluster: f.Cluster.Cluster, Kinds: kinds, Changed: func(label string, key tracking.Key) { f.world.engine.Changed(label, key) }})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = cache.Run(ctx) })
	f.world.t.Cleanup(func() { cancel(); running.Wait() })
	f.set(&reconcile.Destination{Server: farServer, Name: "far", Live: cache, Kinds: kinds, Applier: apply.New(f.Cluster.Cluster, kinds)})
}

func (f *far) set(known *reconcile.Destination) {
	f.mu.Lock()
	f.known = known
	f.mu.Unlock()
	f.world.engine.DestinationsChanged()
}

func (f *far) refuse(reason string) {
	f.mu.Lock()
	f.refusal = reason
	f.mu.Unlock()
	f.world.engine.DestinationsChanged()
}

func (f *far) configMaps() kube.Source[*unstructured.UnstructuredList] {
	return f.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
}

// value waits until a ConfigMap of the other cluster has a value; empty waits
// until there is none.
func (f *far) value(name, want string) {
	f.world.t.Helper()
	kubetest.WaitFor(f.world.t, f.configMaps(), kube.Named(name), patience, func(found []*unstructured.Unstructured) error {
		got := ""
		if len(found) > 0 {
			got, _, _ = unstructured.NestedString(found[0].Object, "data", "value")
		}
		if got != want {
			return fmt.Errorf("the value is %q, want %q", got, want)
		}
		return nil
	})
}

func TestOtherCluster(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	t.Run("life", func(t *testing.T) { testOtherCluster(t, cluster) })
	t.Run("move", func(t *testing.T) { testMove(t, cluster) })
	t.Run("owner", func(t *testing.T) { testOwner(t, cluster) })
}

// A project that may use clusters of its own only deploys to a cluster once its Secret
// names the project, without a destination for it.
func testOwner(t *testing.T, cluster *kubetest.Cluster) {
	w := newWorld(t)
	other := &far{Cluster: cluster, world: w}
	w.options.Destinations = other
	repository := w.repository("shop", map[string]string{"web/owned.yaml": configMap("owned", "1")})
	const only = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: team}\nspec: {sourceRepos: [\"*\"], permitOnlyProjectScopedClusters: true, clusterResourceWhitelist: [{group: \"*\", kind: \"*\"}]%s}\n"
	w.cluster.Apply(t, w.control, fmt.Sprintf(only, `, destinations: [{server: "*", namespace: "*"}]`))
	w.start()
	other.add()
	place := fmt.Sprintf("server: https://kubernetes.default.svc, namespace: %s", w.target)
	w.cluster.Apply(t, w.control, strings.Replace(w.manifest("team", "web", repository, "web", automated), place, "name: far, namespace: default", 1))
	w.condition("web", v1alpha1.ConditionInvalidSpecError, "project team allows only clusters of its own: write project: team into the Secret of the cluster")

	w.cluster.Apply(t, w.control, fmt.Sprintf(only, ""))
	owned := *other.known
	owned.Scope = project.ClusterScope{Project: "team", Namespaces: []string{"default"}, OnlyNamespaced: true}
	other.set(&owned)
	w.synced("web", repository.Head(t))
	other.value("owned", "1")
	repository.Commit(t, map[string]string{"web/node.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: owned}\n"}, "an object without a namespace")
	w.refresh("web")
	w.wait("web", func(app *v1alpha1.Application) error {
		if message := summaryOf(app); !strings.Contains(message, `write clusterResources: "true" into that Secret`) {
			return errors.New(message)
		}
		return nil
	})
}

// An Application deploys to another cluster that was added: by name and by
// address, with repairs, pruning and deletion there and nothing here.
func testOtherCluster(t *testing.T, cluster *kubetest.Cluster) {
	w := newWorld(t)
	other := &far{Cluster: cluster, world: w}
	w.options.Destinations = other
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "1")})
	w.start()
	const prunes = `{automated: {prune: true, selfHeal: true}}`
	place := fmt.Sprintf("server: https://kubernetes.default.svc, namespace: %s", w.target)
	byName := strings.Replace(w.manifest("default", "web", repository, "web", prunes), place, "name: far, namespace: default", 1)
	w.cluster.Apply(t, w.control, byName)
	w.condition("web", v1alpha1.ConditionInvalidSpecError, "there is no cluster far: add it with slipway cluster add NAME, or name one of in-cluster")

	other.refuse("its Secret argocd/far is refused: the field config has no token")
	w.condition("web", v1alpha1.ConditionInvalidSpecError, "the cluster far cannot be used: its Secret argocd/far is refused: the field config has no token")
	other.refuse("")

	other.add()
	w.synced("web", repository.Head(t))
	other.value("one", "1")
	if w.exists("one") {
		t.Error("the object is in the cluster of the Application too")
	}
	client := other.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	must.Get(client.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data": {"value": "drifted"}}`), metav1.PatchOptions{FieldManager: "user"}))(w.t)
	other.value("one", "1")

	repository.Delete(t, "web/two.yaml")
	w.refresh("web")
	other.value("two", "")
	other.set(nil)
	w.condition("web", v1alpha1.ConditionInvalidSpecError, "there is no cluster far")
	other.value("one", "1") // what is there stays

	other.add()
	w.patch("web", `{"spec": {"destination": {"name": null, "server": "`+farServer+`"}}}`)
	w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncSynced || len(app.Status.Conditions) > 0 {
			return errors.New(summaryOf(app))
		}
		return nil
	})
	w.delete("web", finalizer)
	w.gone("web")
	other.value("one", "")
}

// An Application that moves to another cluster is compared with that one: what
// was found here does not count there.
func testMove(t *testing.T, cluster *kubetest.Cluster) {
	w := newWorld(t)
	other := &far{Cluster: cluster, world: w}
	w.options.Destinations = other
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	other.add()
	w.application("web", repository, "web", automated)
	w.value("one", "1")
	w.synced("web", repository.Head(t))
	w.patch("web", `{"spec": {"destination": {"server": "`+farServer+`", "namespace": "default"}, "syncPolicy": {"automated": {"selfHeal": true}}}}`)
	other.value("one", "1")
}
