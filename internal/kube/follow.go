package kube

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/backoff"
)

// followBackoff is short, because a person or a start of the program often
// waits for what is followed.
var followBackoff = backoff.Policy{First: 100 * time.Millisecond, Longest: time.Second, JitterUp: 0.1}

// Follow calls changed with all selected objects, in no order, when they have
// been listed and after each change, until the context is done. Changes in quick
// succession may be seen as one. changed must not modify the objects.
//
// Requests that fail are retried. observe is called with the outcome of each
// request, nil for success; it may be nil. The returned error is the cause of the
// context's end and, if the last request failed, the reason.
func Follow[T runtime.Object, L runtime.Object](
	ctx context.Context, source Source[L], selected metav1.ListOptions, observe func(error), changed func([]T),
) error {
	follow := newFollower[T](source, selected)
	follow.observe = observe
	defer follow.start(ctx)()
	for {
		select {
		case <-follow.changed:
			changed(follow.objects())
		case <-ctx.Done():
			return follow.explain(context.Cause(ctx))
		}
	}
}

// follower keeps a copy of the selected objects up to date and signals each
// change. It is the store of its Reflector.
type follower[T runtime.Object] struct {
	cache.Store
	reflector Reflector
	observe   func(error)

	// changed holds at most one signal: its receiver reads all objects. The
	// first signal comes when all objects are listed.
	changed chan struct{}
	// failure is the error of the last request, nil after a success.
	failure atomic.Pointer[error]
}

func newFollower[T runtime.Object, L runtime.Object](source Source[L], selected metav1.ListOptions) *follower[T] {
	follow := &follower[T]{
		Store:   cache.NewStore(cache.MetaNamespaceKeyFunc),
		changed: make(chan struct{}, 1),
	}
	// The errors are in failure; a log of the reflector would only repeat them.
	follow.reflector = Reflector{
		Example:  reflect.New(reflect.TypeFor[T]().Elem()).Interface().(runtime.Object),
		Requests: NewListWatcher(source, selected),
		Store:    follow,
		Backoff:  followBackoff,
		Observe:  follow.note,
	}
	return follow
}

// start runs the reflector until the context is done or the returned function is
// called, which waits for its end.
func (f *follower[T]) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.reflector.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (f *follower[T]) objects() []T {
	stored := f.List()
	objects := make([]T, 0, len(stored))
	for _, object := range stored {
		objects = append(objects, object.(T))
	}
	return objects
}

func (f *follower[T]) note(_ string, err error) {
	if f.observe != nil {
		f.observe(err)
	}
	if err == nil {
		f.failure.Store(nil)
		return
	}
	f.failure.Store(&err)
}

// Add is called by the reflector for a new object.
func (f *follower[T]) Add(object any) error {
	defer f.signal()
	return f.Store.Add(object)
}

// Update is called by the reflector for a changed object.
func (f *follower[T]) Update(object any) error {
	defer f.signal()
	return f.Store.Update(object)
}

// Delete is called by the reflector for an object that is gone.
func (f *follower[T]) Delete(object any) error {
	defer f.signal()
	return f.Store.Delete(object)
}

// Replace is called by the reflector with all objects: at first, and when it
// has missed events.
func (f *follower[T]) Replace(objects []any, version string) error {
	defer f.signal()
	return f.Store.Replace(objects, version)
}

func (f *follower[T]) signal() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}
