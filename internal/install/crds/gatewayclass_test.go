package crds_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/install/crds"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestChartDefinitions: with the rights of the chart's Job the definitions of Gateway API
// and the GatewayClass are created in a cluster without them. What exists stays, and so do
// newer definitions of the release.
func TestChartDefinitions(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode()) // definitions have no namespace
	namespace := cluster.Namespace(t)
	place := crds.Place{Name: "slipway-runtime", Namespace: namespace}
	values := map[string]any{
		"global":    map[string]any{"platform": map[string]any{"enabled": false}, "runtime": map[string]any{"name": "prod"}},
		"installer": map[string]any{"skipValidation": true},
		"edge":      map[string]any{"gatewayAPI": map[string]any{"enabled": true, "definitions": true, "className": "public"}},
	}
	made := must.Get(must.Get(chart.Load("../../../charts/gitops-runtime"))(t).Render(t.Context(), values, chart.Release{Name: place.Name, Namespace: namespace}))(t)
	var arguments []string
	for _, hook := range made.Hooks {
		if hook.GetKind() == "Job" {
			containers, _, _ := unstructured.NestedSlice(hook.Object, "spec", "template", "spec", "containers")
			arguments, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
			continue
		}
		cluster.Apply(t, namespace, string(must.Get(yaml.Marshal(hook.Object))(t)))
	}
	if want := []string{"crds", "upgrade", "--only=gateway", "--release=slipway-runtime", "--namespace=" + namespace, "--gateway-class=public"}; !slices.Equal(arguments, want) {
		t.Errorf("the arguments of the Job are %q", arguments)
	}
	for _, object := range made.Objects {
		if object.GetKind() == "GatewayClass" {
			t.Error("Helm would refuse the GatewayClass, whose kind is not defined yet")
		}
	}

	options := crds.Options{Cluster: cluster.Connect(t, kubetest.Account(namespace, "slipway-definitions")), Release: place, Only: []crds.Family{crds.GatewayAPI}}
	upgrade := func() (changed []string) {
		t.Helper()
		must.Do(t, crds.Upgrade(t.Context(), options, func(name string) { changed = append(changed, name) }))
		must.Do(t, crds.EnsureGatewayClass(t.Context(), options, "public"))
		return changed
	}
	if changed := upgrade(); len(changed) != 10 {
		t.Errorf("%q are created", changed)
	}
	classes := cluster.Dynamic.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses"})
	class := must.Get(classes.Get(t.Context(), "public", metav1.GetOptions{}))(t)
	if class.GetAnnotations()["meta.helm.sh/release-name"] != place.Name || class.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("the GatewayClass has the marks %v, %v", class.GetLabels(), class.GetAnnotations())
	}
	if err := crds.EnsureGatewayClass(t.Context(), options, "other"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("another class: %v", err)
	}
	newer := `{"metadata": {"annotations": {"gateway.networking.k8s.io/bundle-version": "v9.0.0"}}, "spec": {"names": {"categories": ["newer"]}}}`
	must.Get(cluster.Dynamic.Resource(kube.DefinitionResource()).Patch(t.Context(), "gateways.gateway.networking.k8s.io", types.MergePatchType, []byte(newer), metav1.PatchOptions{}))(t)
	if changed := upgrade(); len(changed) > 0 {
		t.Errorf("the second time %q changed", changed)
	}
}
