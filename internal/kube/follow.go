package kube

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// follower keeps a copy of the selected objects up to date and tells of each
// change. It is a store for client-go's reflector, without the informer
// around it: that one retries only each half a minute in the end, and cannot
// be stopped meanwhile.
type follower[T runtime.Object] struct {
	cache.Store
	reflector *cache.Reflector

	// changed holds one signal at most: whoever takes it looks at everything.
	// The first one comes when all objects are known.
	changed chan struct{}
	// failure is the error of the last request, nil when it went well.
	failure atomic.Pointer[error]
}

func newFollower[T runtime.Object, L runtime.Object](source Source[L], selected metav1.ListOptions) *follower[T] {
	follow := &follower[T]{
		Store:   cache.NewStore(cache.MetaNamespaceKeyFunc),
		changed: make(chan struct{}, 1),
	}
	narrow := func(options metav1.ListOptions) metav1.ListOptions {
		options.FieldSelector = selected.FieldSelector
		options.LabelSelector = selected.LabelSelector
		return options
	}
	requests := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := source.List(ctx, narrow(options))
			follow.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := source.Watch(ctx, narrow(options))
			follow.note(err)
			return events, err
		},
	}
	example := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	follow.reflector = cache.NewReflectorWithOptions(requests, example, follow, cache.ReflectorOptions{
		Backoff: &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Second},
	})
	return follow
}

// run follows until the context is done. Its errors are in failure: a log of
// its own would only repeat them.
func (f *follower[T]) run(ctx context.Context) {
	f.reflector.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

func (f *follower[T]) objects() []T {
	stored := f.List()
	objects := make([]T, 0, len(stored))
	for _, object := range stored {
		objects = append(objects, object.(T))
	}
	return objects
}

func (f *follower[T]) note(err error) {
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
