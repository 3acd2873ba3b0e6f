package watch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// listTimeout is more than an API server takes for a page, or for a list from
// its memory.
const listTimeout = 2 * time.Minute

// feedName is a resource such as ingresses, in a namespace or, when that is
// empty, in all.
type feedName struct{ resource, namespace string }

// source is what one reflector reads, and where to.
type source struct {
	name feedName
	// example is an empty object of the kind.
	example  runtime.Object
	requests requests
	store    func(context.Context) cache.ReflectorStore
	// answered is told of nil, and of answers that deny the kind, and says how
	// long to wait before the next attempt. It is nil where such an answer is
	// like any other.
	answered func(err error) time.Duration
}

// requests are a list and a watch of some kind.
type requests struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// from makes the requests of a client, narrowed by selectors.
func from[L runtime.Object](client kube.Source[L], selected metav1.ListOptions) requests {
	narrow := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = selected.LabelSelector, selected.FieldSelector
		return options
	}
	return requests{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			return client.List(ctx, narrow(options))
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, narrow(options))
		},
	}
}

// follow runs the reflector of a source until the context is done.
func (w *Watcher) follow(ctx context.Context, from source) {
	feed := &feed{source: from, failures: w.failures}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  feed.list,
		WatchFuncWithContext: feed.watch,
	}, from.example, from.store(ctx), cache.ReflectorOptions{
		Name: from.name.resource,
		// The jitter keeps replicas that lost the API server at the same time
		// from coming back at the same time.
		Backoff: &wait.Backoff{Duration: w.pace.first, Factor: 2, Jitter: 0.5, Steps: 20, Cap: w.pace.longest},
	})
	reflector.RunWithContext(klog.NewContext(ctx, kube.QuietLogger(w.options.Log)))
}

// feed makes the requests of a reflector and notes how they end. Its methods are
// called one after the other.
//
// A reflector first asks for a stream that begins with all objects, and asks for
// a list when that fails, because an old API server may not know such streams.
// Where the answer would be the same, the list is not asked for: held has the
// answer for it.
type feed struct {
	source   source
	failures *failures
	held     error
	// notBefore is when the API server may be asked again.
	notBefore time.Time
}

func (f *feed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	beginning := options.SendInitialEvents != nil && *options.SendInitialEvents
	events, err := f.source.requests.watch(ctx, options)
	switch {
	case err == nil && beginning:
		f.note("list", nil)
		f.note("watch", nil)
	case !beginning:
		f.note("watch", err)
	case isFinal(err):
		f.held = err
		// The text only: for some errors the reflector would wait here, where
		// the end of the context does not wake it.
		return nil, errors.New(err.Error())
	}
	return events, err
}

func (f *feed) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := f.held; err != nil {
		f.held = nil
		f.note("list", err)
		return nil, err
	}
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	list, err := f.source.requests.list(ctx, options)
	f.note("list", err)
	return list, err
}

// isFinal reports whether a list would fail as the stream did.
func isFinal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || utilnet.IsConnectionRefused(err)
}

func (f *feed) note(verb string, err error) {
	f.failures.note(f.source.name.resource, attempt{f.source.name.namespace, verb}, err)
	if f.source.answered != nil && (err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		f.notBefore = time.Now().Add(f.source.answered(err))
	}
}

// wait waits until the API server may be asked again.
func (f *feed) wait(ctx context.Context) error {
	return backoff.Sleep(ctx, time.Until(f.notBefore))
}

// mirrored makes a source whose objects go into the Snapshot as they are.
func (w *Watcher) mirrored(kind snapshot.Kind, feed feedName, example runtime.Object, requests requests) source {
	return source{
		name: feed, example: example, requests: requests,
		store: func(ctx context.Context) cache.ReflectorStore {
			m := newMirror(ctx, w.queue, kind)
			m.listed = func() { w.tellListed(ctx, feed) }
			return m
		},
	}
}
