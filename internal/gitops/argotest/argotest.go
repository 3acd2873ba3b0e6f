// Package argotest runs Applications in tests: their kinds, render workers, and
// an engine that reconciles them. It may be imported from _test.go files only.
package argotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// workerArgument makes the test binary a render worker.
const workerArgument = "render-worker"

// Main is the TestMain of packages that render: the test binary is its own
// render worker. Otherwise run runs the tests.
func Main(m *testing.M, run func(*testing.M)) {
	if len(os.Args) < 2 || os.Args[1] != workerArgument {
		run(m)
		return
	}
	if err := render.ServeWorker(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// installed has the clusters with Argo CD's kinds. Their schemas are large: to
// apply them again takes the API server as long as the rest of a short test.
var installed sync.Map

// Install defines Argo CD's kinds, and waits until the cluster serves them.
func Install(t testing.TB, cluster *kubetest.Cluster) {
	t.Helper()
	if _, done := installed.Load(cluster); done {
		return
	}
	text := must.Get(v1alpha1.CRDs())(t)
	cluster.Define(t, string(text))
	installed.Store(cluster, true)
}

// Applications returns the Applications of a namespace.
func Applications(cluster *kubetest.Cluster, namespace string) dynamic.ResourceInterface {
	return cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(namespace)
}

// WaitFor watches an Application until the condition holds, and returns it.
func WaitFor(t testing.TB, applications dynamic.ResourceInterface, name string, timeout time.Duration, holds func(*v1alpha1.Application) error) *v1alpha1.Application {
	t.Helper()
	var last *v1alpha1.Application
	kubetest.WaitFor(t, applications, kube.Named(name), timeout, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no such Application")
		}
		var err error
		if last, _, err = v1alpha1.Decode(found[0].Object); err != nil {
			return err
		}
		return holds(last)
	})
	return last
}

// Engine is a reconciler with its cache, as it runs in an agent.
type Engine struct {
	*reconcile.Controller
	// Stop ends it before the end of the test.
	Stop func()
}

// EngineOptions are the parts of an Engine that tests choose. Settings gets
// the other parts from Start.
type EngineOptions struct {
	Cluster  *kube.Cluster
	Sources  source.Options
	Rendered func(render.Outcome)
	Settings reconcile.Options
}

// Start runs an Engine until the end of the test.
func Start(t testing.TB, options EngineOptions) *Engine {
	t.Helper()
	program := must.Get(os.Executable())(t)
	renderer := must.Get(render.New(render.Options{Command: []string{program, workerArgument}, Observe: options.Rendered}))(t)
	options.Sources.Indexes = renderer
	sources := must.Get(source.New(options.Sources))(t)
	kinds := live.NewKinds(options.Cluster)
	// The cache reports changes before the controller exists.
	var controller atomic.Pointer[reconcile.Controller]
	cache := live.New(live.Options{Cluster: options.Cluster, Kinds: kinds, Changed: func(label string, key tracking.Key) {
		if running := controller.Load(); running != nil {
			running.Changed(label, key)
		}
	}})
	settings := options.Settings
	settings.Cluster, settings.Sources, settings.Renderer = options.Cluster, sources, renderer
	settings.Live, settings.Kinds, settings.Applier = cache, kinds, apply.New(options.Cluster, kinds)
	running := must.Get(reconcile.New(settings))(t)
	controller.Store(running)
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = cache.Run(ctx) })
	parts.Go(func() { _ = running.Run(ctx) })
	stop := sync.OnceFunc(func() {
		cancel()
		parts.Wait()
		_ = renderer.Close()
		_ = sources.Close()
	})
	t.Cleanup(stop)
	return &Engine{Controller: running, Stop: stop}
}
