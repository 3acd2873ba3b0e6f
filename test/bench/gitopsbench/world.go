package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/test/bench/ground"
)

const (
	// controlNamespace holds the Applications and argocd-secret, from which the
	// agent reads the webhook secret.
	controlNamespace = "argocd"
	webhookSecret    = "a secret of a benchmark"
	// perNamespace is the number of Applications that share a namespace.
	perNamespace = 50
	parallel     = 8
)

// namespaceOf returns the destination namespace of an Application.
func namespaceOf(app int) string { return fmt.Sprintf("fleet-%03d", app/perNamespace) }

// applications returns the resource of Applications for the dynamic clients.
func applications() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
}

// world is the cluster with its Applications, and a cache of their status that
// watch keeps up to date.
type world struct {
	*ground.Cluster
	repository *repository
	sources    form
	apps       int

	mu    sync.Mutex
	state map[string]appState // by name
	// news is closed and replaced at every change, which wakes all waiters. mu
	// guards it together with state.
	news chan struct{}
}

// appState holds the status fields of an Application that phases wait for.
type appState struct {
	sync, health, revision, phase, synced, message string
}

// newWorld creates the definitions, the namespaces, the webhook secret and the
// Applications. All exist before the agent starts, so creating them is not
// measured.
func newWorld(ctx context.Context, cluster *ground.Cluster, repository *repository, sources form, apps int) (*world, error) {
	w := &world{Cluster: cluster, repository: repository, sources: sources, apps: apps, state: map[string]appState{}, news: make(chan struct{})}
	if err := w.define(ctx); err != nil {
		return nil, err
	}
	for i := range (apps + perNamespace - 1) / perNamespace {
		if err := w.createNamespace(ctx, namespaceOf(i*perNamespace)); err != nil {
			return nil, err
		}
	}
	if err := w.createNamespace(ctx, controlNamespace); err != nil {
		return nil, err
	}
	// The agent accepts only webhooks that are signed with this secret.
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-secret"},
		StringData: map[string]string{"webhook.github.secret": webhookSecret},
	}
	if _, err := w.Client.CoreV1().Secrets(controlNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	group, inGroup := errgroup.WithContext(ctx)
	// The limit keeps thousands of concurrent requests from the API server.
	group.SetLimit(parallel)
	for app := range apps {
		group.Go(func() error { return w.createApplication(inGroup, app) })
	}
	return w, group.Wait()
}

// define applies the CustomResourceDefinitions of the chart and waits until
// they are served. The path is relative to the root of the repository.
func (w *world) define(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join("charts", "gitops-runtime", "crds", "argoproj.io_*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("the definitions are missing: run this from the root of the repository")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := w.Define(ctx, kube.Target{Manager: name}, string(text)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// createNamespace creates an empty namespace.
func (w *world) createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := w.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	return err
}

// createApplication creates an Application with automated sync, prune and
// self-heal. All follow the main branch of one repository and differ in the
// path.
func (w *world) createApplication(ctx context.Context, app int) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"name": nameOf(app), "namespace": controlNamespace},
		"spec": map[string]any{
			"project":     "default",
			"source":      w.sources.sourceOf(app, w.repository.url),
			"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": namespaceOf(app)},
			"syncPolicy":  map[string]any{"automated": map[string]any{"prune": true, "selfHeal": true}},
		},
	}}
	_, err := w.Dynamic.Resource(applications()).Namespace(controlNamespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

// watch keeps the cached status up to date until ctx is done. It does not
// resume a watch that the API server ends: it returns an error, which aborts
// the run.
func (w *world) watch(ctx context.Context) error {
	client := w.Dynamic.Resource(applications()).Namespace(controlNamespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	// Applications that do not change after the list have no event, so the list
	// counts too.
	for i := range list.Items {
		w.note(&list.Items[i])
	}
	stream, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		if object, ok := event.Object.(*unstructured.Unstructured); ok {
			w.note(object)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the watch of the benchmark ended")
}

// note stores the status of one Application and wakes the waiters. The first
// condition, if there is one, replaces the message of the operation.
func (w *world) note(object *unstructured.Unstructured) {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, append([]string{"status"}, fields...)...)
		return value
	}
	state := appState{
		sync: text("sync", "status"), health: text("health", "status"), revision: text("sync", "revision"),
		phase: text("operationState", "phase"), synced: text("operationState", "syncResult", "revision"),
		message: text("operationState", "message"),
	}
	if conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions"); len(conditions) > 0 {
		state.message = fmt.Sprint(conditions[0])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state[object.GetName()] = state
	close(w.news)
	w.news = make(chan struct{})
}

// until waits until at least want Applications satisfy is. On a timeout the
// error names one that does not, with its status.
func (w *world) until(ctx context.Context, want int, is func(appState) bool) error {
	for {
		w.mu.Lock()
		count, other := 0, ""
		for name, state := range w.state {
			if is(state) {
				count++
			} else {
				other = name
			}
		}
		// The channel is taken under the same lock as the counts, so no change
		// between them and the select below is missed.
		state, news := w.state[other], w.news
		w.mu.Unlock()
		if count >= want {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d; %s is %+v", context.Cause(ctx), count, want, other, state)
		}
	}
}
