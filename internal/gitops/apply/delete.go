package apply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// hookFinalizer is what Argo CD puts on the objects of hooks, and what it
// removes when it deletes them.
const hookFinalizer = "argocd.argoproj.io/hook-finalizer"

// Delete deletes the object of a step: the one that was live when it was
// planned, by its uid. One that is gone already is no error; another one of
// that name is a Conflict.
func (a *Applier) Delete(ctx context.Context, step *plan.Step, options Options) error {
	if step.Live == nil {
		return &Error{Kind: Invalid, Key: step.Key, Message: "there is nothing to delete"}
	}
	at, err := a.refOf(ctx, step.Live)
	if fault, ok := errors.AsType[*Error](err); ok && fault.Kind == NotFound {
		return nil // its kind is gone, and all objects with it
	}
	if err != nil {
		return err
	}
	at.secrets = maskOf(at.key, step.Live)
	return a.remove(ctx, &at, removal{uid: step.Live.GetUID(), propagation: step.Options.Propagation, dryRun: options.DryRun})
}

// Clear deletes the object of a hook by its uid, with its dependents in the
// background. The finalizer that Argo CD put on it is removed: no other
// controller would.
func (a *Applier) Clear(ctx context.Context, key tracking.Key, uid types.UID) error {
	at := objectRef{key: key}
	if a.clientErr != nil {
		return at.newError(Transient, "there is no client for the API server", a.clientErr)
	}
	mapping, err := a.kinds.Mapping(ctx, key.GroupKind().WithVersion(""))
	if err != nil {
		return at.newError(Transient, err.Error(), err)
	}
	at.mapping = mapping
	if err := at.find(); err != nil {
		return err
	}
	err = a.remove(ctx, &at, removal{uid: uid, propagation: metav1.DeletePropagationBackground})
	if fault, ok := errors.AsType[*Error](err); ok && fault.Kind == Conflict {
		return nil // it is gone, and there is another
	}
	return err
}

// removal is how an object is deleted.
type removal struct {
	uid         types.UID
	propagation metav1.DeletionPropagation
	dryRun      bool
}

// remove deletes an object. One that is gone is no error. The UID is a
// precondition, so that an object that was created again under the name is
// never deleted.
func (a *Applier) remove(ctx context.Context, at *objectRef, how removal) error {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(how.uid))}
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	if how.propagation != "" {
		options.PropagationPolicy = &how.propagation
	}
	if how.dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(options)
	if err != nil {
		return at.newError(Invalid, "the request cannot be written", err)
	}
	raw, err := a.send(ctx, at, call{method: http.MethodDelete, path: at.path, body: body, exact: true})
	if fault, ok := errors.AsType[*Error](err); ok && isAbsent(fault.Err) {
		return nil
	}
	if err != nil || how.dryRun {
		return err
	}
	return a.release(ctx, at, raw)
}

// release removes the finalizer of hooks from an object that is being deleted.
// The resourceVersion in the patch makes it fail if another controller has
// changed the finalizers since.
func (a *Applier) release(ctx context.Context, at *objectRef, raw []byte) error {
	left, err := decode(raw)
	if err != nil || left.GetDeletionTimestamp() == nil {
		return nil // it is gone: the response is a Status, or the last state
	}
	finalizers := left.GetFinalizers()
	index := slices.Index(finalizers, hookFinalizer)
	if index < 0 {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": left.GetResourceVersion()},
		{"op": "replace", "path": "/metadata/finalizers", "value": slices.Delete(slices.Clone(finalizers), index, index+1)},
	})
	if err != nil {
		return at.newError(Invalid, "the request cannot be written", err)
	}
	_, err = a.send(ctx, at, call{method: http.MethodPatch, path: at.path, contentType: types.JSONPatchType, body: patch,
		query: map[string][]string{"fieldManager": {Manager}}, exact: true})
	if fault, ok := errors.AsType[*Error](err); ok && isAbsent(fault.Err) {
		return nil
	}
	return err
}
