package shares

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.AllowLeaks()) }

// The hosts lead to the same Pods: by an Ingress, by an HTTPRoute, and by a Service with
// a sticky cookie.
const (
	ingressHost = "ingress.test"
	routeHost   = "route.test"
	stickyHost  = "sticky.test"

	// home is the namespace of the edge in the shipped manifests.
	home = "slipway-system"
)

const manifests = `apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: slipway}
spec: {controller: slipway.dev/ingress-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: main}
spec: {gatewayClassName: slipway, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{name: main}]
  hostnames: [route.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: sticky, annotations: {slipway.dev/sticky-cookie: "stay"}}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: slipway
  rules:
  - {host: ingress.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}
  - {host: sticky.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: sticky, port: {number: 80}}}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "slipway.dev/demo:v1", ports: [{containerPort: 8080}], readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}}]}
`

// world is a cluster with a Deployment of two Pods, and an edge with the rights that are
// shipped for it.
type world struct {
	*kubetest.Cluster
	namespace string
	edge      *edgeprocess.Replica
	gateway   string // address of the Gateway
	releases  dynamic.ResourceInterface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Cluster: kubetest.Start(t)}
	w.Define(t, string(must.Get(v1alpha1.CRDs())(t)))
	w.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config/crd/standard/gateway.networking.k8s.io_[ghr]*.yaml"))
	w.namespace = w.Namespace(t)
	w.Apply(t, w.namespace, manifests)
	w.releases = w.Dynamic.Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: v1alpha1.ResourceRelease}).Namespace(w.namespace)
	w.WaitForRollout(t, w.namespace, "web", programs.Timeout)
	network := w.PodNetwork.Addr().As4()
	network[3] = 252
	w.gateway = netip.AddrFrom4(network).String()
	w.edge = edgeprocess.Seat{
		Binary: binary.Path(t), At: netip.MustParseAddr("127.0.0.9"), Kubeconfig: w.EdgeKubeconfig(t, "gateway-role"), Namespace: home,
		Arguments: []string{"--providers.kubernetesGateway.addresses=" + w.gateway, "--accessLog", "--accessLog.format=json"},
	}.Start(t)
	w.edge.AwaitReady(t)
	return w
}

// revision is the ReplicaSet of an image.
type revision struct{ hash, uid string }

// revisionOf waits for the ReplicaSet of an image.
func (w *world) revisionOf(t *testing.T, image string) revision {
	t.Helper()
	var found revision
	kubetest.WaitFor(t, w.Client.AppsV1().ReplicaSets(w.namespace), metav1.ListOptions{}, programs.Timeout, func(sets []*appsv1.ReplicaSet) error {
		for _, set := range sets {
			if set.Spec.Template.Spec.Containers[0].Image == image {
				found = revision{set.Labels[appsv1.DefaultDeploymentUniqueLabelKey], string(set.UID)}
				return nil
			}
		}
		return errors.New("there is no such ReplicaSet")
	})
	return found
}

