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

// Source is what can be listed and watched: each typed and dynamic client of
// a kind is one, such as client.AppsV1().Deployments("demo").
type Source[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Named selects the one object of that name.
func Named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

// Labelled selects objects by a label selector such as "app=demo".
func Labelled(selector string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: selector}
}

// WaitFor follows the selected objects until the condition holds, and returns
// them as they were then. The condition sees all of them, in no order, at the
// start and after each change, and must not modify them. Changes in quick
// succession may be seen as one. It returns nil when it holds; otherwise its
// error says what is missing, which is also what WaitFor's error ends with
// when the context is done first. The objects seen last are returned then too.
//
// It never gives up by itself: an API server that is away may come back.
func WaitFor[T runtime.Object, L runtime.Object](
	ctx context.Context, source Source[L], selected metav1.ListOptions, condition func([]T) error,
) ([]T, error) {
	follow := newFollower[T](source, selected)
	defer follow.start(ctx)()

	missing := errors.New("no answer from the API server")
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
