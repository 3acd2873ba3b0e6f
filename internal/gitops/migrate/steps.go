package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// annotationPending is on ours until it has its automated sync and finalizers.
const annotationPending = appset.PendingAnnotation

// deleteTries bounds the retries of a deletion after conflicts.
const deleteTries = 5

// cascades reports whether a finalizer of Argo CD deletes the resources or runs
// hooks. All finalizers of the domain are included, as variants with a suffix
// select the propagation policy.
func cascades(finalizer string) bool { return strings.Contains(finalizer, "argocd.argoproj.io") }

// without returns the finalizers that do not cascade.
func without(finalizers []string) []string {
	kept := []string{}
	for _, each := range finalizers {
		if !cascades(each) {
			kept = append(kept, each)
		}
	}
	return kept
}

// hold stops Argo CD from syncing the Application. It is one write, so that
// there is no partial state, and it records the earlier settings.
func (m *move) hold(ctx context.Context) error {
	changed, err := m.change(ctx, m.argo, "Argo CD lets go: no automated sync, no cascading deletion, no reconciliation", holdPatch)
	if err != nil {
		return err
	}
	if m.DryRun {
		if m.held == nil {
			m.held = recordOf(m.argo.Object.Object, m.argo.Finalizers, m.argo.Annotations)
		}
		return nil
	}
	m.argo = changed
	// The record on the object counts, which may be that of an earlier attempt.
	if m.held, err = readHeld(changed.Annotations); err != nil {
		return err
	}
	// A sync that Argo CD began before it saw the change would go on beside ours.
	if inspect.Idle(changed) != nil {
		return fmt.Errorf("a sync of %s by Argo CD began at this moment: take it back with slipway app migrate %s --back, wait for the sync, and try again", m.From, m.From)
	}
	return nil
}

// recordOf returns the settings to restore of an Application. Of object only
// the spec is read.
func recordOf(object map[string]any, finalizers []string, annotations map[string]string) *heldSettings {
	made := &heldSettings{Finalizers: slices.DeleteFunc(slices.Clone(finalizers), func(each string) bool { return !cascades(each) })}
	// An empty syncPolicy and a missing one are restored differently.
	_, made.Policy, _ = unstructured.NestedMap(object, "spec", "syncPolicy")
	made.Automated, _, _ = unstructured.NestedMap(object, "spec", "syncPolicy", "automated")
	if skip, there := annotations[annotationSkip]; there {
		made.Skip = &skip
	}
	return made
}

// holdPatch returns the patch that holds an Application; nil if it is held.
func holdPatch(app *inspect.Application) (map[string]any, error) {
	record, err := readHeld(app.Annotations)
	if err != nil {
		return nil, err
	}
	_, automated, _ := unstructured.NestedMap(app.Object.Object, "spec", "syncPolicy", "automated")
	kept := without(app.Finalizers)
	// All parts are checked: a user or a parent Application may have undone one
	// of them.
	if record != nil && !automated && len(kept) == len(app.Finalizers) && app.Annotations[annotationSkip] == "true" {
		return nil, nil
	}
	// The first attempt records the settings. Later ones must not, as they
	// would record those of a held Application.
	if record == nil {
		if inspect.Idle(app) != nil {
			return nil, errors.New("the Application is being synced by Argo CD: wait until the sync is over, or end it in Argo CD")
		}
		record = recordOf(app.Object.Object, app.Finalizers, app.Annotations)
	}
	text, err := encode(record)
	if err != nil {
		return nil, err
	}
	// Settings and record change in one patch, so that no attempt finds one
	// without the other.
	patch := map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{annotationHeld: text, annotationSkip: "true"}, "finalizers": kept,
	}}
	if automated {
		patch["spec"] = map[string]any{"syncPolicy": map[string]any{"automated": nil}}
	}
	return patch, nil
}

