package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// maxScopes bounds the watches of one tree: a status can name any number of
// kinds and namespaces.
const maxScopes = 200

// Scope is the objects of a kind in one namespace, or without one, that a tree
// may contain.
type Scope struct {
	// Kind is that of the Application's status; it is empty for owned objects.
	Kind      schema.GroupVersionKind
	Resource  schema.GroupVersionResource
	Namespace string
	// Selector selects labels; empty is all.
	Selector string
}

// Scopes returns the scopes that the tree of an Application is read from.
// complete is false if there are more than can be watched.
func (s Strict) Scopes(ctx context.Context, app *Application) (scopes []Scope, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	for _, namespace := range namespacesOf(app) {
		for _, kind := range ownedKinds() {
			scopes = append(scopes, Scope{Resource: kind, Namespace: namespace})
		}
	}
	labelled, err := s.labelled(ctx, app)
	if err != nil {
		return nil, false, err
	}
	scopes = append(scopes, labelled...)
	if len(scopes) > maxScopes {
		return scopes[:maxScopes], false, nil
	}
	return scopes, true, nil
}

// labelled returns the scopes of the Application's own objects. Each kind is
// discovered once, because a missing kind costs the API server a request.
func (s Strict) labelled(ctx context.Context, app *Application) ([]Scope, error) {
	type place struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	visited, seen := map[place]bool{}, map[Scope]bool{}
	var scopes []Scope
	for n := range app.Status.Resources {
		resource := &app.Status.Resources[n]
		at := place{schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind}, resource.Namespace}
		if visited[at] {
			continue
		}
		visited[at] = true
		scope, err := s.scope(ctx, app, resource)
		if err != nil {
			return nil, err
		}
		if !scope.Resource.Empty() && !seen[scope] {
			seen[scope] = true
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// scope returns the scope of an object in a status, selected by the
// Application's label. It has no resource if the cluster does not serve the
// kind.
func (s Strict) scope(ctx context.Context, app *Application, resource *v1alpha1.ResourceStatus) (Scope, error) {
	kind := schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind}
	scope := Scope{Kind: kind, Namespace: resource.Namespace, Selector: tracking.Label + "=" + app.ID().Label()}
	mapping, err := s.Kinds.Mapping(ctx, kind)
	if _, unknown := errors.AsType[*live.UnknownKind](err); unknown {
		return scope, nil
	}
	if err != nil {
		return scope, fmt.Errorf("find the kind %s: %w", kind.GroupKind(), err)
	}
	if !mapping.Namespaced {
		scope.Namespace = ""
	}
	scope.Resource = mapping.Resource
	return scope, nil
}

// Change is an object that was added, changed or deleted. Without a UID
// anything may have changed: after the first list, and when events were missed.
type Change struct {
	UID    types.UID
	Owners []types.UID
}

// FollowScope watches a scope and calls heard with its changes until the
// context is done. It reads metadata only and caches none of it. heard must be
// quick, as it blocks the events of the scope. While the API server is
// unreachable or refuses, it is not called.
func (i *Inspector) FollowScope(ctx context.Context, scope Scope, heard func(Change)) {
	reflector := kube.Reflector{
		Name: scope.Resource.Resource, Store: changeNotifier(heard), PageSize: listPage,
		Example:  &metav1.PartialObjectMetadata{},
		Requests: kube.NewListWatcher(i.Metadata.Resource(scope.Resource).Namespace(scope.Namespace), kube.Labelled(scope.Selector)),
		Backoff:  backoff.Policy{First: 200 * time.Millisecond, Longest: 10 * time.Second, JitterUp: 0.5},
	}
	reflector.Run(ctx)
}

// changeNotifier is a store of a reflector that keeps nothing.
type changeNotifier func(Change)

// Add reports a new object.
func (t changeNotifier) Add(object any) error { return t.notify(object) }

// Update reports a changed object.
func (t changeNotifier) Update(object any) error { return t.notify(object) }

// Delete reports a deleted object.
func (t changeNotifier) Delete(object any) error { return t.notify(object) }

// Replace reports that anything may have changed.
func (t changeNotifier) Replace([]any, string) error {
	t(Change{})
	return nil
}

// Resync is not used.
func (t changeNotifier) Resync() error { return nil }

// notify reports one object by its UID and owners.
func (t changeNotifier) notify(object any) error {
	changed, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil
	}
	change := Change{UID: changed.UID}
	for _, owner := range changed.OwnerReferences {
		change.Owners = append(change.Owners, owner.UID)
	}
	t(change)
	return nil
}
