package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Back returns an Application to Argo CD, from every point of a move. It runs
// the steps backwards: ours stops syncing, the resources get their old marks,
// Argo CD's Application is created held, ours is deleted without its resources,
// and Argo CD's gets its settings back.
func Back(ctx context.Context, options Options) (Report, error) {
	report := Report{From: options.From, To: options.To, Resources: []*Resource{}}
	m, err := newMove(ctx, options)
	if err != nil {
		return report, err
	}
	switch {
	// The record on ours decides. The arguments must agree with it.
	case m.origin != nil && m.origin.app() != m.From:
		return report, fmt.Errorf("the Application %s was moved from %s: name that one", m.To, m.origin.app())
	case m.origin == nil && m.held == nil && m.argo != nil:
		return report, fmt.Errorf("the Application %s was not moved: there is nothing to take back", m.From)
	case m.origin == nil && m.held == nil:
		return report, fmt.Errorf("there is no Application %s that was moved from %s", m.To, m.From)
	case m.argo != nil && m.held == nil:
		return report, fmt.Errorf("there is an Application %s that is not held: delete it without its resources, or leave %s with the runtime", m.From, m.To)
	}
	// Without ours the move did not get further than holding Argo CD's.
	if m.origin != nil {
		if report.Resources, err = m.undoMove(ctx); err != nil {
			return report, err
		}
	}
	if err := m.restore(ctx); err != nil {
		return report, err
	}
	if m.DryRun {
		return report, nil
	}
	return report, m.compare(ctx, report.Resources)
}

// undoMove runs all steps until ours is deleted.
func (m *move) undoMove(ctx context.Context) ([]*Resource, error) {
	// The list is computed first: it is part of ours, which is deleted later.
	listed := m.marked()
	var resources []*Resource
	for _, object := range listed {
		resource, err := m.read(ctx, object.key(), object.Version)
		if err != nil {
			return nil, err
		}
		if resource != nil {
			resources = append(resources, resource)
		}
	}
	// Each step leaves a state from which the next attempt continues.
	for _, step := range []func() error{
		func() error { return m.stopOurs(ctx) },
		func() error { return m.restoreMarks(ctx, m.origin, listed) },
		func() error { return m.recreateTheirs(ctx) },
		func() error { return m.deleteOurs(ctx) },
	} {
		if err := step(); err != nil {
			return resources, err
		}
	}
	return resources, nil
}

// marked returns the resources that may have our marks: those that were marked,
// and those that the runtime has created since.
func (m *move) marked() []markedObject {
	listed := slices.Clone(m.origin.Objects)
	known := map[tracking.Key]bool{}
	for _, object := range listed {
		known[object.key()] = true
	}
	// Objects of later commits are not in the record.
	for _, each := range m.ours.Status.Resources {
		object := markedObject{Group: each.Group, Version: each.Version, Kind: each.Kind, Namespace: each.Namespace, Name: each.Name}
		if !each.Hook && !known[object.key()] {
			listed = append(listed, object)
		}
	}
	return listed
}

// stopOurs removes automated sync and finalizers from ours. The annotation is
// set again, so that a new move enables ours as after the first one.
func (m *move) stopOurs(ctx context.Context) error {
	changed, err := m.change(ctx, m.ours, "the runtime lets go: no automated sync, no cascading deletion", func(app *inspect.Application) (map[string]any, error) {
		// Any running sync would go on writing after the marks are restored.
		if err := inspect.Idle(app); err != nil {
			return nil, err
		}
		_, automated, _ := unstructured.NestedMap(app.Object.Object, "spec", "syncPolicy", "automated")
		kept := without(app.Finalizers)
		if !automated && len(kept) == len(app.Finalizers) {
			return nil, nil
		}
		patch := map[string]any{"metadata": map[string]any{"finalizers": kept, "annotations": map[string]any{annotationPending: "true"}}}
		if automated {
			patch["spec"] = map[string]any{"syncPolicy": map[string]any{"automated": nil}}
		}
		return patch, nil
	})
	if err == nil {
		m.ours = changed
	}
	return err
}

// recreateTheirs creates Argo CD's Application, held. It is created before ours
// is deleted: at no point are the resources without an Application that lists
// them.
func (m *move) recreateTheirs(ctx context.Context) error {
	if m.argo != nil {
		return nil
	}
	// The new Application starts held, with the settings to restore in its
	// record.
	record := recordOf(map[string]any{"spec": m.origin.Spec}, m.origin.Finalizers, m.origin.Annotations)
	text, err := encode(record)
	if err != nil {
		return err
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplication}}
	made.SetNamespace(m.From.Namespace)
	made.SetName(m.From.Name)
	made.SetLabels(m.origin.Labels)
	annotations := maps.Clone(m.origin.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationHeld], annotations[annotationSkip] = text, "true"
	made.SetAnnotations(annotations)
	if kept := without(m.origin.Finalizers); len(kept) > 0 {
		made.SetFinalizers(kept)
	}
	spec := runtime.DeepCopyJSON(m.origin.Spec)
	// Argo CD must not sync before ours is deleted.
	unstructured.RemoveNestedField(spec, "syncPolicy", "automated")
	made.Object["spec"] = spec
	write, err := m.creation(made, "Argo CD's Application, which Argo CD leaves alone yet")
	if err != nil || m.DryRun {
		m.held = record
		m.report(write)
		return err
	}
	if _, err := m.inspector.Applications(m.From.Namespace).Create(ctx, made, metav1.CreateOptions{FieldManager: manager}); err != nil {
		return fmt.Errorf("make the Application %s again: %w", m.From, err)
	}
	m.report(write)
	if m.argo, err = m.get(ctx, m.From); err != nil {
		return err
	}
	m.held = record
	return nil
}

// deleteOurs deletes ours without its resources. The orphan policy and the
// missing finalizer keep the resources; the precondition fails if a user
// restores the finalizer in between.
func (m *move) deleteOurs(ctx context.Context) error {
	return m.deleteWithoutResources(ctx, m.To, func(now *inspect.Application) error {
		if slices.ContainsFunc(now.Finalizers, cascades) {
			return fmt.Errorf("the Application %s was changed meanwhile: start the way back again", m.To)
		}
		return nil
	})
}

// restore gives Argo CD's Application its settings back. It is one patch:
// automated sync, finalizers and reconciliation come back together.
func (m *move) restore(ctx context.Context) error {
	app := m.argo
	if app == nil { // a dry run
		app = &inspect.Application{Application: &v1alpha1.Application{}, Object: &unstructured.Unstructured{Object: map[string]any{}}}
		app.Namespace, app.Name = m.From.Namespace, m.From.Name
	}
	_, err := m.change(ctx, app, "Argo CD has it again", func(now *inspect.Application) (map[string]any, error) {
		record := m.held
		// The record on the object wins, as it is that of the first attempt.
		if read, err := readHeld(now.Annotations); err != nil {
			return nil, err
		} else if read != nil {
			record = read
		}
		var skip any
		if record.Skip != nil {
			skip = *record.Skip
		}
		patch := map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{annotationHeld: nil, annotationSkip: skip},
			"finalizers":  append(without(now.Finalizers), record.Finalizers...),
		}}
		if record.Automated != nil {
			patch["spec"] = map[string]any{"syncPolicy": map[string]any{"automated": record.Automated}}
		}
		return patch, nil
	})
	return err
}