// makeOurs creates the runtime's Application. It does not sync automatically
// yet, and its deletion does not cascade.
func (m *move) makeOurs(ctx context.Context, instance string, resources []*Resource) error {
	if m.ours != nil {
		return nil
	}
	// The whole original is stored on ours, because Argo CD's Application is
	// deleted later.
	was := m.original(instance, resources)
	text, err := encode(was)
	if err != nil {
		return err
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplication}}
	made.SetNamespace(m.To.Namespace)
	made.SetName(m.To.Name)
	made.SetLabels(inherited(was.Labels))
	annotations := inherited(was.Annotations)
	annotations[annotationOrigin], annotations[annotationPending] = text, "true"
	made.SetAnnotations(annotations)
	spec := runtime.DeepCopyJSON(was.Spec)
	unstructured.RemoveNestedField(spec, "syncPolicy", "automated")
	made.Object["spec"] = spec
	write, err := m.creation(made, "the runtime's Application, which syncs nothing by itself yet")
	if err != nil || m.DryRun {
		m.report(write)
		m.origin = was
		return err
	}
	_, err = m.inspector.Applications(m.To.Namespace).Create(ctx, made, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("make the Application %s: %w", m.To, err)
	}
	m.report(write)
	return m.lookAtOurs(ctx)
}

// original returns Argo CD's Application as it was before it was held.
func (m *move) original(instance string, resources []*Resource) *origin {
	was := &origin{
		Namespace: m.From.Namespace, Name: m.From.Name, Labels: m.argo.Labels, Annotations: maps.Clone(m.argo.Annotations),
		Finalizers: append(without(m.argo.Finalizers), m.held.Finalizers...), Instance: instance,
	}
	delete(was.Annotations, annotationHeld)
	delete(was.Annotations, annotationSkip)
	if m.held.Skip != nil {
		was.Annotations[annotationSkip] = *m.held.Skip
	}
	// NestedMap returns a copy, so that Argo CD's Application is not changed.
	spec, _, _ := unstructured.NestedMap(m.argo.Object.Object, "spec")
	if m.held.Automated != nil {
		_ = unstructured.SetNestedMap(spec, m.held.Automated, "syncPolicy", "automated") // it was there
	}
	was.Spec = spec
	for _, resource := range resources {
		// Only marked objects have to be restored on the way back.
		if resource.Left == "" {
			was.Objects = append(was.Objects, resource.marked())
		}
	}
	return was
}

// inherited returns labels or annotations without those that mark an owner or a
// one-time request.
func inherited(from map[string]string) map[string]string {
	made := map[string]string{}
	for name, value := range from {
		switch name {
		case instanceLabel, tracking.Label, tracking.Annotation, annotationSkip, annotationHeld,
			"kubectl.kubernetes.io/last-applied-configuration", "argocd.argoproj.io/refresh", "argocd.argoproj.io/hydrate":
		default:
			made[name] = value
		}
	}
	return made
}

