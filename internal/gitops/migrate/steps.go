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
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// annotationPending is on ours until it has its automated sync and finalizers.
const annotationPending = "slipway.dev/migration-pending"

// deleteTries is how often the deletion is tried when somebody was faster.
const deleteTries = 5

// cascades are the finalizers of Argo CD: with one of them, a deletion takes the
// resources along or runs hooks.
func cascades(finalizer string) bool { return strings.Contains(finalizer, "argocd.argoproj.io") }

func without(finalizers []string) []string {
	kept := []string{}
	for _, each := range finalizers {
		if !cascades(each) {
			kept = append(kept, each)
		}
	}
	return kept
}

// hold has Argo CD let go: in one write, so that there is no moment with a part of
// it. What it had is kept on it.
func (m *move) hold(ctx context.Context) error {
	changed, err := m.change(ctx, m.argo, "Argo CD lets go: no automated sync, no cascading deletion, no reconciliation", holdPatch)
	if err != nil {
		return err
	}
	if m.DryRun {
		if m.held == nil {
			m.held = recordOf(m.argo)
		}
		return nil
	}
	m.argo = changed
	if m.held, err = readHeld(changed.Annotations); err != nil {
		return err
	}
	// A sync that Argo CD began before it saw the change would go on beside ours.
	if inspect.Idle(changed) != nil {
		return fmt.Errorf("a sync of %s by Argo CD began at this moment: take it back with slipway app migrate %s --back, wait for the sync, and try again", m.From, m.From)
	}
	return nil
}

func recordOf(app *inspect.Application) *held {
	made := &held{}
	for _, each := range app.Finalizers {
		if cascades(each) {
			made.Finalizers = append(made.Finalizers, each)
		}
	}
	_, made.Policy, _ = unstructured.NestedMap(app.Object.Object, "spec", "syncPolicy")
	made.Automated, _, _ = unstructured.NestedMap(app.Object.Object, "spec", "syncPolicy", "automated")
	if skip, there := app.Annotations[annotationSkip]; there {
		made.Skip = &skip
	}
	return made
}

// holdPatch is what holds an Application; nil if it is held.
func holdPatch(app *inspect.Application) (map[string]any, error) {
	record, err := readHeld(app.Annotations)
	if err != nil {
		return nil, err
	}
	_, automated, _ := unstructured.NestedMap(app.Object.Object, "spec", "syncPolicy", "automated")
	kept := without(app.Finalizers)
	if record != nil && !automated && len(kept) == len(app.Finalizers) && app.Annotations[annotationSkip] == "true" {
		return nil, nil
	}
	if record == nil {
		if inspect.Idle(app) != nil {
			return nil, errors.New("the Application is being synced by Argo CD: wait until the sync is over, or end it in Argo CD")
		}
		record = recordOf(app)
	}
	text, err := encode(record)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{annotationHeld: text, annotationSkip: "true"}, "finalizers": kept,
	}}
	if automated {
		patch["spec"] = map[string]any{"syncPolicy": map[string]any{"automated": nil}}
	}
	return patch, nil
}

// makeOurs makes the runtime's Application. It syncs nothing by itself yet, and its
// deletion takes nothing along.
func (m *move) makeOurs(ctx context.Context, instance string, resources []*Resource) error {
	if m.ours != nil {
		return nil
	}
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
		m.tell(write)
		m.origin = was
		return err
	}
	_, err = m.inspector.Applications(m.To.Namespace).Create(ctx, made, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("make the Application %s: %w", m.To, err)
	}
	m.tell(write)
	return m.lookAtOurs(ctx)
}

// original is Argo CD's Application as it was before it was held.
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
	spec, _, _ := unstructured.NestedMap(m.argo.Object.Object, "spec")
	if m.held.Automated != nil {
		_ = unstructured.SetNestedMap(spec, m.held.Automated, "syncPolicy", "automated") // it was there
	}
	was.Spec = spec
	for _, resource := range resources {
		if resource.Left == "" {
			was.Objects = append(was.Objects, resource.marked())
		}
	}
	return was
}

// inherited are labels or annotations without those that say who has an object, or
// ask for something once.
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

// awaitCompared waits until the runtime has compared the resources with Git, and
// finds them as they should be.
func (m *move) awaitCompared(ctx context.Context) error {
	m.tellWait()
	if m.DryRun {
		return nil
	}
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

func (m *move) tellWait() {
	m.tell(Write{Verb: "wait", Object: "Application " + m.To.String(), Why: "until the runtime has compared it with Git"})
}

// missing says what a comparison lacks, or nothing.
func (m *move) missing(app *inspect.Application) string {
	switch status := app.Status.Sync.Status; {
	case status == v1alpha1.SyncSynced || m.Force && status == v1alpha1.SyncOutOfSync:
		return ""
	case status == "":
		return "the runtime has not looked at it: is one running whose namespace is " + m.ControlNamespace + "?"
	}
	told := []string{"it is " + string(app.Status.Sync.Status)}
	for _, resource := range app.Status.Resources {
		if resource.Status == v1alpha1.SyncOutOfSync && len(told) < 6 {
			key := tracking.Key{Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name}
			told = append(told, key.String()+" differs from Git")
		}
	}
	for _, condition := range app.Status.Conditions {
		told = append(told, condition.Message)
	}
	return strings.Join(told, ", ")
}

// dismiss deletes Argo CD's Application and nothing with it: it is deleted only as
// it was seen without a finalizer that would.
func (m *move) dismiss(ctx context.Context) error {
	write := Write{Verb: "delete", Object: "Application " + m.From.String(), Why: "without its resources: it has no finalizer any more"}
	if m.DryRun {
		m.tell(write)
		return nil
	}
	orphan := metav1.DeletePropagationOrphan
	for try := 1; ; try++ {
		now, err := m.get(ctx, m.From)
		if err != nil || now == nil {
			return err
		}
		if record, err := readHeld(now.Annotations); err != nil || record == nil || slices.ContainsFunc(now.Finalizers, cascades) {
			return fmt.Errorf("the Application %s was changed by somebody, and is not held any more: start the move again", m.From)
		}
		options := metav1.DeleteOptions{PropagationPolicy: &orphan, Preconditions: &metav1.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion}}
		err = m.inspector.Applications(m.From.Namespace).Delete(ctx, m.From.Name, options)
		switch {
		case err == nil:
			m.tell(write)
			return m.awaitGone(ctx, m.From)
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err) || try == deleteTries:
			return fmt.Errorf("delete the Application %s: %w", m.From, err)
		}
	}
}

// awaitGone waits until an Application is gone.
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

// enable gives ours what Argo CD's had.
func (m *move) enable(ctx context.Context) error {
	if m.ours == nil { // a dry run
		m.ours = &inspect.Application{Application: &v1alpha1.Application{}, Object: &unstructured.Unstructured{Object: map[string]any{}}}
		m.ours.Namespace, m.ours.Name, m.ours.Annotations = m.To.Namespace, m.To.Name, map[string]string{annotationPending: "true"}
	}
	_, err := m.change(ctx, m.ours, "the runtime's Application gets its automated sync and finalizers", func(app *inspect.Application) (map[string]any, error) {
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
