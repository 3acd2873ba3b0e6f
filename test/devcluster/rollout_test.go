package devcluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const ofDemo = discoveryv1.LabelServiceName + "=demo"

// A new version takes over without a request lost: EndpointSlices follow the
// Pods, and a client that follows the slices always finds one that responds.
func TestRollout(t *testing.T) {
	t.Run("addresses of Pods", func(t *testing.T) {
		t.Parallel()
		testRollout(t, kubetest.Shared(t))
	})
	t.Run("address of the host", func(t *testing.T) {
		t.Parallel()
		testRollout(t, kubetest.Start(t, kubetest.HostNetwork()))
	})
}

func testRollout(t *testing.T, cluster *kubetest.Cluster) {
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, demoDeployment("v1"))
	cluster.WaitForRollout(t, namespace, "demo", patience)
	waitForEndpoints(t, cluster, namespace, 2)

	load := startTraffic(t, cluster, namespace)
	load.waitFor(t, "v1")
	cluster.Apply(t, namespace, demoDeployment("v2"))
	cluster.WaitForRollout(t, namespace, "demo", patience)
	endpoints := waitForEndpoints(t, cluster, namespace, 2)
	load.waitFor(t, "v2")
	result := load.stop()

	t.Logf("%d requests, %d of them tried twice", len(result.versions), result.retries)
	if len(result.failures) > 0 {
		t.Errorf("%d requests failed: %v", len(result.failures), errors.Join(result.failures...))
	}
	if first, last := result.versions[0], result.versions[len(result.versions)-1]; first != "v1" || last != "v2" {
		t.Errorf("the first answer is from %s and the last from %s, want v1 and v2", first, last)
	}
	checkEndpoints(t, cluster, namespace, endpoints)
}

// checkEndpoints compares the slices with the Pods and with what
// responds there.
func checkEndpoints(t *testing.T, cluster *kubetest.Cluster, namespace string, endpoints []endpoint) {
	t.Helper()
	pods := must.Get(cluster.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=demo"}))(t)
	newest := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			newest[pod.Name] = pod
		}
	}
	addresses := map[netip.AddrPort]bool{}
	for _, found := range endpoints {
		addresses[found.address] = true
		pod, ok := newest[found.pod]
		if !ok || pod.Spec.Containers[0].Image != "slipway.dev/demo:v2" {
			t.Errorf("endpoint %s is of %s, not a Pod of v2", found.address, found.pod)
		}
		if ip := found.address.Addr().String(); ip != pod.Status.PodIP {
			t.Errorf("endpoint %s is not at the address %s of its Pod", found.address, pod.Status.PodIP)
		}
		if got := mustAsk(t, found.address.String()); got.Version != "v2" || got.Name != found.pod {
			t.Errorf("at %s answers %+v, want v2 of %s", found.address, got, found.pod)
		}
		inNetwork := cluster.PodNetwork.Contains(found.address.Addr())
		onHost := found.address.Addr() == kubetest.HostAddress()
		if inNetwork == onHost || inNetwork != cluster.PodNetwork.IsValid() {
			t.Errorf("endpoint %s belongs neither to the pod network %s nor to the host", found.address, cluster.PodNetwork)
		}
	}
	if len(addresses) != len(endpoints) || len(newest) != len(endpoints) {
		t.Errorf("%d endpoints at %d addresses for %d Pods", len(endpoints), len(addresses), len(newest))
	}
}

// endpoint is one Pod as the slices of a Service show it.
type endpoint struct {
	address netip.AddrPort
	pod     string
	ready   bool
}

func endpointsOf(endpointSlices []*discoveryv1.EndpointSlice) ([]endpoint, error) {
	var found []endpoint
	for _, slice := range endpointSlices {
		for _, described := range slice.Endpoints {
			if len(slice.Ports) != 1 || len(described.Addresses) != 1 || described.TargetRef == nil {
				return nil, fmt.Errorf("slice %s: want one port, one address and a Pod", slice.Name)
			}
			address, err := netip.ParseAddr(described.Addresses[0])
			if err != nil {
				return nil, err
			}
			found = append(found, endpoint{
				address: netip.AddrPortFrom(address, uint16(*slice.Ports[0].Port)),
				pod:     described.TargetRef.Name,
				ready:   described.Conditions.Ready == nil || *described.Conditions.Ready,
			})
		}
	}
	slices.SortFunc(found, func(a, b endpoint) int { return strings.Compare(a.pod, b.pod) })
	return found, nil
}

// waitForEndpoints waits until the Service has exactly that many endpoints,
// all ready.
func waitForEndpoints(t *testing.T, cluster *kubetest.Cluster, namespace string, want int) []endpoint {
	t.Helper()
	var found []endpoint
	kubetest.WaitFor(t, cluster.Client.DiscoveryV1().EndpointSlices(namespace), kube.Labelled(ofDemo), patience,
		func(endpointSlices []*discoveryv1.EndpointSlice) error {
			var err error
			if found, err = endpointsOf(endpointSlices); err != nil {
				return err
			}
			notReady := slices.ContainsFunc(found, func(e endpoint) bool { return !e.ready })
			if len(found) != want || notReady {
				return fmt.Errorf("endpoints are %v, want %d ready ones", found, want)
			}
			return nil
		})
	return found
}

func demoDeployment(version string) string {
	return strings.ReplaceAll(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: demo}
spec:
  replicas: 2
  selector: {matchLabels: {app: demo}}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: demo}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: demo
        image: slipway.dev/demo:VERSION
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: demo}
spec:
  selector: {app: demo}
  ports: [{name: http, port: 80, targetPort: http}]
`, "VERSION", version)
}

// tryOnce sends a request to one endpoint and returns the version that responded.
func tryOnce(ctx context.Context, at endpoint) (string, error) {
	got, err := ask(ctx, at.address.String())
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w", at.pod, at.address, err)
	}
	return got.Version, nil
}
