package appset_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const patience = time.Minute

// scene is a cluster with a Git server, and a controller on it.
type scene struct {
	t       *testing.T
	cluster *kubetest.Cluster
	git     *gittest.Server
	// control and tenant are namespaces.
	control, tenant string

	controller *appset.Controller
	sources    *source.Sources
	// credentials trusts the authorities of servers.
	credentials credential.Store
	gate        kubetest.Gate
	stop        func()
}

// written are the requests since the last call that are not only questions.
func (s *scene) written() []string {
	return slices.DeleteFunc(s.gate.Take(), func(request string) bool {
		return strings.HasPrefix(request, "GET ") || strings.Contains(request, "/events")
	})
}

func resourceOf(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: plural}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, cluster: kubetest.Shared(t), git: gittest.Serve(t)}
	argotest.Install(t, s.cluster)
	s.control, s.tenant = s.cluster.Namespace(t), s.cluster.Namespace(t)
	s.start()
	return s
}

// start runs a controller. It is stopped at the end of the test, or by s.stop.
func (s *scene) start() {
	s.t.Helper()
	cluster := s.cluster.Connect(s.t, kube.Rate(500, 1000), s.gate.Option)
	s.sources = must.Get(source.New(source.Options{Folder: s.t.TempDir(), FetchTimeout: 10 * time.Second, Credentials: &s.credentials}))(s.t)
	program := must.Get(os.Executable())(s.t)
	renderer := must.Get(render.New(render.Options{Command: []string{program, "render-worker"}}))(s.t)
	options := appset.ControllerOptions{
		Generator: renderer,
		Cluster:   cluster, ControlNamespace: s.control, Namespaces: []string{s.control, s.tenant}, Interval: time.Hour,
		Facts:    &appset.ClusterFacts{Cluster: cluster, Namespace: s.control, Sources: s.sources, MaxAge: time.Hour, Pauses: &appset.Pauses{}, Responses: gitprovider.NewResponses()},
		Reporter: kube.Reporter{Controller: "slipway.dev/test", Instance: "one"},
	}
	if testing.Verbose() {
		options.Log = slog.New(slog.NewTextHandler(s.t.Output(), nil))
	}
	s.controller = appset.NewController(options)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.controller.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the controller ended: %v", err)
		}
		_ = renderer.Close()
		_ = s.sources.Close()
	})
	s.t.Cleanup(s.stop)
}

// refresh reports a push.
func (s *scene) refresh(repository *gittest.Repository) {
	s.sources.Forget(repository.URL())
	s.controller.Refresh(webhook.Push{RepositoryURLs: []string{repository.URL()}})
}

func (s *scene) applications(namespace string) dynamic.ResourceInterface {
	return s.cluster.Dynamic.Resource(resourceOf("applications")).Namespace(namespace)
}

func (s *scene) sets(namespace string) dynamic.ResourceInterface {
	return s.cluster.Dynamic.Resource(resourceOf("applicationsets")).Namespace(namespace)
}

// awaits waits until the Applications of a namespace, without those that are
// being deleted, are as wanted: names with commas.
func (s *scene) awaits(namespace, want string) []*unstructured.Unstructured {
	s.t.Helper()
	return kubetest.WaitFor(s.t, s.applications(namespace), metav1.ListOptions{}, patience, func(found []*unstructured.Unstructured) error {
		var names []string
		for _, one := range found {
			if one.GetDeletionTimestamp() == nil {
				names = append(names, one.GetName())
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, ","); got != want {
			return fmt.Errorf("the Applications are %q, want %q", got, want)
		}
		return nil
	})
}

// until waits until an Application is as wanted.
func (s *scene) until(namespace, name string, holds func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	s.t.Helper()
	return kubetest.WaitFor(s.t, s.applications(namespace), kube.Named(name), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no such Application")
		}
		return holds(found[0])
	})[0]
}

// told waits until a condition of the set has the status, with part in its message.
func (s *scene) told(namespace, kind, status, part string) *unstructured.Unstructured {
	s.t.Helper()
	return kubetest.WaitFor(s.t, s.sets(namespace), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no such set")
		}
		conditions, _, _ := unstructured.NestedSlice(found[0].Object, "status", "conditions")
		for _, entry := range conditions {
			condition := entry.(map[string]any)
			message, _ := condition["message"].(string)
			if condition["type"] == kind && condition["status"] == status && strings.Contains(message, part) {
				return nil
			}
		}
		return fmt.Errorf("no condition %s=%s with %q: %v", kind, status, part, conditions)
	})[0]
}

// settled waits until the set has been generated and its status is current.
func (s *scene) settled(namespace string, count int64) {
	s.t.Helper()
	kubetest.WaitFor(s.t, s.sets(namespace), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		for _, one := range found {
			if listed, _, _ := unstructured.NestedInt64(one.Object, "status", "resourcesCount"); listed == count {
				return nil
			}
		}
		return fmt.Errorf("the set does not list %d Applications", count)
	})
}

// askAgain asks by annotation for a set to be generated, and waits until it was.
func (s *scene) askAgain(namespace string) {
	s.t.Helper()
	const annotation = "argocd.argoproj.io/application-set-refresh"
	s.patch(s.sets(namespace), "set", `{"metadata": {"annotations": {"`+annotation+`": "true"}}}`)
	kubetest.WaitFor(s.t, s.sets(namespace), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		if found[0].GetAnnotations()[annotation] != "" {
			return errors.New("the set was not looked at")
		}
		return nil
	})
}

func (s *scene) patch(client dynamic.ResourceInterface, name, text string) {
	s.t.Helper()
	kubetest.Patch(s.t, client, name, text)
}

// listSet is a set with a list: names with commas.
func (s *scene) listSet(namespace, names, more string) {
	s.t.Helper()
	var elements []string
	for name := range strings.SplitSeq(names, ",") {
		elements = append(elements, "{name: "+name+"}")
	}
	s.cluster.Apply(s.t, namespace, `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  goTemplate: true
  generators: [{list: {elements: [`+strings.Join(elements, ", ")+`]}}]
  template:
    metadata: {name: '{{.name}}', labels: {from: set}, annotations: {from: set}}
    spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: '{{.name}}'}}
`+more)
}

// gitSet is a set with a folder for each Application.
func (s *scene) gitSet(namespace, project string, repository *gittest.Repository) {
	s.t.Helper()
	s.cluster.Apply(s.t, namespace, `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  goTemplate: true
  generators: [{git: {repoURL: `+repository.URL()+`, revision: main, directories: [{path: apps/*}]}}]
  template:
    metadata: {name: '{{.path.basename}}'}
    spec: {project: `+project+`, source: {repoURL: `+repository.URL()+`, path: '{{.path.path}}'}, destination: {namespace: x}}
`)
}
