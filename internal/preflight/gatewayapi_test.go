package preflight_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/programs"
)

// conditions writes conditions of an object of Gateway API, as a controller does.
func (s *scene) conditions(plural, namespace, name string, conditions ...metav1.Condition) {
	s.t.Helper()
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Now()
	}
	patch := must.Get(json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}}))(s.t)
	resource := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: plural}
	must.Get(s.cluster.Dynamic.Resource(resource).Namespace(namespace).Patch(s.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"))(s.t)
}

// TestGatewayAPI: the definitions of Gateway API, the GatewayClass and the addresses of
// Gateways are checked, if the cluster or the release has them.
func TestGatewayAPI(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	s := &scene{t: t, cluster: cluster, controller: cluster.Namespace(t), world: preflight.World{Cluster: cluster.Cluster}}
	s.options = preflight.Options{Stage: preflight.Before, Settings: mode.Settings{Runtime: testRuntime, Namespace: s.controller}}
	check := func(want preflight.State, words string) {
		t.Helper()
		results := s.run(preflight.GatewayAPI)
		if want != preflight.Skipped {
			finds(t, results, preflight.GatewayAPI, want, words)
			return
		}
		if results[0].State != want || !strings.Contains(results[0].Message, words) {
			t.Errorf("it is not skipped with %q: %s", words, shown(results[0]))
		}
	}
	object := func(kind, name string) preflight.Object {
		return preflight.Object{GroupVersionKind: schema.GroupVersionKind{Kind: kind}, Name: name}
	}
	check(preflight.Skipped, "the runtime does not use Gateway API")
	s.options.Settings.HTTPRoute.Enabled = true
	check(preflight.Failed, "the cluster does not have its definitions")
	if fix := s.run(preflight.GatewayAPI)[0].Findings[0].Fix; !strings.Contains(fix, "slipway crds upgrade --only gateway") {
		t.Errorf("the fix is %q", fix)
	}
	s.options.Settings.HTTPRoute.Enabled = false
	s.options.Objects = []preflight.Object{object("GatewayClass", "slipway")}
	check(preflight.Failed, "the cluster does not have its definitions")
	s.options.Objects = append(s.options.Objects, object("CustomResourceDefinition", "gateways.gateway.networking.k8s.io"))
	check(preflight.Skipped, "the release installs the definitions")
	s.options.Stage = preflight.After
	check(preflight.Failed, "the cluster does not have its definitions")

	define := func(pattern string) {
		cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", pattern))
	}
	define("gateway.networking.k8s.io_gateways.yaml")
	check(preflight.Failed, "the cluster does not define gatewayclasses, httproutes in v1")
	define("gateway.networking.k8s.io_gatewayclasses.yaml")
	define("gateway.networking.k8s.io_httproutes.yaml")
	check(preflight.Failed, "no GatewayClass has the controller slipway.dev/gateway-controller")
	s.options.Stage = preflight.Before
	clean(t, s.run(preflight.GatewayAPI))
	s.options.Objects = nil
	s.apply("apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: other}\nspec: {controllerName: example.com/other}\n")
	check(preflight.Skipped, "the runtime does not use Gateway API")
	s.apply("apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: slipway}\nspec: {controllerName: slipway.dev/gateway-controller}\n")
	check(preflight.Warned, "no edge has accepted it")
	s.options.Stage = preflight.After
	check(preflight.Failed, "no edge has accepted it")
	s.conditions("gatewayclasses", "", "slipway", metav1.Condition{Type: "Accepted", Status: "False", Reason: "InvalidParameters", Message: "remove spec.parametersRef"})
	check(preflight.Failed, "it is not accepted: remove spec.parametersRef")
	s.conditions("gatewayclasses", "", "slipway", metav1.Condition{Type: "Accepted", Status: "True", Reason: "Accepted"})
	check(preflight.Warned, "the cluster does not define backendtlspolicies, grpcroutes, listenersets, referencegrants, tcproutes, tlsroutes, udproutes in v1")
	define("gateway.networking.k8s.io_[a-u]*.yaml")
	results := s.run(preflight.GatewayAPI)
	clean(t, results)
	if !strings.Contains(results[0].Looked, "release v1.6.") {
		t.Errorf("it inspects %q", results[0].Looked)
	}

	for _, class := range []string{"slipway", "other"} {
		s.apply("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: " + class + "}\nspec: {gatewayClassName: " + class + ", listeners: [{name: http, port: 80, protocol: HTTP}]}\n")
	}
	unassigned := metav1.Condition{Type: "Programmed", Status: "False", Reason: "AddressNotAssigned", Message: "all addresses are taken"}
	s.conditions("gateways", s.controller, "other", unassigned)
	clean(t, s.run(preflight.GatewayAPI))
	s.conditions("gateways", s.controller, "slipway", unassigned)
	check(preflight.Warned, "all addresses are taken")
	if fix := s.run(preflight.GatewayAPI)[0].Findings[0].Fix; !strings.Contains(fix, "edge.gatewayAPI.serviceType") {
		t.Errorf("the fix is %q", fix)
	}
	unassigned.Reason = "AddressNotUsable"
	s.conditions("gateways", s.controller, "slipway", unassigned)
	check(preflight.Warned, "all addresses are taken")
	unassigned.Reason = "Invalid"
	s.conditions("gateways", s.controller, "slipway", unassigned)
	clean(t, s.run(preflight.GatewayAPI))
}
