package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// instanceLabel is the label that Argo CD can track by.
const instanceLabel = "app.kubernetes.io/instance"

// Resource is an object of the Application before and after the move.
type Resource struct {
	Key tracking.Key `json:"-"`
	// Name is the key for display.
	Name string `json:"name"`
	// UID and Generation are those at the start, and the others those at the
	// end.
	UID             types.UID `json:"uid"`
	Generation      int64     `json:"generation"`
	UIDAfter        types.UID `json:"uidAfter,omitempty"`
	GenerationAfter int64     `json:"generationAfter,omitempty"`
	// Left is why it did not get our marks; empty if it did.
	Left string `json:"left,omitempty"`

	version string
	bare    bool
	live    *metav1.PartialObjectMetadata
}

// Untouched reports whether it is the same object with the same spec.
func (r *Resource) Untouched() bool {
	return r.UID == r.UIDAfter && r.Generation == r.GenerationAfter
}

// marked converts the resource for the record.
func (r *Resource) marked() markedObject {
	return markedObject{Group: r.Key.Group, Version: r.version, Kind: r.Key.Kind, Namespace: r.Key.Namespace, Name: r.Key.Name, Bare: r.bare}
}

// at returns the metadata client for an object.
func (m *move) at(ctx context.Context, key tracking.Key, version string) (metadata.ResourceInterface, error) {
	mapping, err := m.kinds.Mapping(ctx, schema.GroupVersionKind{Group: key.Group, Version: version, Kind: key.Kind})
	// Another version of the kind may still be served.
	if live.IsUnknownKind(err) {
		// The version may be gone by now; the objects are not.
		mapping, err = m.kinds.Mapping(ctx, schema.GroupVersionKind{Group: key.Group, Kind: key.Kind})
	}
	if err != nil {
		return nil, err
	}
	if mapping.Namespaced {
		return m.Cluster.Metadata.Resource(mapping.Resource).Namespace(key.Namespace), nil
	}
	return m.Cluster.Metadata.Resource(mapping.Resource), nil
}

// find reads the metadata of the objects that Argo CD lists. Missing ones are
// left out.
func (m *move) find(ctx context.Context, app *inspect.Application) ([]*Resource, error) {
	var found []*Resource
	for _, each := range app.Status.Resources {
		// Hooks are created by each sync and belong to no Application for long.
		if each.Hook {
			continue
		}
		key := tracking.Key{Group: each.Group, Kind: each.Kind, Namespace: each.Namespace, Name: each.Name}
		resource, err := m.read(ctx, key, each.Version)
		if err != nil {
			return nil, err
		}
		if resource == nil {
			continue
		}
		// The runtime must not take over an object that it would delete next.
		if each.RequiresPruning {
			resource.Left = "it is no longer in Git: it stays as it is, and the runtime does not prune it"
		}
		found = append(found, resource)
	}
	return found, nil
}

// read reads the metadata of one object; nil if it does not exist.
func (m *move) read(ctx context.Context, key tracking.Key, version string) (*Resource, error) {
	place, err := m.at(ctx, key, version)
	// The CustomResourceDefinition was deleted, and its objects with it.
	if live.IsUnknownKind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", key, err)
	}
	found, err := place.Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the metadata of %s: %w", key, err)
	}
	return &Resource{Key: key, Name: key.String(), UID: found.UID, Generation: found.Generation, version: version, live: found}, nil
}

// carrier returns an object with the marks, for the tracker.
func carrier(key tracking.Key, of *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetGroupVersionKind(schema.GroupVersionKind{Group: key.Group, Version: "v1", Kind: key.Kind})
	made.SetNamespace(key.Namespace)
	made.SetName(key.Name)
	made.SetLabels(of.Labels)
	made.SetAnnotations(of.Annotations)
	return made
}

// instances are the spellings of an Application in tracking annotations. The
// namespace of Argo CD decides which one it is.
func instances(app tracking.App) []string {
	return []string{app.Name, app.Namespace + "_" + app.Name}
}

// classify finds the resources that belong to Argo CD's Application, and how it
// marked them.
func (m *move) classify(from tracking.App, resources []*Resource) (instance string) {
	for _, resource := range resources {
		text, tracked := resource.live.Annotations[tracking.Annotation]
		id, err := tracking.ParseID(text)
		named := tracked && err == nil && id.Names(resource.Key)
		switch {
		case resource.Left != "":
		case m.tracker.Stamped(carrier(resource.Key, resource.live), m.To):
			// It has our marks already; which Argo CD had is in the record.
		case named && slices.Contains(instances(from), id.Instance):
			instance = id.Instance
		// Another Application owns it. Its mark must not be overwritten.
		case named:
			resource.Left = fmt.Sprintf("it belongs to the Application %s", id.Instance)
		// Argo CD tracks by label only; there is no annotation to restore.
		case resource.live.Labels[instanceLabel] == from.Name:
			resource.bare = true
		default:
			resource.Left = "it has no mark of the Application: the first sync marks it"
		}
	}
	return instance
}

// addMarks gives the resources our marks, one after the other. Objects that
// have them from an earlier attempt are skipped. Only metadata changes, so that
// no controller reacts to a new generation.
func (m *move) addMarks(ctx context.Context, resources []*Resource) error {
	for _, resource := range resources {
		if resource.Left != "" || m.tracker.Stamped(carrier(resource.Key, resource.live), m.To) {
			continue
		}
		marks := carrier(resource.Key, &metav1.PartialObjectMetadata{})
		m.tracker.Stamp(marks, m.To)
		err := m.mark(ctx, resource, marks.GetLabels()[tracking.Label], marks.GetAnnotations()[tracking.Annotation])
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreMarks gives resources their earlier marks. Objects without our marks
// are skipped, so that a second attempt does not touch what another Application
// has taken over.
func (m *move) restoreMarks(ctx context.Context, was *origin, listed []markedObject) error {
	for _, object := range listed {
		resource, err := m.read(ctx, object.key(), object.Version)
		if err != nil {
			return err
		}
		if resource == nil || !m.tracker.Stamped(carrier(resource.Key, resource.live), m.To) {
			continue
		}
		var annotation any
		// Objects that had no annotation before get none.
		if was.Instance != "" && !object.Bare {
			annotation = tracking.ID{Instance: was.Instance, Key: resource.Key}.String()
		}
		if err := m.mark(ctx, resource, nil, annotation); err != nil {
			return err
		}
	}
	return nil
}

// mark writes our label and the tracking annotation, and nothing else; nil
// removes one. The UID in the patch ensures that it is the object that was
// read.
func (m *move) mark(ctx context.Context, resource *Resource, label, annotation any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": resource.UID, "labels": map[string]any{tracking.Label: label}, "annotations": map[string]any{tracking.Annotation: annotation},
	}})
	if err != nil {
		return err
	}
	write := Write{Verb: "patch", Object: resource.Key.String(), Body: body}
	if m.DryRun {
		m.report(write)
		return nil
	}
	place, err := m.at(ctx, resource.Key, resource.version)
	if err != nil {
		return err
	}
	_, err = place.Patch(ctx, resource.Key.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark %s: %w", resource.Key, err)
	}
	m.report(write)
	return nil
}

// compare reads the resources again, for the report. A deleted resource keeps
// empty values and counts as touched.
func (m *move) compare(ctx context.Context, resources []*Resource) error {
	for _, resource := range resources {
		now, err := m.read(ctx, resource.Key, resource.version)
		if err != nil {
			return err
		}
		if now != nil {
			resource.UIDAfter, resource.GenerationAfter = now.UID, now.Generation
		}
	}
	return nil
}
