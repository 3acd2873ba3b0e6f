package operation

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// found is an object of the cluster. It is decoded only when its content is
// needed.
type found struct {
	uid     types.UID
	version string
	decode  func() *unstructured.Unstructured
}

// view reads objects without decoding them. Tests replace it.
type view struct {
	get   func(key tracking.Key) *found
	last  func(key tracking.Key) *found
	fetch func(ctx context.Context, key tracking.Key, version string) (*found, error)
}

// viewOf reads from the caches.
func viewOf(cluster Live) view {
	return view{
		get:  func(key tracking.Key) *found { return foundIn(cluster.Get(key)) },
		last: func(key tracking.Key) *found { return foundIn(cluster.Last(key)) },
		fetch: func(ctx context.Context, key tracking.Key, version string) (*found, error) {
			object, err := cluster.Fetch(ctx, key, version)
			return foundIn(object), err
		},
	}
}

// foundIn is an object of a cache; nil stays nil.
func foundIn(object *live.Object) *found {
	if object == nil {
		return nil
	}
	return &found{uid: object.UID, version: object.ResourceVersion, decode: object.Unstructured}
}
