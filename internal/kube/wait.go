package kube

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Source can be listed and watched: each typed, dynamic and metadata client of a
// kind is one, such as client.AppsV1().Deployments("demo").
type Source[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Named selects the object of a name.
func Named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

// Labelled selects objects by a label selector such as "app=demo".
func Labelled(selector string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: selector}
}

// WaitFor watches the selected objects until the condition returns nil, and returns
// the objects of that moment. The condition gets all of them, in no order, after
// the first list and after each change, and must not modify them. Changes in quick
// succession may be seen as one. Its error describes what is missing; WaitFor wraps
// it if the context is done first, and returns the objects seen last.
//
// It retries failed requests without limit: an API server that is away may come
// back.
func WaitFor[T runtime.Object, L runtime.Object](
	ctx context.Context, source Source[L], selected metav1.ListOptions, condition func([]T) error,
) ([]T, error) {
	follow := newFollower[T](source, selected)
	defer follow.start(ctx)()

	missing := errors.New("no response from the API server")
	var objects []T
	for {
		select {
		case <-follow.changed:
		case <-ctx.Done():
			return objects, follow.explain(fmt.Errorf("%w: %w", context.Cause(ctx), missing))
		}
		objects = follow.objects()
		if missing = condition(objects); missing == nil {
			return objects, nil
		}
	}
}

// explain adds to an error what kept the watch from seeing more, if anything did.
func (f *follower[T]) explain(err error) error {
	if failure := f.failure.Load(); failure != nil {
		return fmt.Errorf("%w (last watch error: %w)", err, *failure)
	}
	return err
}
