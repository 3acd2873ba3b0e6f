package progressive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

// usagePerPod is the target of the HorizontalPodAutoscaler, in bytes of memory.
const usagePerPod = 100 << 20

// Kubernetes' own autoscaler scales the Deployment up and down at each share of a release.
// Both revisions have their Pods each time, and no request fails.
func TestAutoscaler(t *testing.T) {
	if !isLong() {
		t.Skip("it takes two minutes: make progressive")
	}
	w := newWorld(t)
	metrics := w.serveMetrics(t)
	metrics.replicas.Store(2)
	w.cluster.Apply(t, w.target, fmt.Sprintf(`apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 6
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
  metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: "%d"}}}]
`, usagePerPod))
	clients, _ := w.load(t, http.MethodGet, 200)
	w.neverWithout(t, 2)
	before, image := clients.counts(), w.good()
	commit := w.push(t, revision{image: image, policy: "steps: [{weight: 10, pause: true}, {weight: 50, pause: true}]"})
	for _, weight := range []int32{10, 50} {
		w.share(t, weight)
		for _, replicas := range []int32{4, 2} {
			metrics.replicas.Store(replicas)
			w.scaled(t, image, weight, replicas)
		}
		w.promote(t)
	}
	w.promoted(t, clients, commit, image, before)
	w.scaled(t, image, 100, 2)
}

// promote ends a pause of the release.
func (w *world) promote(t *testing.T) {
	t.Helper()
	releases := schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourceRelease}
	kubetest.Patch(t, w.cluster.Dynamic.Resource(releases).Namespace(w.target), "web",
		fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, slipway.AnnotationReleaseRequest, fmt.Sprintf("%s/%s", slipway.ReleasePromote, time.Now().Format(time.RFC3339Nano))))
}

// scaled waits until the autoscaler has scaled the Deployment and each revision has its
// Pods: the stable one all, the canary its part.
func (w *world) scaled(t *testing.T, canary string, weight, replicas int32) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		scale, err := w.deployments().GetScale(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		all, wanted := replicas, (replicas*weight+99)/100
		if weight < 100 {
			all += wanted
		}
		if scale.Spec.Replicas != replicas || scale.Status.Replicas != all || scale.Status.Selector != "app=web" {
			return fmt.Errorf("the scale is %+v with the status %+v, want %d of %d Pods", scale.Spec, scale.Status, replicas, all)
		}
		if ready, err := w.ready(ctx, canary); ready != wanted {
			return errors.Join(fmt.Errorf("%d Pods of the canary are ready, want %d", ready, wanted), err)
		}
		return w.scalerWorks(ctx)
	})
}

// scalerWorks returns a condition of the autoscaler that does not hold.
func (w *world) scalerWorks(ctx context.Context) error {
	scaler, err := w.cluster.Client.AutoscalingV2().HorizontalPodAutoscalers(w.target).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	holds := map[autoscalingv2.HorizontalPodAutoscalerConditionType]bool{}
	for _, condition := range scaler.Status.Conditions {
		holds[condition.Type] = condition.Status == corev1.ConditionTrue
	}
	if !holds[autoscalingv2.AbleToScale] || !holds[autoscalingv2.ScalingActive] {
		return fmt.Errorf("the conditions of the autoscaler are %+v", scaler.Status.Conditions)
	}
	return nil
}

// podMetrics is the API of a metrics server: the memory of all Pods together is what a number
// of replicas should have.
type podMetrics struct {
	world    *world
	replicas atomic.Int32
}

// serveMetrics registers a metrics server with the API server, which forwards to it.
func (w *world) serveMetrics(t *testing.T) *podMetrics {
	t.Helper()
	metrics := &podMetrics{world: w}
	server := httptest.NewTLSServer(metrics)
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	w.cluster.Apply(t, "kube-system", fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: metrics}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: kube-system, name: metrics, port: %s}}
`, port))
	return metrics
}

// ServeHTTP responds with the resources of the API, or with the metrics of the Pods that a
// selector selects.
func (m *podMetrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/apis/metrics.k8s.io/v1beta1/namespaces/"+m.world.target+"/pods" {
		_, _ = w.Write([]byte(`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [
			{"name": "pods", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]}]}`))
		return
	}
	pods, err := m.world.cluster.Client.CoreV1().Pods(m.world.target).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning
	})
	items := []any{}
	for i := range running {
		items = append(items, map[string]any{
			"metadata": map[string]string{"name": running[i].Name, "namespace": m.world.target}, "timestamp": time.Now().Format(time.RFC3339), "window": "1s",
			"containers": []any{map[string]any{"name": "web", "usage": map[string]string{"memory": fmt.Sprint(int(m.replicas.Load()) * usagePerPod / len(running))}}},
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items})
}
