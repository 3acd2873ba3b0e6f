package reconcile

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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/kube"
)

func resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: plural}
}

// The resources of the kinds.
const (
	applications = "applications"
	projects     = "appprojects"
)

// listTimeout is more than an API server takes for a list.
const listTimeout = 2 * time.Minute

// feed follows the objects of one resource in one namespace, or in all. It
// keeps their names and versions, so that a list that comes later becomes the
// changes since.
type feed struct {
	plural, namespace string
	put               func(*unstructured.Unstructured)
	gone              func(types.NamespacedName, types.UID)
	log               *slog.Logger

	known map[types.NamespacedName]types.UID

	mu      sync.Mutex
	listed  bool
	failure error
	// heard is closed when everything was listed once.
	heard chan struct{}
}

func newFeed(plural, namespace string, log *slog.Logger) *feed {
	return &feed{plural: plural, namespace: namespace, log: log, known: map[types.NamespacedName]types.UID{}, heard: make(chan struct{})}
}

// follow reads until the context is done. An API server that is away, or that
// does not have the kind yet, is asked again for as long as it takes.
func (f *feed) follow(ctx context.Context, cluster *kube.Cluster) {
	client := dynamic.ResourceInterface(cluster.Dynamic.Resource(resource(f.plural)))
	if f.namespace != "" {
		client = cluster.Dynamic.Resource(resource(f.plural)).Namespace(f.namespace)
	}
	requests := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			list, err := client.List(ctx, options)
			f.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := client.Watch(ctx, options)
			f.note(err)
			return events, err
		},
	}
	reflector := cache.NewReflectorWithOptions(requests, &unstructured.Unstructured{}, f, cache.ReflectorOptions{
		Name:    f.plural,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 20, Cap: 4 * time.Second},
	})
	reflector.RunWithContext(klog.NewContext(ctx, kube.QuietLogger(f.log)))
}

// note keeps how the last request ended. A failure that is like the one before
// is not logged again.
func (f *feed) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if kube.FailureKind(err) != kube.FailureKind(f.failure) {
		if err != nil {
			f.log.Warn("cannot read from the cluster", "resource", f.plural, "error", err)
		} else {
			f.log.Info("reading from the cluster again", "resource", f.plural)
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
		return fmt.Errorf("%s have not been read yet", f.plural)
	case apierrors.IsNotFound(f.failure):
		return fmt.Errorf("the cluster has no %s.%s: apply the CustomResourceDefinitions of the chart", f.plural, v1alpha1.Group)
	}
	return fmt.Errorf("%s cannot be read: %w", f.plural, f.failure)
}

// Transformer drops what nobody reads as objects come in.
func (*feed) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if one, ok := object.(*unstructured.Unstructured); ok {
			unstructured.RemoveNestedField(one.Object, "metadata", "managedFields")
		}
		return object, nil
	}
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
	if one, ok := object.(*unstructured.Unstructured); ok {
		f.drop(types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()})
	}
	return nil
}

// Replace is called by the reflector with all objects: at first, and when it has
// missed events.
func (f *feed) Replace(objects []any, _ string) error {
	present := map[types.NamespacedName]struct{}{}
	for _, object := range objects {
		if one, ok := object.(*unstructured.Unstructured); ok {
			present[types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()}] = struct{}{}
			f.take(one)
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
	one, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	name := types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()}
	if before, known := f.known[name]; known && before != one.GetUID() {
		f.drop(name)
	}
	f.known[name] = one.GetUID()
	f.put(one)
}

func (f *feed) drop(name types.NamespacedName) {
	if uid, known := f.known[name]; known {
		delete(f.known, name)
		f.gone(name, uid)
	}
}
