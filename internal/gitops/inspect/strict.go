package inspect

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Strict reads only objects of an Application: those with its tracking marks,
// and those they own by UID. It is for callers that act for others with more
// rights than they have. The status alone proves nothing, because everyone who
// may write an Application may write its status.
type Strict struct {
	*Inspector
	Kinds *live.Kinds
	// ControlNamespace is that of the agent, for the tracking marks.
	ControlNamespace string
}

// identity is the metadata of an object that a tree needs.
type identity struct {
	UID     types.UID
	Version string
	Created time.Time
}

// identities are the Application's own objects, by their marks. A nil one has
// none and reads nothing.
type identities interface {
	get(key tracking.Key) (identity, bool)
	complete(ctx context.Context, app *Application, owned *ownedObjects) error
}

// marked are identities that are read from the cluster.
type marked struct {
	strict Strict
	found  map[tracking.Key]identity
	// reader caches what was listed before; it may be nil.
	reader *TreeReader
}

// get returns the identity of an object with the Application's marks.
func (m *marked) get(key tracking.Key) (identity, bool) {
	found, ok := m.found[key]
	return found, ok
}

// Tree reads the tree of an Application.
func (s Strict) Tree(ctx context.Context, app *Application, skipped func(kind, namespace string)) (*Tree, error) {
	return s.tree(ctx, app, &marked{strict: s, found: map[tracking.Key]identity{}}, skipped)
}

// complete reads the marks of the objects in the status: by label, one kind and
// namespace at a time, and one by one where an owner has no label, as with
// objects that Argo CD applied.
func (m *marked) complete(ctx context.Context, app *Application, owned *ownedObjects) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	// One list for each scope costs less than one request for each object.
	scopes, err := m.strict.labelled(ctx, app)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		if m.reader.fromCache(scope, m.found) {
			continue
		}
		found, err := m.list(ctx, app, scope)
		if err != nil {
			return err
		}
		maps.Copy(m.found, found)
		m.reader.toCache(scope, found)
	}
	for n := range app.Status.Resources {
		resource := &app.Status.Resources[n]
		key := KeyOfResource(resource)
		// Objects without dependents need no identity: nothing hangs below
		// them.
		if _, known := m.found[key]; known || len(owned.by[key]) == 0 {
			continue
		}
		if err := m.read(ctx, app, resource); err != nil {
			return err
		}
	}
	return nil
}

// list reads the objects of a scope that belong to the Application. A kind that
// may not be read has no identities, and nothing below its objects is shown.
func (m *marked) list(ctx context.Context, app *Application, scope Scope) (map[tracking.Key]identity, error) {
	source := m.strict.Metadata.Resource(scope.Resource).Namespace(scope.Namespace)
	found := map[tracking.Key]identity{}
	options := metav1.ListOptions{LabelSelector: scope.Selector, Limit: listPage}
	for {
		page, err := source.List(ctx, options)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return nil, nil // what cannot be read is not shown
		}
		if err != nil {
			return nil, fmt.Errorf("list %s of %s: %w", scope.Kind.GroupKind(), app.ID(), err)
		}
		for n := range page.Items {
			m.take(app, scope.Kind, &page.Items[n], found)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return found, nil
		}
	}
}

// read reads one object without our label.
func (m *marked) read(ctx context.Context, app *Application, resource *v1alpha1.ResourceStatus) error {
	scope, err := m.strict.scope(ctx, app, resource)
	if err != nil || scope.Resource.Empty() {
		return err
	}
	object, err := m.strict.Metadata.Resource(scope.Resource).Namespace(scope.Namespace).Get(ctx, resource.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", KeyOfResource(resource), err)
	}
	m.take(app, scope.Kind, object, m.found)
	return nil
}

// take adds an object if its marks name the Application.
func (m *marked) take(app *Application, kind schema.GroupVersionKind, object *metav1.PartialObjectMetadata, into map[tracking.Key]identity) {
	// The tracker reads the annotation of an object; metadata is enough for
	// that.
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(kind)
	whole.SetNamespace(object.Namespace)
	whole.SetName(object.Name)
	whole.SetAnnotations(object.Annotations)
	if !m.strict.belongs(whole, app) {
		return
	}
	into[tracking.KeyOf(whole)] = identity{UID: object.UID, Version: object.ResourceVersion, Created: object.CreationTimestamp.Time}
}

// belongs reports whether the mark of an object names the Application.
func (s Strict) belongs(object *unstructured.Unstructured, app *Application) bool {
	owner, ok := tracking.Tracker{ControlNamespace: s.ControlNamespace}.OwnerOf(object)
	return ok && owner == app.ID()
}

// Belongs returns an object of the Application: its own, or one that its
// objects own, with a given UID if there is one; nil if there is none.
func (s Strict) Belongs(ctx context.Context, app *Application, key tracking.Key, uid types.UID) (*unstructured.Unstructured, error) {
	for n := range app.Status.Resources {
		resource := &app.Status.Resources[n]
		if KeyOfResource(resource) != key {
			continue
		}
		// The status names the object, and its own mark proves that it belongs
		// to the Application.
		object, err := s.fetch(ctx, key, resource.Version)
		if err != nil || object == nil {
			return nil, err
		}
		if s.belongs(object, app) && (uid == "" || object.GetUID() == uid) {
			return object, nil
		}
	}
	// Other kinds are never below an object of the Application.
	if !isOwnedKind(key) {
		return nil, nil
	}
	// What may not be listed is not found, so that the caller gets no object
	// for it.
	tree, err := s.Tree(ctx, app, func(string, string) {})
	if err != nil {
		return nil, err
	}
	var found *unstructured.Unstructured
	tree.Root.Walk(func(node, _ *Node) {
		if node.Key() == key && (uid == "" || node.UID == uid) {
			found = tree.Object(node.UID)
		}
	})
	return found, nil
}

// isOwnedKind reports whether workloads own objects of a kind.
func isOwnedKind(key tracking.Key) bool {
	switch key.GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupKind{Kind: "Pod"}:
		return true
	}
	return false
}

// fetch reads one object; nil if it does not exist.
func (s Strict) fetch(ctx context.Context, key tracking.Key, version string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	cache := live.New(live.Options{Cluster: s.Cluster, Kinds: s.Kinds})
	object, err := cache.Fetch(ctx, key, version)
	if err != nil || object == nil {
		return nil, err
	}
	return object.Unstructured(), nil
}
