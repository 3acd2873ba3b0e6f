package kube

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"slipway.dev/slipway/internal/backoff"
)

// listTimeout is more than an API server takes for a page, or for a list from
// its memory.
const listTimeout = 2 * time.Minute

// The verbs that a Reflector sends, as RBAC spells them.
const (
	VerbList  = "list"
	VerbWatch = "watch"
)

// ListWatcher sends the requests of a Reflector.
type ListWatcher struct {
	List  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// NewListWatcher returns the requests of a client, narrowed by the selectors of
// selected. The other options are the reflector's.
func NewListWatcher[L runtime.Object](source Source[L], selected metav1.ListOptions) ListWatcher {
	narrow := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = selected.LabelSelector, selected.FieldSelector
		return options
	}
	return ListWatcher{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return source.List(ctx, narrow(options))
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return source.Watch(ctx, narrow(options))
		},
	}
}

// Reflector keeps a store up to date with the objects of one resource. It wraps
// client-go's reflector, which lists, watches from there, and starts over when
// the watch is lost. It is used without the informer around it: an informer
// retries every half a minute in the end, and cannot be stopped meanwhile.
type Reflector struct {
	// Name is for logs and metrics of client-go; the resource is a good one.
	Name string
	// Example is an empty object of the kind, which events are checked against.
	Example  runtime.Object
	Requests ListWatcher
	// Store gets the objects. Its methods are called one after the other, and
	// hold up the watch while they run.
	Store cache.ReflectorStore
	// Backoff is the delay between attempts while the API server fails. Only its
	// JitterUp is used.
	Backoff backoff.Policy
	// PageSize is the number of objects in one page of a list; 0 leaves it to
	// client-go.
	PageSize int64
	// Observe is called with the outcome of each request, nil for success. A
	// stream that begins with all objects counts as a list and a watch. Observe
	// may be nil.
	Observe func(verb string, err error)
	// Log gets what client-go logs, on the level debug; nil discards it.
	Log *slog.Logger
}

// Run lists and watches until the context is done. An API server that is away,
// or that does not have the kind yet, is retried for as long as it takes.
func (r *Reflector) Run(ctx context.Context) {
	requests := &reflectorRequests{Reflector: r, running: ctx}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  requests.list,
		WatchFuncWithContext: requests.watch,
	}, r.Example, r.Store, cache.ReflectorOptions{
		Name: r.Name,
		Backoff: &wait.Backoff{
			Duration: r.Backoff.First, Factor: float64(max(r.Backoff.Factor, 2)),
			Jitter: r.Backoff.JitterUp, Steps: 20, Cap: r.Backoff.Longest,
		},
	})
	reflector.WatchListPageSize = r.PageSize
	log := logr.Discard()
	if r.Log != nil {
		log = QuietLogger(r.Log)
	}
	reflector.RunWithContext(klog.NewContext(ctx, log))
}

// reflectorRequests sends the requests of a client-go reflector and observes how
// they end. Its methods are called one after the other.
//
// A reflector first requests a stream that begins with all objects (KEP-3157,
// WatchList), and falls back to a list when that fails, because an old API
// server may not support such streams. Where the list would fail in the same
// way it is not sent: held is its result.
type reflectorRequests struct {
	*Reflector
	running context.Context
	held    error
}

func (r *reflectorRequests) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	events, err := r.Requests.Watch(ctx, options)
	switch {
	case initial && err == nil:
		r.observe(VerbList, nil)
		r.observe(VerbWatch, nil)
	case !initial:
		r.observe(VerbWatch, err)
	case failsAsList(err):
		r.held = err
		// The text only: for some errors the reflector would wait here, where
		// the end of the context does not wake it.
		return nil, errors.New(err.Error())
	}
	return events, err
}

func (r *reflectorRequests) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := r.held; err != nil {
		r.held = nil
		r.observe(VerbList, err)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := r.Requests.List(ctx, options)
	r.observe(VerbList, err)
	return list, err
}

// observe reports an outcome, unless the Reflector was stopped: then nothing has
// failed.
func (r *reflectorRequests) observe(verb string, err error) {
	if r.Observe != nil && (err == nil || r.running.Err() == nil) {
		r.Observe(verb, err)
	}
}

// failsAsList reports whether a list would fail as the stream did.
func failsAsList(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || utilnet.IsConnectionRefused(err)
}
