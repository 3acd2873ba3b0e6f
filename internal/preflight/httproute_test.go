package preflight_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

const gatewayCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: PLURAL.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: https://github.com/kubernetes-sigs/gateway-api/pull/2997}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL, singular: SINGULAR}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// gatewayScene is a cluster with the Gateway API, and a runtime with an HTTPRoute.
func gatewayScene(t *testing.T) *scene {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	s := &scene{t: t, cluster: cluster, controller: cluster.Namespace(t)}
	for kind, plural := range map[string]string{"Gateway": "gateways", "HTTPRoute": "httproutes"} {
		s.apply(strings.NewReplacer("KIND", kind, "PLURAL", plural, "SINGULAR", strings.ToLower(kind)).Replace(gatewayCRD))
		served := cluster.Dynamic.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: plural})
		kubetest.WaitFor(t, served, metav1.ListOptions{}, patience, func([]*unstructured.Unstructured) error { return nil })
	}
	issuer := pkitest.NewAuthority(t)
	serveTLS(t, issued(t, issuer, testHost, 60*24*time.Hour), router(testRuntime))
	s.world = preflight.World{Cluster: cluster.Cluster, Roots: issuer.Pool, Resolver: serveDNS(t, map[string]netip.Addr{testHost + ".": frontAddress()})}
	s.options = preflight.Options{Stage: preflight.Before, Settings: mode.Settings{Runtime: testRuntime, Namespace: s.controller, HTTPRoute: mode.HTTPRouteSettings{
		Enabled: true, Hostnames: []string{testHost}, ParentRefs: []mode.ParentRef{{Name: "public"}},
	}}}
	return s
}

// report writes a status as a controller would.
func (s *scene) report(plural, name, status string) {
	s.t.Helper()
	var value any
	must.Do(s.t, json.Unmarshal([]byte(status), &value))
	patch, err := json.Marshal(map[string]any{"status": value})
	must.Do(s.t, err)
	resource := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: plural}
	if _, err := s.cluster.Dynamic.Resource(resource).Namespace(s.controller).Patch(s.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		s.t.Fatal(err)
	}
}

// TestHTTPRoute: R123: with the Gateway API the Gateway and the HTTPRoute are
// looked at, before and after the install.
func TestHTTPRoute(t *testing.T) {
	s := gatewayScene(t)
	results := s.run()
	finds(t, results, preflight.IngressClass, preflight.Failed, "it does not exist")
	s.apply("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: public}\nspec: {gatewayClassName: any, listeners: []}\n")
	results = s.run()
	finds(t, results, preflight.IngressClass, preflight.Failed, "Programmed")
	finds(t, results, preflight.ExternalAddress, preflight.Failed, "it has no address")
	s.report("gateways", "public", `{"addresses": [{"value": "`+frontAddress().String()+`"}], "conditions": [{"type": "Programmed", "status": "True"}]}`)
	clean(t, s.run())

	s.options.Stage = preflight.After
	finds(t, s.run(), preflight.RouteResources, preflight.Failed, "kind: HTTPRoute")
	text, err := mode.YAML(mode.Objects(s.options.Settings, mode.HTTPRoute)...)
	must.Do(t, err)
	s.apply(strings.Replace(text, "port: 80", "port: 81", 1))
	finds(t, s.run(), preflight.RouteResources, preflight.Failed, "does not lead")
	s.apply(text)
	finds(t, s.run(), preflight.RouteResources, preflight.Failed, "no Gateway has accepted it")
	s.report("httproutes", mode.RouterService, `{"parents": [{"parentRef": {"name": "public"}, "conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "False"}]}]}`)
	finds(t, s.run(), preflight.RouteResources, preflight.Failed, "ResolvedRefs")
	s.report("httproutes", mode.RouterService, `{"parents": [{"parentRef": {"name": "public"}, "conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]}]}`)
	clean(t, s.run())
}

// TestIngressRoutes: R91: an Ingress that leads a prefix elsewhere, or has another
// class, is reported with its expected form.
func TestIngressRoutes(t *testing.T) {
	cluster := kubetest.Shared(t)
	s := &scene{t: t, cluster: cluster, controller: cluster.Namespace(t), world: preflight.World{Cluster: cluster.Cluster}}
	s.options = preflight.Options{Stage: preflight.After, Settings: mode.Settings{
		Runtime: testRuntime, Namespace: s.controller, Ingress: mode.IngressSettings{Enabled: true, Hosts: []string{testHost, "192.0.2.9"}, ClassName: "some"},
	}}
	finds(t, s.run(preflight.RouteResources), preflight.RouteResources, preflight.Failed, "it does not exist")
	text, err := mode.YAML(mode.Objects(s.options.Settings, mode.Ingress)...)
	must.Do(t, err)
	for _, tt := range []struct{ from, to, want string }{
		{"path: /workflows", "path: /flows", "prod.example.com/workflows"},
		{"ingressClassName: some", "ingressClassName: other", "ingressClassName is not some"},
		{"            name: internal-router", "            name: elsewhere", "prod.example.com/webhooks"},
		{"pathType: Prefix", "pathType: Exact", "prod.example.com/webhooks"},
		{"number: 80", "number: 8080", "prod.example.com/webhooks"},
		{"  - http:", "  - host: other.example.com\n    http:", "192.0.2.9/webhooks"},
	} {
		changed := strings.Replace(text, tt.from, tt.to, 1)
		if changed == text {
			t.Fatalf("there is no %q in\n%s", tt.from, text)
		}
		s.apply(changed)
		finds(t, s.run(preflight.RouteResources), preflight.RouteResources, preflight.Failed, tt.want)
	}
	s.apply(text)
	clean(t, s.run(preflight.RouteResources))
}
