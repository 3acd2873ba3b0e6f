package release_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	wait = 2 * time.Minute
	// soon is the time of an operation that is meant to fail, and long enough for
	// everything before that on a busy machine.
	soon = 30 * time.Second
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// world is a cluster of its own, because definitions and roles are of the cluster,
// and a release in it.
type world struct {
	cluster *kubetest.Cluster
	place   release.Place
	client  *release.Client

	mu    sync.Mutex
	lines []string
}

func newWorld(t *testing.T, namespace string) *world {
	t.Helper()
	t.Parallel() // it mostly waits
	return openWorld(t, kubetest.Start(t, kubetest.WithoutNode()), namespace)
}

func openWorld(t *testing.T, cluster *kubetest.Cluster, namespace string) *world {
	t.Helper()
	w := &world{cluster: cluster, place: release.Place{Release: "slipway-runtime", Namespace: namespace}}
	client, err := release.Open(cluster.Cluster, w.place, w.hear)
	must.Do(t, err)
	w.client = client
	return w
}

func (w *world) hear(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
}

// told returns everything that was reported.
func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

func ownChart(t *testing.T) *release.Chart {
	t.Helper()
	archive, err := charts.Archive(charts.Runtime)
	must.Do(t, err)
	chart, err := release.ReadChart(archive)
	must.Do(t, err)
	return chart
}

// alone are the values of a runtime without a platform, whose hook is off: nothing
// runs its image here.
func alone() map[string]any {
	return map[string]any{
		"global":    map[string]any{"platform": map[string]any{"enabled": false}, "runtime": map[string]any{"name": "prod"}},
		"installer": map[string]any{"skipValidation": true},
		"edge":      map[string]any{"replicas": float64(1)},
	}
}

// everything is the name of each object of the cluster that the tests care for.
func (w *world) everything(t *testing.T) map[string]bool {
	t.Helper()
	lists, err := w.cluster.Client.Discovery().ServerPreferredResources()
	must.Do(t, err)
	all := map[string]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must.Do(t, err)
		for _, kind := range list.APIResources {
			if !strings.Contains(strings.Join(kind.Verbs, " "), "list") || passing(kind.Kind) {
				continue
			}
			found, err := w.cluster.Metadata.Resource(version.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			must.Do(t, err)
			for _, one := range found.Items {
				if one.Namespace == "default" || strings.HasPrefix(one.Namespace, "kube-") {
					continue // a new cluster makes objects there for a while
				}
				all[fmt.Sprintf("%s %s/%s", kind.Kind, one.Namespace, one.Name)] = true
			}
		}
	}
	return all
}

// passing are kinds that come and go by themselves.
func passing(kind string) bool {
	return kind == "Event" || kind == "Lease" || kind == "EndpointSlice" || kind == "Endpoints" || kind == "ComponentStatus" || kind == "APIService" || kind == "ControllerRevision" || kind == "FlowSchema"
}

// eventually waits until something holds.
func (w *world) eventually(t *testing.T, holds func(context.Context) bool) {
	t.Helper()
	programs.Until(t, "it comes", func() bool { return holds(t.Context()) })
}
