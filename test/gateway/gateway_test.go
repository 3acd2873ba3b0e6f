// Package gateway shows from outside what `slipway edge` makes of a cluster's
// Gateways and HTTPRoutes: the built binary, a real API server with the definitions
// of Gateway API, real sockets.
package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// The addresses of the tests. All of them are local in their private network; the admin
// API is on loopback only.
const (
	edgeAddress = "127.0.0.9"
	pool        = "10.244.120.16/28"
	backendA    = "10.244.120.2"
	backendB    = "10.244.120.3"
	backendC    = "10.244.120.4"
	backendD    = "10.244.120.5"
)

// scene is a cluster with an edge that serves Gateways.
type scene struct {
	*kubetest.Cluster
	namespace string
	edge      *edgeprocess.Replica
}

// newScene starts an edge in a cluster, with a backend for each of the Services a and b,
// which respond with their name. The edge has more arguments if some are given.
func newScene(t *testing.T, cluster *kubetest.Cluster, more ...string) *scene {
	t.Helper()
	s := prepare(t, cluster)
	s.edge = s.startEdge(t, s.EdgeKubeconfig(t, "gateway-role"), append([]string{"--providers.kubernetesGateway.addresses=" + pool, "--providers.kubernetesGateway.services"}, more...)...)
	return s
}

// startEdge starts an edge with more options, and waits until it is ready.
func (s *scene) startEdge(t *testing.T, kubeconfig string, arguments ...string) *edgeprocess.Replica {
	t.Helper()
	edge := edgeprocess.Seat{
		Binary: binary.Path(t), At: netip.MustParseAddr(edgeAddress), Kubeconfig: kubeconfig, Namespace: home, Arguments: arguments,
	}.Start(t)
	edge.AwaitReady(t)
	return edge
}

// shared returns the cluster of all tests that need no other channel than the standard one,
// and no Pods that stay pending.
func shared(t *testing.T) *kubetest.Cluster {
	t.Helper()
	cluster := kubetest.Shared(t)
	standard.Do(func() { define(t, cluster, "standard") })
	return cluster
}

// standard guards the definitions of the shared cluster.
var standard sync.Once

// ownCluster starts a cluster for one test, with the definitions of a channel.
func ownCluster(t *testing.T, channel string) *kubetest.Cluster {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	define(t, cluster, channel)
	return cluster
}

// define adds the definitions of a channel of Gateway API to a cluster.
func define(t *testing.T, cluster *kubetest.Cluster, channel string) {
	t.Helper()
	cluster.DefineFiles(t, filepath.Join(definitions(t), channel, "gateway.networking.k8s.io_[a-u]*.yaml"))
}

// prepare is newScene without an edge.
func prepare(t *testing.T, cluster *kubetest.Cluster) *scene {
	t.Helper()
	s := &scene{Cluster: cluster}
	// Registered first, so that it runs when the edge has ended.
	t.Cleanup(func() { s.clear(t) })
	s.namespace = s.Namespace(t)
	for name, address := range map[string]string{"a": backendA, "b": backendB} {
		s.Serve(t, name, address, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s", name, r.Header.Get("X-Added"))
		}, s.namespace)
	}
	s.Apply(t, "", "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: slipway}\nspec: {controllerName: slipway.dev/gateway-controller}\n")
	return s
}

