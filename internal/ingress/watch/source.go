package watch

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// feedName is a resource such as ingresses, in a namespace or, when that is
// empty, in all.
type feedName struct{ resource, namespace string }

// source is what one reflector reads, and where to.
type source struct {
	name feedName
	// example is an empty object of the kind.
	example  runtime.Object
	requests kube.ListWatcher
	store    func(context.Context) cache.ReflectorStore
	// observe is told of nil, and of answers that deny the kind, and says how
	// long to wait before the next attempt. It is nil where such an answer is
	// like any other.
	observe func(err error) time.Duration
}

// follow runs the reflector of a source until the context is done.
func (w *Watcher) follow(ctx context.Context, from source) {
	feed := &feed{source: from, failures: w.failures}
	reflector := kube.Reflector{
		Name: from.name.resource, Example: from.example, Store: from.store(ctx), Backoff: w.timing.backoff(), Log: w.options.Log,
		Requests: kube.ListWatcher{List: feed.list, Watch: feed.watch},
		Observe:  feed.note,
	}
	reflector.Run(ctx)
}

// feed delays the requests of a source after it was denied, and notes how they
// end. Its methods are called one after the other.
type feed struct {
	source   source
	failures *failures
	// notBefore is when the API server may be asked again.
	notBefore time.Time
}

func (f *feed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	return f.source.requests.Watch(ctx, options)
}

func (f *feed) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	return f.source.requests.List(ctx, options)
}

func (f *feed) note(verb string, err error) {
	f.failures.note(f.source.name.resource, attempt{f.source.name.namespace, verb}, err)
	if f.source.observe != nil && (err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		f.notBefore = time.Now().Add(f.source.observe(err))
	}
}

// wait waits until the API server may be asked again.
func (f *feed) wait(ctx context.Context) error {
	return backoff.Sleep(ctx, time.Until(f.notBefore))
}

// mirrorSource makes a source whose objects go into the Snapshot as they are.
func (w *Watcher) mirrorSource(kind snapshot.Kind, feed feedName, example runtime.Object, requests kube.ListWatcher) source {
	return source{
		name: feed, example: example, requests: requests,
		store: func(ctx context.Context) cache.ReflectorStore {
			m := newMirror(ctx, w.queue, kind)
			m.listed = func() { w.queueListed(ctx, feed) }
			return m
		},
	}
}
