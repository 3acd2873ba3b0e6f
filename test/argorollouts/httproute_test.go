package argorollouts

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	own "slipway.dev/slipway/internal/gitops/rollout"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// TestHTTPRoute: our own controller splits requests by the weights of an HTTPRoute, which
// the edge serves, and leads those with a header to the canary from one step to another.
// No request fails.
func TestHTTPRoute(t *testing.T) {
	w := newRouteWorld(t)
	stop := w.load(t)
	w.Apply(t, w.namespace, strings.ReplaceAll(routedRollout, "VERSION", "v2"))
	w.awaitStep(t, 2)
	w.awaitShare(t, "v2", 20)
	w.awaitHeader(t, "v2")
	w.promote(t)
	w.awaitStep(t, 5)
	w.awaitShare(t, "v2", 60)
	w.awaitHeader(t, "v1")
	kubetest.Patch(t, w.rollouts, "demo", `{"status":{"abort":true}}`)
	w.awaitPhase(t, "Degraded")
	w.awaitShare(t, "v2", 0)
	kubetest.Patch(t, w.rollouts, "demo", `{"status":{"abort":false}}`)
	w.awaitStep(t, 2)
	w.awaitHeader(t, "v2")
	kubetest.Patch(t, w.rollouts, "demo", `{"status":{"promoteFull":true}}`)
	w.awaitPhase(t, "Healthy")
	w.awaitShare(t, "v2", 100)
	stop()
}

// awaitHeader waits until all of 20 requests with the header reach a version. By the
// weight alone that is most improbable for either.
func (w *world) awaitHeader(t *testing.T, version string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		all := true
		for range 20 {
			got, err := w.version(ctx, "always")
			if err != nil {
				return err
			}
			all = all && got == "v2"
		}
		if all != (version == "v2") {
			return errors.New("the header does not lead to " + version)
		}
		return nil
	})
}

// newRouteWorld starts a cluster with an edge that serves a Gateway, our controller and a
// Rollout, and waits until the first version is served.
func newRouteWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Cluster: kubetest.Start(t)}
	w.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", "gateway.networking.k8s.io_[a-u]*.yaml"))
	w.Define(t, string(must.Get(v1alpha1.CRDs())(t)))
	w.namespace = w.Namespace(t)
	w.rollouts = w.Dynamic.Resource(v1alpha1.RolloutResource()).Namespace(w.namespace)
	w.Apply(t, w.namespace, routeObjects)
	edge := edgeprocess.Seat{
		Binary: binary.Path(t), At: netip.MustParseAddr("127.0.0.9"), Kubeconfig: w.Kubeconfig, Namespace: w.namespace,
		Arguments: []string{"--providers.kubernetesGateway.addresses=10.244.120.16/28"},
	}.Start(t)
	edge.AwaitReady(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport, Timeout: time.Minute}

	controller := own.New(own.Options{Cluster: w.Connect(t), Namespaces: []string{w.namespace}, Log: slog.New(slog.NewTextHandler(programs.Logged(t, "the controller"), nil))})
	ctx, stop := context.WithCancel(context.Background())
	programs.Background(t, func() { _ = controller.Run(ctx) }, stop)
	w.Apply(t, w.namespace, strings.ReplaceAll(routedRollout, "VERSION", "v1"))
	w.awaitPhase(t, "Healthy")
	w.edge = w.gatewayAddress(t)
	w.awaitShare(t, "v1", 100)
	return w
}

// gatewayAddress waits for the address of the Gateway.
func (w *world) gatewayAddress(t *testing.T) string {
	t.Helper()
	gateways := w.Dynamic.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}).Namespace(w.namespace)
	address := ""
	programs.Eventually(t, func(ctx context.Context) error {
		gateway, err := gateways.Get(ctx, "demo", metav1.GetOptions{})
		if err != nil {
			return err
		}
		addresses, _, _ := unstructured.NestedSlice(gateway.Object, "status", "addresses")
		if len(addresses) == 0 {
			return errors.New("the Gateway has no address")
		}
		address, _ = addresses[0].(map[string]any)["value"].(string)
		return nil
	})
	return address
}

const routeObjects = services + `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: demo}
spec: {gatewayClassName: slipway, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: demo}
spec:
  parentRefs: [{name: demo}]
  hostnames: [demo.test]
  rules: [{backendRefs: [{name: stable, port: 80}, {name: canary, port: 80, weight: 0}]}]
`

const routedRollout = canary + `      trafficRouting:
        managedRoutes: [{name: preview}]
        plugins: {argoproj-labs/gatewayAPI: {httpRoutes: [{name: demo, useHeaderRoutes: true}]}}
      steps:
      - {setWeight: 20}
      - {setHeaderRoute: {name: preview, match: [{headerName: X-Canary, headerValue: {exact: always}}]}}
      - {pause: {}}
      - {setWeight: 60}
      - {setHeaderRoute: {name: preview}}
      - {pause: {}}
`
