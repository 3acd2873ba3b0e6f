package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// SetOptions configures the move of an ApplicationSet with its Applications.
type SetOptions struct {
	Cluster *kube.Cluster
	// Set is Argo CD's. The runtime's has the same name.
	Set tracking.App
	// ControlNamespace is that of the runtime.
	ControlNamespace string
	// Force and Wait are those of the moves of its Applications.
	Force bool
	Wait  time.Duration
	// DryRun reports every write and makes none.
	DryRun bool
	// The callback gets every write, in their order; it may be nil.
	Report func(Write)
}

// setOrigin is Argo CD's ApplicationSet, stored on ours.
type setOrigin struct {
	origin
	// Applications are the names of those that it had generated.
	Applications []string `json:"applications"`
}

// setMove is one move of a set, in either direction.
type setMove struct {
	SetOptions
	// argo and ours are nil if they do not exist.
	argo, ours *unstructured.Unstructured
	record     *setOrigin
}

// newSetMove reads both sets.
func newSetMove(ctx context.Context, options SetOptions) (*setMove, error) {
	m := &setMove{SetOptions: options}
	m.Wait = cmp.Or(m.Wait, defaultWait)
	var err error
	if m.argo, err = m.get(ctx, m.Set.Namespace); err != nil {
		return nil, err
	}
	if m.ours, err = m.get(ctx, m.ControlNamespace); err != nil || m.ours == nil {
		return m, err
	}
	if m.record, err = readRecord[setOrigin](m.ours.GetAnnotations(), annotationOrigin); err != nil {
		return nil, fmt.Errorf("the ApplicationSet %s/%s: %w", m.ControlNamespace, m.Set.Name, err)
	}
	return m, nil
}

// sets is the client for the sets of a namespace.
func (m *setMove) sets(namespace string) dynamic.ResourceInterface {
	return m.Cluster.Dynamic.Resource(v1alpha1.SetResource()).Namespace(namespace)
}

