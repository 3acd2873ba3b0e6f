package appset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
)

// fieldManager is the field manager of Applications.
const fieldManager = "slipway-applicationset"

// policy is what may be done to existing Applications.
type policy struct{ update, remove bool }

// policyOf reads applicationsSync. The default is everything.
func policyOf(set *v1alpha1.ApplicationSet) policy {
	mode := ""
	if set.Spec.SyncPolicy != nil {
		mode = set.Spec.SyncPolicy.ApplicationsSync
	}
	switch mode {
	case "create-only":
		return policy{}
	case "create-update":
		return policy{update: true}
	case "create-delete":
		return policy{remove: true}
	}
	return policy{update: true, remove: true}
}

// requestTimeout bounds one request.
const requestTimeout = 30 * time.Second

// listTimeout bounds a list of Applications.
const listTimeout = 2 * time.Minute

// maxErrors bounds the errors in the status of one set.
const maxErrors = 10

// synchronize creates, updates and deletes the Applications of a set. It tries
// all of them and returns all errors. The reason is that of the first.
// Creations and updates come before deletions, and all go in the order of
// names, so that logs of two runs can be compared.
func (c *Controller) synchronize(ctx context.Context, set *v1alpha1.ApplicationSet, wanted map[string]*desired) (string, error) {
	allowed, live := policyOf(set), c.ownedBy(set)
	reason, failures := "", []error{}
	note := func(because string, err error) {
		if err != nil && len(failures) < maxErrors {
			failures = append(failures, err)
			reason = cmp.Or(reason, because) // the first one
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		known, exists := live[name]
		switch {
		case ctx.Err() != nil:
			return reasonUpdate, ctx.Err()
		case !exists:
			note(reasonCreate, c.create(ctx, set, wanted[name], allowed))
		case allowed.update && !known.deleting:
			note(reasonUpdate, c.update(ctx, set, wanted[name], known))
		}
	}
	if err := keptError(set, wanted, live); err != nil && allowed.remove {
		return reasonKept, err
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		_, stays := wanted[name]
		if stays || !allowed.remove || live[name].deleting || ctx.Err() != nil || !c.reportRemoved(ctx, set, name, live[name]) {
			continue
		}
		note(reasonDelete, c.remove(ctx, set, name, live[name]))
	}
	return reason, errors.Join(failures...)
}

// ownedBy returns the Applications of a set by name.
func (c *Controller) ownedBy(set *v1alpha1.ApplicationSet) map[string]record {
	return c.store.owned(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": set.Namespace, "uid": string(set.UID)},
	}})
}

// allowEmptyAnnotation lets generators without a result delete all Applications
// of a set.
const allowEmptyAnnotation = "slipway.dev/allow-empty"

// errKept is the error of a set whose Applications are kept. A retry does not
// help: the generators or the annotation have to change.
var errKept = errors.New("the generators give no Applications")

// keptError is why no Application of a set is deleted, or nil. A folder that was
// renamed, a pattern or a selector with a typo give nothing, and look like a set
// that is not needed any more. What they would delete has all the workloads of
// the set below it, so that an empty result has to be confirmed. It is decided
// by what exists, and not by the last result, which a restart forgets.
func keptError(set *v1alpha1.ApplicationSet, wanted map[string]*desired, live map[string]record) error {
	existing := 0
	for _, one := range live {
		if !one.deleting {
			existing++
		}
	}
	if len(wanted) > 0 || existing == 0 || set.Annotations[allowEmptyAnnotation] == "true" {
		return nil
	}
	// A repository without open pull requests is no mistake, and previews go with
	// them.
	if _, every := pullGenerators(set); every {
		return nil
	}
	return fmt.Errorf("%w, and %d exist, which are kept: check what the generators read, or set the annotation %s: \"true\" on the ApplicationSet to delete them",
		errKept, existing, allowEmptyAnnotation)
}

// client is the client for the Applications of a namespace.
func (c *Controller) client(namespace string) dynamic.ResourceInterface {
	return c.options.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(namespace)
}

// ownerOf is the owner reference of a set's Applications.
func ownerOf(set *v1alpha1.ApplicationSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, v1alpha1Kind())
}

