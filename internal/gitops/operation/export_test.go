package operation

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// LookAt makes a Run see other objects than those of its Live. The functions
// return nil for what is not there.
func (r *Run) LookAt(get, last func(tracking.Key) *unstructured.Unstructured) {
	find := func(in func(tracking.Key) *unstructured.Unstructured, key tracking.Key) *found {
		object := in(key)
		if object == nil {
			return nil
		}
		return &found{uid: object.GetUID(), version: object.GetResourceVersion(), decode: object.DeepCopy}
	}
	r.view = view{
		get:   func(key tracking.Key) *found { return find(get, key) },
		last:  func(key tracking.Key) *found { return find(last, key) },
		fetch: func(_ context.Context, key tracking.Key, _ string) (*found, error) { return find(get, key), nil },
	}
}

// FetchOnly makes a Run see objects only by asking for them, or when they are
// gone.
func (r *Run) FetchOnly(get, last func(tracking.Key) *unstructured.Unstructured) {
	r.LookAt(get, last)
	r.view.get = func(tracking.Key) *found { return nil }
}

// Verb is what a write did.
func Verb(desired, before, after *unstructured.Unstructured) string {
	return verb(desired, before, after)
}
