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

// mostScopes bounds what is followed for one tree: a status can name any number
// of kinds and namespaces.
const mostScopes = 200

// Scope is the objects of a kind in one namespace, or in none, of which a tree may
// have some.
type Scope struct {
	// Kind is as the Application names it; it is empty for what objects own.
	Kind      schema.GroupVersionKind
	Resource  schema.GroupVersionResource
	Namespace string
	// Selector is that of labels; empty is all of them.
	Selector string
}

// Scopes are what the tree of an Application is read from. complete is false when
// there are more than can be followed.
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
	if len(scopes) > mostScopes {
		return scopes[:mostScopes], false, nil
	}
	return scopes, true, nil
}

// labelled are the scopes of what an Application has itself. Each kind is looked for
// once: to look for one that there is not costs the API server something.
func (s Strict) labelled(ctx context.Context, app *Application) ([]Scope, error) {
	type place struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	asked, seen := map[place]bool{}, map[Scope]bool{}
	var scopes []Scope
	for n := range app.Status.Resources {
		resource := &app.Status.Resources[n]
		at := place{schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind}, resource.Namespace}
		if asked[at] {
			continue
		}
		asked[at] = true
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

// scope is where an object of a status is found by its label, with those like it.
// It has no resource if the cluster has no such kind.
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

// Change is an object that is new, different or gone. Without a UID, anything may
// have changed: it comes when a scope is followed, and when events were missed.
type Change struct {
	UID    types.UID
	Owners []types.UID
}

// FollowScope tells of changes until the context is done. It reads metadata alone
// and keeps none of it. heard must be quick: it holds up the events of the scope.
// While the API server is away or refuses, nothing is heard.
func (i *Inspector) FollowScope(ctx context.Context, scope Scope, heard func(Change)) {
	reflector := kube.Reflector{
		Name: scope.Resource.Resource, Store: changeTeller(heard), PageSize: listPage,
		Example:  &metav1.PartialObjectMetadata{},
		Requests: kube.NewListWatcher(i.Metadata.Resource(scope.Resource).Namespace(scope.Namespace), kube.Labelled(scope.Selector)),
		Backoff:  backoff.Policy{First: 200 * time.Millisecond, Longest: 10 * time.Second, JitterUp: 0.5},
	}
	reflector.Run(ctx)
}

// changeTeller is a store of a reflector that keeps nothing.
type changeTeller func(Change)

// Add tells of a new object.
func (t changeTeller) Add(object any) error { return t.tell(object) }

// Update tells of a changed object.
func (t changeTeller) Update(object any) error { return t.tell(object) }

// Delete tells of an object that is gone.
func (t changeTeller) Delete(object any) error { return t.tell(object) }

// Replace tells that anything may have changed.
func (t changeTeller) Replace([]any, string) error {
	t(Change{})
	return nil
}

// Resync is not used.
func (t changeTeller) Resync() error { return nil }

func (t changeTeller) tell(object any) error {
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