// get reads the set of a namespace; nil if it does not exist.
func (m *setMove) get(ctx context.Context, namespace string) (*unstructured.Unstructured, error) {
	found, err := m.sets(namespace).Get(ctx, m.Set.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, wrapped("read the ApplicationSet "+namespace+"/"+m.Set.Name, err)
}

// report passes a write to the caller.
func (m *setMove) report(verb string, set *unstructured.Unstructured, why string) {
	if m.Report != nil {
		m.Report(Write{Verb: verb, Object: "ApplicationSet " + set.GetNamespace() + "/" + set.GetName(), Why: why})
	}
}

// options returns the options of the move of one Application.
func (m *setMove) options(name string) Options {
	return Options{
		Cluster: m.Cluster, From: tracking.App{Namespace: m.Set.Namespace, Name: name}, To: tracking.App{Namespace: m.ControlNamespace, Name: name},
		ControlNamespace: m.ControlNamespace, Force: m.Force, Wait: m.Wait, DryRun: m.DryRun, Report: m.Report, withSet: true,
	}
}

// RunSet moves an ApplicationSet of Argo CD to the runtime, with its Applications.
// Ours is created and generates nothing yet; Argo CD's is deleted without its
// Applications, which would be written again otherwise; these are moved one after
// the other; ours adopts them. After an interruption it continues where it
// stopped.
func RunSet(ctx context.Context, options SetOptions) ([]Report, error) {
	m, err := newSetMove(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if m.argo != nil {
		if err := m.takeSet(ctx); err != nil {
			return nil, err
		}
	}
	var moved []Report
	for _, name := range m.record.Applications {
		report, err := Run(ctx, m.options(name))
		if err != nil {
			return moved, err
		}
		moved = append(moved, report)
	}
	return moved, m.enable(ctx)
}

// check returns why the set cannot be moved.
func (m *setMove) check() error {
	switch {
	case m.Set.Namespace == m.ControlNamespace:
		return errors.New("Argo CD and the runtime would both read the ApplicationSets of " + m.ControlNamespace + ": install the runtime to a namespace of its own")
	case m.ours != nil && (m.record == nil || m.record.app() != m.Set):
		return fmt.Errorf("the runtime has another ApplicationSet %s/%s: delete it first, or rename Argo CD's", m.ControlNamespace, m.Set.Name)
	case m.argo == nil && m.record == nil:
		return fmt.Errorf("there is no ApplicationSet %s", m.Set)
	case m.argo == nil:
		return nil
	}
	set, refused, err := v1alpha1.DecodeSet(m.argo.Object)
	switch {
	case err != nil:
		return err
	case len(refused) > 0:
		return fmt.Errorf("the ApplicationSet %s cannot be moved, as %w", m.Set, refused[0])
	case set.Spec.Strategy.IsReverse():
		return fmt.Errorf("Argo CD deletes the Applications of %s together with it: remove deletionOrder of its strategy first", m.Set)
	case set.Spec.SyncPolicy != nil && slices.Contains([]string{"create-only", "create-delete"}, set.Spec.SyncPolicy.ApplicationsSync):
		return fmt.Errorf("applicationsSync of %s does not allow that existing Applications are taken over: set create-update or sync first", m.Set)
	case m.argo.GetDeletionTimestamp() != nil && m.record == nil:
		return fmt.Errorf("the ApplicationSet %s is being deleted", m.Set)
	}
	return nil
}

// takeSet checks all Applications, and replaces Argo CD's set with ours.
func (m *setMove) takeSet(ctx context.Context) error {
	// Ours of an interrupted move has generated nothing while Argo CD's exists. It
	// is made again, because its list of Applications may be old.
	if m.ours != nil && m.argo.GetDeletionTimestamp() == nil {
		if err := m.deleteSet(ctx, m.ours, "it is of an interrupted move"); err != nil {
			return err
		}
		m.ours = nil
	}
	if m.ours == nil {
		if err := m.plan(ctx); err != nil {
			return err
		}
		if err := m.makeOurs(ctx); err != nil {
			return err
		}
	}
	return m.deleteSet(ctx, m.argo, "without its Applications, which it would write again")
}

// plan lists the Applications of Argo CD's set, and checks each as a dry run
// before the first write.
func (m *setMove) plan(ctx context.Context) error {
	names, err := m.generated(ctx, m.argo)
	if err != nil {
		return err
	}
	m.record = &setOrigin{Applications: names, origin: origin{
		Namespace: m.Set.Namespace, Name: m.Set.Name, Labels: m.argo.GetLabels(), Annotations: m.argo.GetAnnotations(), Finalizers: m.argo.GetFinalizers(),
	}}
	m.record.Spec, _, _ = unstructured.NestedMap(m.argo.Object, "spec")
	if m.DryRun {
		return nil // the moves report
	}
	var problems []error
	for _, name := range names {
		options := m.options(name)
		options.DryRun, options.Report = true, nil
		_, err := Run(ctx, options)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// generated returns the names of the Applications that have a set as their owner.
func (m *setMove) generated(ctx context.Context, set *unstructured.Unstructured) ([]string, error) {
	list, err := m.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(set.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Applications of %s: %w", set.GetNamespace(), err)
	}
	names := []string{}
	for i := range list.Items {
		if owns(set, &list.Items[i]) {
			names = append(names, list.Items[i].GetName())
		}
	}
	return names, nil
}

// owns reports whether an Application has a set as its owner.
func owns(set, app *unstructured.Unstructured) bool {
	return slices.ContainsFunc(app.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == set.GetUID() })
}

// makeOurs creates the runtime's set, which generates nothing yet.
func (m *setMove) makeOurs(ctx context.Context) error {
	text, err := encode(m.record)
	if err != nil {
		return err
	}
	annotations := inherited(m.record.Annotations)
	annotations[annotationOrigin], annotations[annotationPending] = text, "true"
	m.ours, err = m.create(ctx, metav1.ObjectMeta{Namespace: m.ControlNamespace, Labels: inherited(m.record.Labels), Annotations: annotations}, "the runtime's ApplicationSet, which generates nothing yet")
	return err
}

// create creates the set of a namespace with the spec of the record.
func (m *setMove) create(ctx context.Context, metadata metav1.ObjectMeta, why string) (*unstructured.Unstructured, error) {
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplicationSet, "spec": runtime.DeepCopyJSON(m.record.Spec),
	}}
	made.SetNamespace(metadata.Namespace)
	made.SetName(m.Set.Name)
	made.SetLabels(metadata.Labels)
	made.SetAnnotations(metadata.Annotations)
	made.SetFinalizers(metadata.Finalizers)
	if !m.DryRun {
		created, err := m.sets(metadata.Namespace).Create(ctx, made, metav1.CreateOptions{FieldManager: manager})
		if err != nil {
			return nil, fmt.Errorf("make the ApplicationSet %s/%s: %w", metadata.Namespace, m.Set.Name, err)
		}
		made = created
	}
	m.report("create", made, why)
	return made, nil
}

// deleteSet deletes a set without its Applications, and waits until it is gone:
// then the garbage collector has removed it from their owners. Finalizers with
// which a controller would delete them are removed first, and that of the comments of
// previews, which stay.
func (m *setMove) deleteSet(ctx context.Context, set *unstructured.Unstructured, why string) error {
	m.report("delete", set, why)
	if m.DryRun {
		return nil
	}
	kept := slices.DeleteFunc(without(set.GetFinalizers()), func(one string) bool { return one == appset.CommentFinalizer })
	if len(kept) < len(set.GetFinalizers()) {
		if err := m.patch(ctx, set, map[string]any{"finalizers": kept}); err != nil {
			return err
		}
	}
	orphan, uid := metav1.DeletePropagationOrphan, set.GetUID()
	err := m.sets(set.GetNamespace()).Delete(ctx, set.GetName(), metav1.DeleteOptions{PropagationPolicy: &orphan, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the ApplicationSet %s/%s: %w", set.GetNamespace(), set.GetName(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	_, err = kube.WaitFor(ctx, m.sets(set.GetNamespace()), kube.Named(set.GetName()), func(found []*unstructured.Unstructured) error {
		if len(found) > 0 && found[0].GetUID() == uid {
			return fmt.Errorf("the ApplicationSet %s/%s is still there, with the finalizers %s", set.GetNamespace(), set.GetName(), strings.Join(found[0].GetFinalizers(), ", "))
		}
		return nil
	})
	return err
}

// patch changes metadata of a set.
func (m *setMove) patch(ctx context.Context, set *unstructured.Unstructured, metadata map[string]any) error {
	metadata["uid"] = string(set.GetUID())
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = m.sets(set.GetNamespace()).Patch(ctx, set.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	return wrapped("change the ApplicationSet "+set.GetNamespace()+"/"+set.GetName(), err)
}

// enable lets ours generate, and waits until it has adopted the Applications.
func (m *setMove) enable(ctx context.Context) error {
	m.report("patch", m.ours, "it generates its Applications from here on")
	if m.DryRun {
		return nil
	}
	if err := m.patch(ctx, m.ours, map[string]any{"annotations": map[string]any{annotationPending: nil}}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	_, err := kube.WaitFor(ctx, m.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(m.ControlNamespace), metav1.ListOptions{}, func(found []*unstructured.Unstructured) error {
		for _, app := range found {
			if slices.Contains(m.record.Applications, app.GetName()) && !owns(m.ours, app) {
				return fmt.Errorf("the ApplicationSet %s/%s has not adopted %s: see its conditions", m.ControlNamespace, m.Set.Name, app.GetName())
			}
		}
		return nil
	})
	return err
}