// create creates an Application, or adopts an existing one of the name.
func (c *Controller) create(ctx context.Context, set *v1alpha1.ApplicationSet, wanted *desired, allowed policy) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	content, err := decodeBody(wanted.body)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion(v1alpha1.APIVersion)
	object.SetKind(v1alpha1.KindApplication)
	object.SetNamespace(set.Namespace)
	object.SetName(wanted.name)
	object.SetOwnerReferences([]metav1.OwnerReference{ownerOf(set)})
	made, err := c.client(set.Namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	// The store only has Applications of sets, so that one of the name may
	// exist.
	case apierrors.IsAlreadyExists(err):
		return c.adopt(ctx, set, wanted, allowed)
	case err != nil:
		return fmt.Errorf("application %s cannot be created: %w", wanted.name, err)
	}
	c.options.Log.Info("created Application", "set", set.Namespace+"/"+set.Name, "application", wanted.name)
	c.written(made)
	return nil
}

// adopt takes over an Application without a controller, as Argo CD does. An
// Application of another set is an error. So is one of another project: all sets
// of the control namespace could take it otherwise, also those of tenants.
func (c *Controller) adopt(ctx context.Context, set *v1alpha1.ApplicationSet, wanted *desired, allowed policy) error {
	object, err := c.client(set.Namespace).Get(ctx, wanted.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("application %s cannot be read: %w", wanted.name, err)
	}
	owner := metav1.GetControllerOf(object)
	switch {
	case owner != nil && owner.UID == set.UID:
		c.written(object)
		return nil
	case owner != nil:
		return fmt.Errorf("application %s belongs to %s %s: give it another name", wanted.name, owner.Kind, owner.Name)
	case projectIn(object.Object) != wanted.project:
		return fmt.Errorf("application %s exists in project %s, and not in %s: give it another name, or change its project first",
			wanted.name, projectIn(object.Object), wanted.project)
	case !allowed.update:
		return fmt.Errorf("application %s exists, and applicationsSync does not allow that it is changed: give it another name", wanted.name)
	}
	// UID and resourceVersion make sure that it is still the object without a
	// controller.
	references := append(object.GetOwnerReferences(), ownerOf(set))
	patch := map[string]any{"metadata": map[string]any{
		"ownerReferences": references, "uid": string(object.GetUID()), "resourceVersion": object.GetResourceVersion(),
	}}
	taken, err := c.patch(ctx, set.Namespace, wanted.name, patch)
	if err != nil {
		return fmt.Errorf("application %s cannot be taken over: %w", wanted.name, err)
	}
	known := newRecord(taken)
	if known == nil {
		return fmt.Errorf("application %s has not been taken over", wanted.name)
	}
	return c.update(ctx, set, wanted, *known)
}

// update patches what differs, and sends nothing if that is nothing. The patch
// has no resourceVersion: the fields of a set are its own, and a conflict with
// a status update would only cost a retry.
func (c *Controller) update(ctx context.Context, set *v1alpha1.ApplicationSet, wanted *desired, known record) error {
	ignore, err := c.ignoreOf(set)
	if err != nil {
		return err
	}
	patch, err := wanted.mergePatch(known.body, set.Spec.PreservedFields, ignore)
	if err != nil || patch == nil {
		return err
	}
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	// The UID protects an Application that was deleted and created again by
	// someone else.
	metadata["uid"] = string(known.uid)
	if _, err := c.patch(ctx, set.Namespace, wanted.name, patch); err != nil {
		return fmt.Errorf("application %s cannot be changed: %w", wanted.name, err)
	}
	c.options.Log.Info("updated Application", "set", set.Namespace+"/"+set.Name, "application", wanted.name)
	return nil
}