// clear deletes what the edge of the next test would serve or find: the namespace of the
// test goes later.
func (s *scene) clear(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), programs.Timeout)
	defer cancel()
	kinds := must.Get(s.Client.Discovery().ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String()))(t)
	for _, kind := range kinds.APIResources {
		if kind.Namespaced && !strings.Contains(kind.Name, "/") {
			must.Do(t, s.in(kind.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		}
	}
	must.Do(t, s.Client.NetworkingV1().Ingresses(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must.Do(t, s.Client.CoordinationV1().Leases(home).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	for _, service := range must.Get(s.Client.CoreV1().Services(home).List(ctx, metav1.ListOptions{}))(t).Items {
		must.Do(t, s.Client.CoreV1().Services(home).Delete(ctx, service.Name, metav1.DeleteOptions{}))
	}
	must.Do(t, s.Client.DiscoveryV1().EndpointSlices(home).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// home is the namespace of the edge in the shipped manifests.
const home = "slipway-system"

// definitions returns the folder with the definitions of Gateway API by channel, in the
// module that the edge is built with.
func definitions(t *testing.T) string {
	t.Helper()
	return filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config", "crd")
}

// in returns the client of a resource in the namespace.
func (s *scene) in(resource string) dynamic.ResourceInterface {
	client := s.Dynamic.Resource(gatewayv1.SchemeGroupVersion.WithResource(resource))
	if resource == "gatewayclasses" {
		return client
	}
	return client.Namespace(s.namespace)
}

// read reads an object into a typed one.
func (s *scene) read(ctx context.Context, resource, name string, into any) error {
	object, err := s.in(resource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// programmed waits until a Gateway is programmed as it is written, and returns it.
func (s *scene) programmed(t *testing.T, name string) *gatewayv1.Gateway {
	t.Helper()
	var gateway gatewayv1.Gateway
	programs.Eventually(t, func(ctx context.Context) error {
		gateway = gatewayv1.Gateway{}
		if err := s.read(ctx, "gateways", name, &gateway); err != nil {
			return err
		}
		for _, c := range gateway.Status.Conditions {
			if c.Type == "Programmed" && c.Status == metav1.ConditionTrue && c.ObservedGeneration == gateway.Generation && len(gateway.Status.Addresses) == 1 {
				return nil
			}
		}
		return fmt.Errorf("the Gateway %s is not programmed: %+v", name, gateway.Status)
	})
	return &gateway
}

// accepted waits until a route has the condition Accepted with a status at all of
// our parents.
func (s *scene) accepted(t *testing.T, name string, want metav1.ConditionStatus) *gatewayv1.HTTPRoute {
	t.Helper()
	var route gatewayv1.HTTPRoute
	programs.Eventually(t, func(ctx context.Context) error {
		route = gatewayv1.HTTPRoute{}
		if err := s.read(ctx, "httproutes", name, &route); err != nil {
			return err
		}
		ours := 0
		for _, parent := range route.Status.Parents {
			for _, c := range parent.Conditions {
				if parent.ControllerName == "slipway.dev/gateway-controller" && c.Type == "Accepted" && c.Status == want && c.ObservedGeneration == route.Generation {
					ours++
				}
			}
		}
		if ours == 0 {
			return fmt.Errorf("the route %s has no Accepted=%s: %+v", name, want, route.Status)
		}
		return nil
	})
	return &route
}

// expect waits until a GET of a URL has a status and a body.
func expect(t *testing.T, client *http.Client, url string, status int, body string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		got, text, err := get(ctx, client, url)
		if err == nil && (got != status || !strings.HasPrefix(text, body)) {
			err = fmt.Errorf("%s: %d %q, want %d %q", url, got, text, status, body)
		}
		return err
	})
}

func get(ctx context.Context, client *http.Client, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// newClient returns a client with connections of its own, which follows no redirect.
func newClient(t *testing.T, config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestTwoGateways: two Gateways with listeners on port 80 respond to the same path
// differently, and come and go without touching each other.
func TestTwoGateways(t *testing.T) {
	s := newScene(t, shared(t))
	client := newClient(t, nil)
	for name, backend := range map[string]string{"first": "a", "second": "b"} {
		s.Apply(t, s.namespace, fmt.Sprintf(gatewayAndRoute, name, backend))
	}
	first, second := s.programmed(t, "first"), s.programmed(t, "second")
	s.accepted(t, "first", metav1.ConditionTrue)
	s.accepted(t, "second", metav1.ConditionTrue)
	address := func(gateway *gatewayv1.Gateway) string { return "http://" + gateway.Status.Addresses[0].Value }
	expect(t, client, address(first)+"/same", http.StatusOK, "a added")
	expect(t, client, address(second)+"/same", http.StatusOK, "b added")
	expect(t, client, address(second)+"/moved", http.StatusMovedPermanently, "")
	expect(t, client, address(second)+"/missing", http.StatusInternalServerError, "")
	expect(t, client, "http://"+net.JoinHostPort(edgeAddress, "8080")+"/same", http.StatusNotFound, "")
	programs.Eventually(t, func(context.Context) error {
		if got := s.programmed(t, "first").Status.Listeners[0]; got.AttachedRoutes != 1 || len(got.SupportedKinds) != 2 {
			return fmt.Errorf("the listener has the status %+v", got)
		}
		return nil
	})

	// The connection to the first stays while the second changes and goes.
	s.patch(t, "gateways", "second", `{"spec": {"listeners": [{"name": "http", "port": 81, "protocol": "HTTP"}]}}`)
	expect(t, client, address(second)+":81/same", http.StatusOK, "b added")
	programs.Eventually(t, func(ctx context.Context) error {
		if _, _, err := get(ctx, newClient(t, nil), address(second)+"/same"); err == nil {
			return errors.New("port 80 of the second Gateway is open")
		}
		return nil
	})
	must.Do(t, s.in("gateways").Delete(t.Context(), "second", metav1.DeleteOptions{}))
	programs.Eventually(t, func(ctx context.Context) error {
		if _, _, err := get(ctx, newClient(t, nil), address(second)+":81/same"); err == nil {
			return errors.New("port 81 of the second Gateway is open")
		}
		return nil
	})
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
	if status, text, err := get(ctx, client, address(first)+"/same"); err != nil || status != http.StatusOK || text != "a added" || !reused {
		t.Errorf("the first Gateway responds with %d %q, error %v, on the old connection: %t", status, text, err, reused)
	}
	var class gatewayv1.GatewayClass
	must.Do(t, s.read(t.Context(), "gatewayclasses", "slipway", &class))
	if !slices.Contains(class.Status.SupportedFeatures, gatewayv1.SupportedFeature{Name: "GatewayInfrastructure"}) || len(class.Status.Conditions) != 1 || class.Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("the class has the status %+v", class.Status)
	}
}

// patch merges a text into an object as a user does.
func (s *scene) patch(t *testing.T, resource, name, text string, subresources ...string) {
	t.Helper()
	must.Get(s.in(resource).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "user"}, subresources...))(t)
}

const gatewayAndRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %[1]s}
spec:
  gatewayClassName: slipway
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: %[1]s}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /same}}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Added, value: added}]}}]
    backendRefs: [{name: %[2]s, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /moved}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: example.org, statusCode: 301}}]
  - matches: [{path: {type: PathPrefix, value: /missing}}]
    backendRefs: [{name: missing, port: 80}]
