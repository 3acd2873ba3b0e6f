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

// feedName identifies a source: a resource such as ingresses, in a namespace or,
// if that is empty, in all.
type feedName struct{ resource, namespace string }

// source configures one reflector.
type source struct {
	name feedName
	// example is an empty object of the kind.
	example  runtime.Object
	requests kube.ListWatcher
	store    func(context.Context) cache.ReflectorStore
	// observe is called with nil after a success and with responses that deny the
	// kind, and returns the delay before the next request. It is nil if a denial
	// is an error like others.
	observe func(err error) time.Duration
	// optional is set for a kind that a cluster may do without. That it is missing is
	// no failure: an object that names one is refused, with the reason.
	optional bool
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

// feed delays the requests of a source after a denial, and records how they end.
// Its methods are called one after the other.
type feed struct {
	source   source
	failures *failures
	// notBefore is the earliest time of the next request.
	notBefore time.Time
}

// watch starts a watch after the delay of a denial.
func (f *feed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	return f.source.requests.Watch(ctx, options)
}

// list lists after the delay of a denial.
func (f *feed) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	return f.source.requests.List(ctx, options)
}

// note records an outcome, and takes the delay of the next request from observe.
func (f *feed) note(verb string, err error) {
	failure := err
	if f.source.optional && apierrors.IsNotFound(err) {
		failure = nil
		f.failures.noteUndefined(f.source.name.resource)
	}
	f.failures.note(f.source.name.resource, attempt{f.source.name.namespace, verb}, failure)
	if f.source.observe != nil && (err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		f.notBefore = time.Now().Add(f.source.observe(err))
	}
}

// wait blocks until notBefore.
func (f *feed) wait(ctx context.Context) error {
	return backoff.Sleep(ctx, time.Until(f.notBefore))
}

// mirrorSource returns a source whose objects become events as they are.
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
