package live_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const patience = 45 * time.Second

// connect connects as the agent does, by KUBECONFIG.
func connect(t testing.TB, cluster *kubetest.Cluster, options ...kube.Option) *kube.Cluster {
	t.Helper()
	return cluster.Connect(t, append([]kube.Option{kube.Rate(-1, 0)}, options...)...)
}

// world is a Cache and what it reports.
type world struct {
	*live.Cache
	t     testing.TB
	kinds *live.Kinds
	log   *programs.Output
	stop  func()

	mu    sync.Mutex
	heard []string
}

// follow starts a Cache. It is stopped at the end of the test, and must stop
// soon.
func follow(t testing.TB, cluster *kube.Cluster, namespaces ...string) *world {
	t.Helper()
	w := &world{t: t, kinds: live.NewKinds(cluster), log: &programs.Output{}}
	w.Cache = live.New(live.Options{
		Cluster: cluster, Kinds: w.kinds, Namespaces: namespaces,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Changed: func(label string, key tracking.Key) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.heard = append(w.heard, label+" "+key.Kind+" "+key.Name)
		},
	})
	t.Cleanup(func() {
		if t.Failed() {
			programs.ShowLog(t, "the cache", w.log.String())
		}
	})
	w.Hurry(20*time.Millisecond, 100*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the cache ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the cache is still running a minute after its context was done")
		}
	})
	t.Cleanup(w.stop)
	return w
}

// mustFollow follows kinds, and fails the test otherwise.
func (w *world) mustFollow(kinds ...schema.GroupKind) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	must.Do(w.t, w.Follow(ctx, kinds))
}

// took returns what was reported so far, and forgets it.
func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard := w.heard
	w.heard = nil
	return heard
}

func (w *world) hears(line string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.heard, line)
}

func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	programs.Until(w.t, what, condition)
}

// data is a value of a cached ConfigMap, or nothing.
func (w *world) data(namespace, name, key string) string {
	object := w.Get(mapKey(namespace, name))
	if object == nil {
		return ""
	}
	value, _, _ := unstructured.NestedString(object.Unstructured().Object, "data", key)
	return value
}

func mapKey(namespace, name string) tracking.Key {
	return tracking.Key{Kind: "ConfigMap", Namespace: namespace, Name: name}
}

var (
	configMaps  = schema.GroupKind{Kind: "ConfigMap"}
	deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	roles       = schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}
	shop        = tracking.App{Namespace: "argocd", Name: "shop"}
	bank        = tracking.App{Namespace: "argocd", Name: "bank"}
)

// configMap is a manifest with the label of an Application, or without.
func configMap(name, value string, app ...tracking.App) string {
	labels := ""
	if len(app) > 0 {
		labels = "  labels: {slipway.dev/app: " + app[0].Label() + "}\n"
	}
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n%sdata: {value: %s}\n", name, labels, value)
}

func maps1(cluster *kubetest.Cluster, namespace string) dynamic.ResourceInterface {
	return cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
}

func remove(t testing.TB, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	must.Do(t, objects.Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func target(namespace string) kube.Target {
	return kube.Target{Namespace: namespace, Manager: "slipway"}
}