`

// TestHTTPS: a listener has the certificate of its Secret, also after that changed,
// and the status entries of other controllers stay as they are.
func TestHTTPS(t *testing.T) {
	s := newScene(t, shared(t))
	authority := pkitest.NewAuthority(t)
	issue := func() pkitest.Pair { return s.issue(t, authority, "shop", "shop.example.com") }
	first := issue()
	s.Apply(t, s.namespace, httpsGateway)
	gateway := s.programmed(t, "secure")
	s.accepted(t, "secure", metav1.ConditionTrue)
	url := "https://" + net.JoinHostPort(gateway.Status.Addresses[0].Value, "443") + "/"
	request := func(roots *x509.CertPool) {
		client := newClient(t, &tls.Config{RootCAs: roots, ServerName: "shop.example.com"})
		programs.Eventually(t, func(ctx context.Context) error {
			r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
			r.Host = "shop.example.com"
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", response.StatusCode)
			}
			return nil
		})
	}
	// The leaf itself is the root, so that only this certificate is trusted.
	request(first.Pool())
	request(issue().Pool())

	foreign := `{"controllerName": "example.com/other", "parentRef": {"name": "other"}, "conditions": [
		{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}`
	route := s.accepted(t, "secure", metav1.ConditionTrue)
	ours := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(route))(t)
	entries, _, _ := unstructured.NestedSlice(ours, "status", "parents")
	s.patch(t, "httproutes", "secure", `{"status": {"parents": [`+foreign+`]}}`, "status")
	route = s.accepted(t, "secure", metav1.ConditionTrue)
	if len(route.Status.Parents) != len(entries)+1 || route.Status.Parents[0].ControllerName != "example.com/other" {
		t.Errorf("the parents are %+v", route.Status.Parents)
	}
	s.patch(t, "httproutes", "secure", `{"spec": {"hostnames": ["elsewhere.example.com"]}}`)
	route = s.accepted(t, "secure", metav1.ConditionFalse)
	if len(route.Status.Parents) != 2 || route.Status.Parents[0].ControllerName != "example.com/other" {
		t.Errorf("the parents are %+v", route.Status.Parents)
	}
}

// issue puts a new certificate into a Secret.
func (s *scene) issue(t *testing.T, authority *pkitest.Authority, secret, host string) pkitest.Pair {
	t.Helper()
	pair := authority.Issue(t, host)
	s.Apply(t, s.namespace, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}\n",
		secret, base64.StdEncoding.EncodeToString([]byte(pair.Chain)), base64.StdEncoding.EncodeToString([]byte(pair.Key))))
	return pair
}

const httpsGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: secure}
spec:
  gatewayClassName: slipway
  listeners: [{name: https, port: 443, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: shop}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: secure}
spec:
  parentRefs: [{name: secure}]
  hostnames: [shop.example.com]
  rules: [{backendRefs: [{name: a, port: 80}]}]
`
