package live_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
)

// While the API server is away nothing is lost and nothing is deleted. What
// happened meanwhile is seen afterwards, also when the API server has forgotten
// its history. The failure is logged once.
func TestServerAway(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, configMap("goes", "first", shop)+configMap("stays", "first", shop)+configMap("changes", "first", shop))
	way := &kubetest.Gate{}
	w := follow(t, connect(t, cluster, way.Option))
	w.mustFollow(configMaps)
	w.took()

	way.Close()
	cluster.Kill(t)
	w.until("it fails", func() bool { return strings.Count(w.log.String(), "cached objects stay") > 0 })
	cluster.Restart(t)
	remove(t, maps1(cluster, namespace), "goes")
	cluster.Apply(t, namespace, configMap("changes", "second", shop)+configMap("comes", "first", shop))
	if heard := w.took(); len(heard) > 0 || len(w.namesOf(shop, namespace)) != 3 {
		t.Errorf("heard %q, and there are %q, want that all stays as it is", heard, w.namesOf(shop, namespace))
	}
	w.mustFollow(configMaps) // what is known is known
	way.Open()
	w.until("what was missed is seen", func() bool {
		return w.Get(mapKey(namespace, "goes")) == nil && w.data(namespace, "changes", "value") == "second" && w.data(namespace, "comes", "value") == "first"
	})
	for _, name := range []string{"goes", "changes", "comes"} {
		w.until(name+" is told", func() bool { return w.hears(shop.Label() + " ConfigMap " + name) })
	}
	if w.hears(shop.Label() + " ConfigMap stays") {
		t.Error("an object that did not change was told of")
	}
	if w.Last(mapKey(namespace, "goes")) == nil {
		t.Error("the last state of what went is not known")
	}
	if failures := strings.Count(w.log.String(), "cached objects stay"); failures > 2 {
		t.Errorf("the failure was logged %d times:\n%s", failures, w.log)
	}
}
