package render

import (
	"fmt"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// smallDirectory is a Deployment, a Service, a ServiceAccount and an Ingress.
func smallDirectory() Request {
	files := map[string]string{}
	for i, kind := range []string{"apps/v1 Deployment", "v1 Service", "v1 ServiceAccount", "networking.k8s.io/v1 Ingress"} {
		var version, name string
		fmt.Sscanf(kind, "%s %s", &version, &name)
		files[fmt.Sprintf("app/%d.yaml", i)] = fmt.Sprintf(
			"apiVersion: %s\nkind: %s\nmetadata:\n  name: app\n  labels: {app: app}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: app}}\n", version, name)
	}
	source := v1alpha1.ApplicationSource{RepoURL: "https://git.example/a.git", Path: "app"}
	return Request{App: "app", Namespace: "default", Inputs: []Input{{Source: source, Store: tree.NewMemory(files), Path: "app"}}}
}

func smallKustomization() Request {
	source := v1alpha1.ApplicationSource{RepoURL: "https://git.example/a.git", Path: "app"}
	store := tree.NewMemory(map[string]string{
		"app/kustomization.yaml": "resources: [../base]\nnamePrefix: a-\n", "base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": oneObject,
	})
	return Request{App: "app", Inputs: []Input{{Source: source, Store: store, Path: "app"}}}
}

func benchmarkRenders(b *testing.B, request Request) {
	r := must.Get(New(Options{}))(b)
	defer r.Close()
	b.RunParallel(func(loop *testing.PB) {
		for loop.Next() {
			if _, err := r.Render(b.Context(), request); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renders/s")
	r.mu.Lock()
	defer r.mu.Unlock()
	for worker := range r.all {
		b.ReportMetric(float64(worker.memory())/(1<<20), "MiB/worker")
	}
}

func BenchmarkDirectory(b *testing.B) { benchmarkRenders(b, smallDirectory()) }

func BenchmarkHelm(b *testing.B) { benchmarkRenders(b, chartRequest(oneObject)) }

func BenchmarkKustomize(b *testing.B) { benchmarkRenders(b, smallKustomization()) }

// BenchmarkStart is how long a worker takes until it could render, and what it
// takes of memory then.
func BenchmarkStart(b *testing.B) {
	options := Options{}.withDefaults()
	for b.Loop() {
		worker := must.Get(startProcess(b.Context(), &options, b.TempDir()))(b)
		b.ReportMetric(float64(worker.memory())/(1<<20), "MiB/worker")
		worker.kill()
		<-worker.exited
	}
}

// BenchmarkHolds is what an application costs whose files did not change.
func BenchmarkHolds(b *testing.B) {
	r := must.Get(New(Options{}))(b)
	defer r.Close()
	request := smallDirectory()
	result := must.Get(r.Render(b.Context(), request))(b)
	for b.Loop() {
		if !result.Holds(request) {
			b.Fatal("it does not hold")
		}
	}
}