// startCanary runs a Pod of the second revision beside the first, and keeps both.
func (w *world) startCanary(t *testing.T) {
	t.Helper()
	patch := `{"spec": {"minReadySeconds": 86400, "progressDeadlineSeconds": 90000, "template": {"spec": {"containers": [{"name": "web", "image": "slipway.dev/demo:v2"}]}}}}`
	must.Get(w.Client.AppsV1().Deployments(w.namespace).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	w.awaitEndpoints(t, 3)
}

// awaitEndpoints waits until the Service has so many ready endpoints.
func (w *world) awaitEndpoints(t *testing.T, want int) {
	t.Helper()
	selected := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"}
	kubetest.WaitFor(t, w.Client.DiscoveryV1().EndpointSlices(w.namespace), selected, programs.Timeout, func(slices []*discoveryv1.EndpointSlice) error {
		ready := 0
		for _, slice := range slices {
			for _, endpoint := range slice.Endpoints {
				if *endpoint.Conditions.Ready {
					ready++
				}
			}
		}
		if ready != want {
			return fmt.Errorf("%d endpoints are ready, want %d", ready, want)
		}
		return nil
	})
}

// deleteCanary takes the Deployment back to its first image, and waits until the Pods of
// the second are gone.
func (w *world) deleteCanary(t *testing.T) {
	t.Helper()
	patch := `{"spec": {"minReadySeconds": 0, "template": {"spec": {"containers": [{"name": "web", "image": "slipway.dev/demo:v1"}]}}}}`
	must.Get(w.Client.AppsV1().Deployments(w.namespace).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	kubetest.WaitFor(t, w.Client.CoreV1().Pods(w.namespace), metav1.ListOptions{}, programs.Timeout, func(pods []*corev1.Pod) error {
		for _, pod := range pods {
			if pod.Spec.Containers[0].Image == "slipway.dev/demo:v2" {
				return errors.New("the canary is still there")
			}
		}
		return nil
	})
}

// release writes the Release, with the weight of the canary.
func (w *world) release(t *testing.T, stable, canary revision, weight int, more string) {
	t.Helper()
	w.Apply(t, w.namespace, fmt.Sprintf(`apiVersion: slipway.dev/v1alpha1
kind: Release
metadata: {name: web}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  revisions:
  - {name: stable, hash: %s, replicaSet: %s, weight: %d}
  - {name: canary, hash: %s, replicaSet: %s, weight: %d, commit: 0123456789abcdef}
%s`, stable.hash, stable.uid, 100-weight, canary.hash, canary.uid, weight, more))
}

// awaitShares waits until the edge has a weight for the canary, or none at all for -1. It
// returns how long that took.
func (w *world) awaitShares(t *testing.T, weight int) time.Duration {
	t.Helper()
	began := time.Now()
	programs.Eventually(t, func(ctx context.Context) error {
		text, err := programs.Fetch(ctx, "http://"+w.edge.On(edgeprocess.AdminPort)+"/api/v1/table?format=json")
		if err != nil {
			return err
		}
		var table struct {
			Backends []struct {
				ID      struct{ Name string }
				Release *struct{ Canary struct{ Weight int } }
			}
		}
		if err := json.Unmarshal([]byte(text), &table); err != nil {
			return err
		}
		for _, backend := range table.Backends {
			switch {
			case (backend.Release == nil) != (weight < 0):
				return fmt.Errorf("backend %s has a release: %v", backend.ID.Name, backend.Release != nil)
			case backend.Release != nil && backend.Release.Canary.Weight != weight:
				return fmt.Errorf("the weight is %d, want %d", backend.Release.Canary.Weight, weight)
			}
		}
		if len(table.Backends) < 2 {
			return errors.New("there are no backends")
		}
		return nil
	})
	return time.Since(began)
}

// awaitEdge waits until the edge knows the Pods of a revision.
func (w *world) awaitEdge(t *testing.T, of revision) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		text, err := programs.Fetch(ctx, "http://"+w.edge.On(edgeprocess.AdminPort)+"/api/v1/table?format=json")
		if err == nil && (!strings.Contains(text, of.hash) || !strings.Contains(text, `"canary"`)) {
			err = errors.New("the edge does not know the revision")
		}
		return err
	})
}

// counts returns the counts of the running Release, by revision.
func (w *world) counts(t *testing.T) map[string]trafficreport.RevisionTraffic {
	t.Helper()
	text := must.Get(programs.Fetch(t.Context(), "http://"+w.edge.On(edgeprocess.AdminPort)+trafficreport.ReleasesPath))(t)
	var report trafficreport.ReleaseReport
	must.Do(t, json.Unmarshal([]byte(text), &report))
	counts := map[string]trafficreport.RevisionTraffic{}
	for _, release := range report.Releases {
		for _, revision := range release.Revisions {
			// The revision of before its first Pod has no requests.
			if revision.Hash != "pending" {
				counts[revision.Name] = revision
			}
		}
	}
	return counts
}

// client sends requests to the edge, with kept connections and cookies of its own.
type client struct {
	*http.Client
	headers map[string]string
}

func (w *world) client(t *testing.T) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{Client: &http.Client{Transport: transport, Timeout: programs.Timeout}, headers: map[string]string{}}
}

// get returns the version that responds, such as v1, and the cookie that it sets.
func (c *client) get(ctx context.Context, w *world, host string) (version, cookie string, err error) {
	at := w.edge.On(edgeprocess.PlainPort)
	if host == routeHost {
		at = w.gateway + ":80"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/", nil)
	if err != nil {
		return "", "", err
	}
	request.Host = host
	request.Header.Set("Accept", "application/json")
	for name, value := range c.headers {
		request.Header.Set(name, value)
	}
	response, err := c.Do(request)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", "", err
	}
	var echo struct{ Version string }
	if response.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	if cookies := response.Cookies(); len(cookies) > 0 {
		cookie = cookies[0].Name + "=" + cookies[0].Value
	}
	err = json.Unmarshal(text, &echo)
	return echo.Version, cookie, err
}

// versions counts the versions of n responses.
func (c *client) versions(t *testing.T, w *world, host string, n int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range n {
		version, _, err := c.get(t.Context(), w, host)
		must.Do(t, err)
		counts[version]++
	}
	return counts
}
