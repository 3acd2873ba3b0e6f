package appset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/kube"
)

func setResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "applicationsets"}
}

func applicationResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "applications"}
}

func projectResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "appprojects"}
}

func secretResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

// listTimeout is more than an API server takes for a list.
const listTimeout = 2 * time.Minute

// feed follows the objects of one resource in one namespace, or in all. It keeps
// their names, so that a list that comes later becomes the changes since.
type feed struct {
	resource  schema.GroupVersionResource
	namespace string
	selector  string
	// metadataOnly: the content is not read.
	metadataOnly bool
	put          func(*unstructured.Unstructured)
	gone         func(types.NamespacedName)
	log          *slog.Logger

	known map[types.NamespacedName]struct{}

	mu      sync.Mutex
	listed  bool
	failure error
	// heard is closed when everything was listed once.
	heard chan struct{}
}

func (c *Controller) newFeed(resource schema.GroupVersionResource, namespace, selector string, put func(*unstructured.Unstructured), gone func(types.NamespacedName)) *feed {
	return &feed{
		resource: resource, namespace: namespace, selector: selector, put: put, gone: gone, log: c.options.Log,
		known: map[types.NamespacedName]struct{}{}, heard: make(chan struct{}),
	}
}

// follow reads until the context is done. An API server that is away, or that
// does not have the kind yet, is asked again for as long as it takes.
func (f *feed) follow(ctx context.Context, cluster *kube.Cluster) {
	list, start := f.requests(cluster)
	requests := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			options.LabelSelector = f.selector
			found, err := list(ctx, options)
			f.note(err)
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = f.selector
			events, err := start(ctx, options)
			f.note(err)
			return events, err
		},
	}
	var example runtime.Object = &unstructured.Unstructured{}
	if f.metadataOnly {
		example = &metav1.PartialObjectMetadata{}
	}
	reflector := cache.NewReflectorWithOptions(requests, example, f, cache.ReflectorOptions{
		Name:    f.resource.Resource,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 20, Cap: 4 * time.Second},
	})
	reflector.RunWithContext(klog.NewContext(ctx, kube.QuietLogger(f.log)))
}

type (
	listRequest  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watchRequest func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

func (f *feed) requests(cluster *kube.Cluster) (listRequest, watchRequest) {
	if f.metadataOnly {
		client := cluster.Metadata.Resource(f.resource).Namespace(f.namespace)
		return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		}, client.Watch
	}
	client := cluster.Dynamic.Resource(f.resource).Namespace(f.namespace)
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	}, client.Watch
}

// note keeps how the last request ended. A failure that is like the one before
// is not logged again.
func (f *feed) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if (err == nil) != (f.failure == nil) {
		if err != nil {
			f.log.Warn("cannot read from the cluster", "resource", f.resource.Resource, "error", err)
		} else {
			f.log.Info("reading from the cluster again", "resource", f.resource.Resource)
		}
	}
	f.failure = err
}

// ready says what is missing, if not everything was read once.
func (f *feed) ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.listed:
		return nil
	case f.failure == nil:
		return fmt.Errorf("%s have not been read yet", f.resource.Resource)
	case apierrors.IsNotFound(f.failure):
		return fmt.Errorf("the cluster has no %s: apply the CustomResourceDefinitions of the chart", f.resource.GroupResource())
	}
	return fmt.Errorf("%s cannot be read: %w", f.resource.Resource, f.failure)
}

// Add is called by the reflector for a new object.
func (f *feed) Add(object any) error {
	f.take(object)
	return nil
}

// Update is called by the reflector for a changed object.
func (f *feed) Update(object any) error {
	f.take(object)
	return nil
}

// Delete is called by the reflector for an object that is gone.
func (f *feed) Delete(object any) error {
	if one, ok := object.(metav1.Object); ok {
		f.drop(types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()})
	}
	return nil
}

// Replace is called by the reflector with all objects: at first, and when it has
// missed events.
func (f *feed) Replace(objects []any, _ string) error {
	present := map[types.NamespacedName]struct{}{}
	for _, object := range objects {
		if one, ok := object.(metav1.Object); ok {
			present[types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()}] = struct{}{}
			f.take(object)
		}
	}
	for name := range f.known {
		if _, still := present[name]; !still {
			f.drop(name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.listed {
		f.listed = true
		close(f.heard)
	}
	return nil
}

// Resync is never asked for.
func (*feed) Resync() error { return nil }

func (f *feed) take(object any) {
	switch one := object.(type) {
	case *unstructured.Unstructured:
		f.known[types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()}] = struct{}{}
		unstructured.RemoveNestedField(one.Object, "metadata", "managedFields")
		f.put(one)
	case *metav1.PartialObjectMetadata:
		f.known[types.NamespacedName{Namespace: one.Namespace, Name: one.Name}] = struct{}{}
		told := &unstructured.Unstructured{Object: map[string]any{}}
		told.SetNamespace(one.Namespace)
		told.SetName(one.Name)
		told.SetResourceVersion(one.ResourceVersion)
		f.put(told)
	}
}

func (f *feed) drop(name types.NamespacedName) {
	if _, known := f.known[name]; known {
		delete(f.known, name)
		f.gone(name)
	}
}