// awaitCompared waits until the runtime has compared the resources with Git and
// finds them in sync. A timeout is no failure of the move: everything is held,
// and the next attempt continues here.
func (m *move) awaitCompared(ctx context.Context) error {
	m.reportWait()
	if m.DryRun {
		return nil
	}
	// Nothing is deleted before the runtime has found the objects in sync.
	waiting, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	last := "the runtime has not looked at it"
	_, err := m.inspector.Follow(waiting, m.To, func(app *inspect.Application) (string, error) {
		last = m.missing(app)
		return last, nil
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("the runtime does not find %s as it should be, after %s: %s; Argo CD's is held, and nothing is synced or deleted: "+
		"look at it with slipway app get %s and slipway app diff %s, then start the move again, or take it back with --back", m.To, m.Wait, last, m.To, m.To)
}

// reportWait reports what is waited for.
func (m *move) reportWait() {
	m.report(Write{Verb: "wait", Object: "Application " + m.To.String(), Why: "until the runtime has compared it with Git"})
}

// missing returns what a comparison lacks; empty if it is complete. At most
// five resources are listed, which is enough to start looking.
func (m *move) missing(app *inspect.Application) string {
	switch status := app.Status.Sync.Status; {
	case status == v1alpha1.SyncSynced || m.Force && status == v1alpha1.SyncOutOfSync:
		return ""
	case status == "":
		return "the runtime has not looked at it: is one running whose namespace is " + m.ControlNamespace + "?"
	}
	waiting := []string{"it is " + string(app.Status.Sync.Status)}
	for _, resource := range app.Status.Resources {
		if resource.Status == v1alpha1.SyncOutOfSync && len(waiting) < 6 {
			key := tracking.Key{Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name}
			waiting = append(waiting, key.String()+" differs from Git")
		}
	}
	for _, condition := range app.Status.Conditions {
		waiting = append(waiting, condition.Message)
	}
	return strings.Join(waiting, ", ")
}

// deleteTheirs deletes Argo CD's Application without its resources. The
// precondition is the version that was read without a cascading finalizer.
func (m *move) deleteTheirs(ctx context.Context) error {
	return m.deleteWithoutResources(ctx, m.From, func(now *inspect.Application) error {
		// Either a parent Application or a user may have restored it meanwhile.
		if record, err := readHeld(now.Annotations); err != nil || record == nil || slices.ContainsFunc(now.Finalizers, cascades) {
			return fmt.Errorf("the Application %s was changed meanwhile, and is not held any more: start the move again", m.From)
		}
		return nil
	})
}

// deleteWithoutResources deletes an Application unless check refuses its current
// version, and waits until it is gone.
func (m *move) deleteWithoutResources(ctx context.Context, place tracking.App, check func(now *inspect.Application) error) error {
	write := Write{Verb: "delete", Object: "Application " + place.String(), Why: "without its resources: it has no finalizer any more"}
	if m.DryRun {
		m.report(write)
		return nil
	}
	// Orphan keeps the garbage collector away from objects that have the
	// Application as their owner.
	orphan := metav1.DeletePropagationOrphan
	for try := 1; ; try++ {
		// Read again before each attempt: the precondition needs the current
		// version.
		now, err := m.get(ctx, place)
		if err != nil || now == nil {
			return err
		}
		if err := check(now); err != nil {
			return err
		}
		options := metav1.DeleteOptions{PropagationPolicy: &orphan, Preconditions: &metav1.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion}}
		err = m.inspector.Applications(place.Namespace).Delete(ctx, place.Name, options)
		switch {
		case err == nil:
			m.report(write)
			return m.awaitGone(ctx, place)
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err) || try == deleteTries:
			return fmt.Errorf("delete the Application %s: %w", place, err)
		}
	}
}

// awaitGone waits until an Application is deleted.
func (m *move) awaitGone(ctx context.Context, place tracking.App) error {
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	_, err := kube.WaitFor(ctx, m.inspector.Applications(place.Namespace), kube.Named(place.Name), func(found []*unstructured.Unstructured) error {
		if len(found) > 0 {
			return fmt.Errorf("the Application %s is still there", place)
		}
		return nil
	})
	return err
}

// enable gives ours the settings of Argo CD's. It is the last write: from here
// on the runtime syncs by itself.
func (m *move) enable(ctx context.Context) error {
	if m.ours == nil { // a dry run
		m.ours = &inspect.Application{Application: &v1alpha1.Application{}, Object: &unstructured.Unstructured{Object: map[string]any{}}}
		m.ours.Namespace, m.ours.Name, m.ours.Annotations = m.To.Namespace, m.To.Name, map[string]string{annotationPending: "true"}
	}
	_, err := m.change(ctx, m.ours, "the runtime's Application gets its automated sync and finalizers", func(app *inspect.Application) (map[string]any, error) {
		// An earlier attempt has enabled it. Settings that a user changed since
		// must stay.
		if _, pending := app.Annotations[annotationPending]; !pending {
			return nil, nil
		}
		patch := map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{annotationPending: nil}, "finalizers": m.origin.Finalizers,
		}}
		if automated, there, _ := unstructured.NestedMap(m.origin.Spec, "syncPolicy", "automated"); there {
			patch["spec"] = map[string]any{"syncPolicy": map[string]any{"automated": automated}}
		}
		return patch, nil
	})
	return err
}