// remove deletes an Application that is no longer generated. If its objects
// must stay, the finalizer that would delete them is removed first.
func (c *Controller) remove(ctx context.Context, set *v1alpha1.ApplicationSet, name string, known record) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if set.Spec.SyncPolicy != nil && set.Spec.SyncPolicy.PreserveResourcesOnDeletion {
		content, err := decodeBody(known.body)
		if err != nil {
			return err
		}
		// Finalizers are removed in a request of their own, before the deletion
		// sees them.
		present, _ := content["metadata"].(map[string]any)["finalizers"].([]any)
		if kept := keepFinalizers(present, nil); len(kept) < len(present) {
			patch := map[string]any{"metadata": map[string]any{"finalizers": kept, "uid": string(known.uid)}}
			if _, err := c.patch(ctx, set.Namespace, name, patch); err != nil {
				return fmt.Errorf("application %s cannot be changed so that its objects stay: %w", name, err)
			}
		}
	}
	// The UID protects an Application that was created again under the name.
	background := metav1.DeletePropagationBackground
	err := c.client(set.Namespace).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &known.uid}, PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("application %s cannot be deleted: %w", name, err)
	}
	c.options.Log.Info("deleted Application", "set", set.Namespace+"/"+set.Name, "application", name)
	return nil
}

// patch sends a JSON merge patch and stores the response.
func (c *Controller) patch(ctx context.Context, namespace, name string, content map[string]any) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	encoded, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	made, err := c.client(namespace).Patch(ctx, name, types.MergePatchType, encoded, metav1.PatchOptions{FieldManager: fieldManager})
	if err == nil {
		c.written(made)
	}
	return made, err
}

// written stores a response, so that the next run does not repeat the request
// before the event arrives.
func (c *Controller) written(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	c.store.putApplication(object, fromWrite)
}

// release handles a set that is being deleted. Kubernetes deletes its
// Applications by their owner reference. A set with the finalizer whose policy
// keeps Applications removes the references first, as Argo CD documents. One with
// previews changes their comments first.
func (c *Controller) release(ctx context.Context, set *v1alpha1.ApplicationSet) error {
	// The comments first: they are found by the Applications.
	if left, err := c.releaseComments(ctx, set); left || err != nil {
		return err
	}
	if !slices.Contains(set.Finalizers, generate.Finalizer) {
		return nil
	}
	switch {
	case !policyOf(set).remove:
		if err := c.disown(ctx, set); err != nil {
			return err
		}
	case set.Spec.Strategy.IsReverse():
		if left, err := c.deleteReverse(ctx, set); left || err != nil {
			return err
		}
	}
	// The finalizer goes last: until then a failure is retried.
	return c.removeFinalizer(ctx, set, generate.Finalizer)
}

// removeFinalizer removes one of the finalizers of a set.
func (c *Controller) removeFinalizer(ctx context.Context, set *v1alpha1.ApplicationSet, finalizer string) error {
	kept := slices.DeleteFunc(slices.Clone(set.Finalizers), func(one string) bool { return one == finalizer })
	if err := c.patchFinalizers(ctx, set, kept); err != nil {
		return fmt.Errorf("the finalizer %s of %s/%s cannot be removed: %w", finalizer, set.Namespace, set.Name, err)
	}
	return nil
}

// patchFinalizers replaces the finalizers of a set.
func (c *Controller) patchFinalizers(ctx context.Context, set *v1alpha1.ApplicationSet, finalizers []string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "uid": string(set.UID), "resourceVersion": set.ResourceVersion,
	}})
	if err != nil {
		return err
	}
	written, err := c.options.Cluster.Dynamic.Resource(v1alpha1.SetResource()).Namespace(set.Namespace).
		Patch(ctx, set.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		unstructured.RemoveNestedField(written.Object, "metadata", "managedFields")
		c.noteSet(written, fromWrite)
		set.Finalizers, set.ResourceVersion = written.GetFinalizers(), written.GetResourceVersion()
	}
	return err
}

// disown removes the set from the owners of its Applications. It lists from the
// API server: an Application that the watch has not delivered yet would be
// deleted with the set.
func (c *Controller) disown(ctx context.Context, set *v1alpha1.ApplicationSet) error {
	listing, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := c.client(set.Namespace).List(listing, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("the Applications of %s/%s cannot be read: %w", set.Namespace, set.Name, err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		owners := object.GetOwnerReferences()
		kept := slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool { return owner.UID == set.UID })
		if len(kept) == len(owners) {
			continue
		}
		patch := map[string]any{"metadata": map[string]any{
			"ownerReferences": kept, "uid": string(object.GetUID()), "resourceVersion": object.GetResourceVersion(),
		}}
		if _, err := c.patch(ctx, set.Namespace, object.GetName(), patch); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("application %s cannot be given up: %w", object.GetName(), err)
		}
	}
	return nil
}
