package live_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const benchDeployment = `---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: bench-%d
  labels: {slipway.dev/app: %s, app.kubernetes.io/name: web}
  annotations: {argocd.argoproj.io/tracking-id: "bench:apps/Deployment:bench/bench-%d"}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      containers:
      - name: web
        image: registry.example.test/web:1
        ports: [{name: http, containerPort: 8080}]
        env: [{name: COLOR, value: blue}]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
        readinessProbe: {httpGet: {path: /ready, port: http}}
`

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkMemory reports how many bytes a cached Deployment with managedFields
// takes, with all that is around it, and how many a decoded one takes.
func BenchmarkMemory(b *testing.B) {
	cluster := kubetest.Shared(b)
	namespace := cluster.Namespace(b)
	const count = 400
	fill(b, cluster, namespace, count)
	for b.Loop() {
		before := heap()
		w := follow(b, connect(b, cluster), namespace)
		w.mustFollow(deployments)
		cached := heap()
		objects, text := w.Count()
		if objects != count {
			b.Fatalf("there are %d objects", objects)
		}
		decoded := make([]*unstructured.Unstructured, 0, count)
		for _, object := range w.Of(shop) {
			decoded = append(decoded, object.Unstructured())
		}
		full := heap()
		b.ReportMetric(float64(cached-before)/count, "cached-B/object")
		b.ReportMetric(float64(text)/count, "text-B/object")
		b.ReportMetric(float64(full-cached)/count, "decoded-B/object")
		runtime.KeepAlive(decoded)
		w.stop()
	}
}

func fill(b *testing.B, cluster *kubetest.Cluster, namespace string, count int) {
	b.Helper()
	connected := connect(b, cluster)
	var manifests strings.Builder
	for i := range count {
		fmt.Fprintf(&manifests, benchDeployment, i, shop.Label(), i)
	}
	must.Get(connected.Apply(b.Context(), target(namespace), manifests.String()))(b)
}

// BenchmarkUnstructured is what it costs to look at one object.
func BenchmarkUnstructured(b *testing.B) {
	cluster := kubetest.Shared(b)
	namespace := cluster.Namespace(b)
	fill(b, cluster, namespace, 1)
	w := follow(b, connect(b, cluster), namespace)
	w.mustFollow(deployments)
	object := w.Of(shop)[0]
	b.ReportAllocs()
	for b.Loop() {
		if object.Unstructured().GetName() == "" {
			b.Fatal("it has no name")
		}
	}
}

// BenchmarkFollow is what it costs to ask for what is followed already.
func BenchmarkFollow(b *testing.B) {
	w := follow(b, connect(b, kubetest.Shared(b)))
	kinds := []schema.GroupKind{configMaps, deployments, {Kind: "Service"}, {Kind: "ServiceAccount"}}
	w.mustFollow(kinds...)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, w.Follow(ctx, kinds))
		if w.Get(tracking.Key{Kind: "ConfigMap", Name: "none"}) != nil {
			b.Fatal("what is not there was found")
		}
	}
}
