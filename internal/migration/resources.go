package migration

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// maxOrphaned bounds the orphaned objects of one Application in the report.
const maxOrphaned = 100

// maxListed bounds the objects of one kind and namespace that are looked at.
const maxListed = 20_000

// scope is a kind in a namespace.
type scope struct {
	kind      schema.GroupVersionKind
	namespace string
}

// addOwner records the objects that an Application lists.
func (a *assessment) addOwner(app *inspect.Application) {
	// The same name in another cluster is another object.
	at, err := a.destinationOf(app)
	if err != nil {
		return // its proof has the error
	}
	for i := range app.Status.Resources {
		key := inspect.KeyOfResource(&app.Status.Resources[i])
		at.owners[key] = append(at.owners[key], app.ID())
	}
}

// sharedWith returns the other Applications that list an object.
func (d *destination) sharedWith(key tracking.Key, but tracking.App) []string {
	var others []string
	for _, owner := range d.owners[key] {
		if owner != but && !slices.Contains(others, owner.String()) {
			others = append(others, owner.String())
		}
	}
	return others
}

// orphaned returns the objects with the mark of an Application that neither its
// status nor Git has, of the kinds and namespaces that it uses. Neither program
// deletes them.
func (a *assessment) orphaned(ctx context.Context, in *destination, app *inspect.Application, rendered map[tracking.Key]bool) ([]string, error) {
	scopes, listed := map[scope]bool{}, map[tracking.Key]bool{}
	for i := range app.Status.Resources {
		one := &app.Status.Resources[i]
		scopes[scope{schema.GroupVersionKind{Group: one.Group, Version: one.Version, Kind: one.Kind}, one.Namespace}] = true
		listed[inspect.KeyOfResource(one)] = true
	}
	var names []string
	for at := range scopes {
		marked, err := a.markedIn(ctx, in, at)
		if err != nil {
			return nil, err
		}
		for _, key := range marked[app.ID()] {
			if !listed[key] && !rendered[key] {
				names = append(names, key.String())
			}
		}
	}
	slices.Sort(names)
	if more := len(names) - maxOrphaned; more > 0 {
		names = append(names[:maxOrphaned], fmt.Sprintf("and %d more", more))
	}
	return names, nil
}

// markedIn returns the objects of a scope by the Application whose mark they
// have. Only metadata is read, once for all Applications.
func (a *assessment) markedIn(ctx context.Context, in *destination, at scope) (map[tracking.App][]tracking.Key, error) {
	if known, found := in.marked[at]; found {
		return known, nil
	}
	marked := map[tracking.App][]tracking.Key{}
	mapping, err := in.kinds.Mapping(ctx, at.kind)
	if live.IsUnknownKind(err) {
		return marked, nil // its objects went with the definition
	}
	if err != nil {
		return nil, err
	}
	options, seen := metav1.ListOptions{Limit: listPage}, 0
	for {
		page, err := in.cluster.Metadata.Resource(mapping.Resource).Namespace(at.namespace).List(ctx, options)
		if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
			break // what cannot be listed is not shown
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if owner, key, ok := a.ownerOf(at.kind, &page.Items[i]); ok {
				marked[owner] = append(marked[owner], key)
			}
		}
		seen += len(page.Items)
		if options.Continue = page.GetContinue(); options.Continue == "" || seen > maxListed {
			break
		}
	}
	in.marked[at] = marked
	return marked, nil
}

// ownerOf returns the Application whose mark an object has. Hooks are left to the
// sync that made them.
func (a *assessment) ownerOf(kind schema.GroupVersionKind, of *metav1.PartialObjectMetadata) (tracking.App, tracking.Key, bool) {
	for _, hook := range []string{"argocd.argoproj.io/hook", "helm.sh/hook"} {
		if _, is := of.Annotations[hook]; is {
			return tracking.App{}, tracking.Key{}, false
		}
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(of.Namespace)
	object.SetName(of.Name)
	object.SetAnnotations(maps.Clone(of.Annotations))
	owner, ok := a.tracker.OwnerOf(object)
	return owner, tracking.KeyOf(object), ok
}
