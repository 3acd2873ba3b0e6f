// Package feed watches the objects of one resource for a controller that keeps
// a store of its own: it reports each object that is new or changed, and each
// that is gone, also after a gap in the watch. It stores names and UIDs only.
package feed

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
)

// Options select what is watched, and the handlers of events.
type Options struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for all.
	Namespace string
	// Selector is one of labels, empty for all objects.
	Selector string
	// MetadataOnly: the content is not read, and Put gets the names only.
	MetadataOnly bool
	// Put handles an object that is new or changed. It owns the object, which
	// has no managedFields.
	Put func(*unstructured.Unstructured)
	// Gone handles the deletion of an object.
	Gone func(types.NamespacedName, types.UID)
	Log  *slog.Logger
}

// Feed is one resource in one namespace, or in all. It keeps names and
// identities, so that a list that comes later becomes the changes since.
type Feed struct {
	Options
	known map[types.NamespacedName]types.UID

	mu         sync.Mutex
	listed     bool
	failure    error
	listedOnce chan struct{}
}

// New makes a Feed. It sends nothing before Follow.
func New(options Options) *Feed {
	return &Feed{Options: options, known: map[types.NamespacedName]types.UID{}, listedOnce: make(chan struct{})}
}

// Listed is closed when everything was listed once.
func (f *Feed) Listed() <-chan struct{} { return f.listedOnce }

// Follow watches until the context is done. An API server that is away, or that
// does not have the kind yet, is retried with backoff for as long as it takes.
func (f *Feed) Follow(ctx context.Context, cluster *kube.Cluster) {
	reflector := kube.Reflector{
		Name: f.Resource.Resource, Store: (*store)(f), Log: f.Log,
		Example:  &unstructured.Unstructured{},
		Requests: kube.NewListWatcher(cluster.Dynamic.Resource(f.Resource).Namespace(f.Namespace), kube.Labelled(f.Selector)),
		Backoff:  backoff.Policy{First: 200 * time.Millisecond, Longest: 4 * time.Second, JitterUp: 0.5},
		Observe:  func(_ string, err error) { f.note(err) },
	}
	if f.MetadataOnly {
		reflector.Example = &metav1.PartialObjectMetadata{}
		reflector.Requests = kube.NewListWatcher(cluster.Metadata.Resource(f.Resource).Namespace(f.Namespace), kube.Labelled(f.Selector))
	}
	reflector.Run(ctx)
}

// note keeps how the last request ended. A failure that is like the one before
// is not logged again.
func (f *Feed) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if kube.FailureKind(err) != kube.FailureKind(f.failure) {
		if err != nil {
			f.Log.Warn("cannot read from the cluster", "resource", f.Resource.Resource, "error", err)
		} else {
			f.Log.Info("reading from the cluster again", "resource", f.Resource.Resource)
		}
	}
	f.failure = err
}

// Ready returns an error until everything was listed once.
func (f *Feed) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.listed:
		return nil
	case f.failure == nil:
		return fmt.Errorf("%s have not been read yet", f.Resource.Resource)
	case apierrors.IsNotFound(f.failure):
		return fmt.Errorf("the cluster has no %s: apply the CustomResourceDefinitions of the chart", f.Resource.GroupResource())
	}
	return fmt.Errorf("%s cannot be read: %w", f.Resource.Resource, f.failure)
}
