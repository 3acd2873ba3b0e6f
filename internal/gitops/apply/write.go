package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/kube"
)

// conflicts is how often a write is repeated because the object changed after
// it was read. A controller that writes more often than that wins, and the step
// is retried by the operation.
const conflicts = 3

// apply writes the object server-side.
func (w *objectWrite) apply(ctx context.Context) ([]byte, error) {
	if w.step.Live != nil && !w.options.DryRun {
		if err := w.migrate(ctx, w.step.Live); err != nil {
			return nil, err
		}
	}
	raw, err := w.sendApply(ctx)
	fault, ok := errors.AsType[*Error](err)
	switch {
	case ok && fault.Kind == Immutable && w.step.Options.Force:
		return w.recreate(ctx, w.apply)
	case ok && fault.Kind == Conflict && w.step.Options.Create:
		return nil, w.ref.newError(Conflict, existsMessage, fault.Err)
	}
	return raw, err
}

// existsMessage is why an object is not created.
const existsMessage = "it was created meanwhile by another client"

// noVersion is a resourceVersion that no object has: the first write to a cluster
// has a later one. With it a server-side apply creates an object, for which the
// API server ignores the field, and is a conflict with one that exists.
const noVersion = "1"

// sendApply sends the server-side apply of the object: as it is, or with
// Validate=false without the fields that the kind does not have.
func (w *objectWrite) sendApply(ctx context.Context) (raw []byte, err error) {
	send := func(sent request) error {
		body := sent.body
		if w.step.Options.Create {
			if body, err = json.Marshal(versioned(sent.object, noVersion)); err != nil {
				return w.ref.newError(Invalid, "it cannot be written as JSON", err)
			}
		}
		raw, err = w.send(ctx, &w.ref, call{
			method: http.MethodPatch, path: w.ref.path, contentType: types.ApplyYAMLPatchType,
			body: body, query: w.query("force", "true"), exact: w.step.Options.Create,
		})
		return err
	}
	whole := request{w.object, w.body}
	if !w.step.Options.SkipValidation {
		err = send(whole)
		return raw, err
	}
	accepted, err := sendWithout(whole, send)
	w.object, w.body = accepted.object, accepted.body
	return raw, err
}

// create writes an object that does not exist.
func (w *objectWrite) create(ctx context.Context) ([]byte, error) {
	all, err := w.ref.mapping.Path(w.ref.key.Namespace, "")
	if err != nil {
		return nil, w.ref.newError(Invalid, err.Error(), err)
	}
	return w.send(ctx, &w.ref, call{method: http.MethodPost, path: all, body: w.body, query: w.query(), once: true})
}

// replace writes the object in the place of the live one. If that changed since
// it was read, it is read again: Replace means that Git has the last word.
func (w *objectWrite) replace(ctx context.Context) ([]byte, error) {
	version := w.step.Live.GetResourceVersion()
	for try := 1; ; try++ {
		body, err := json.Marshal(versioned(w.object, version))
		if err != nil {
			return nil, w.ref.newError(Invalid, "it cannot be written as JSON", err)
		}
		raw, err := w.send(ctx, &w.ref, call{method: http.MethodPut, path: w.ref.path, body: body, query: w.query(), exact: true})
		fault, ok := errors.AsType[*Error](err)
		switch {
		case err == nil:
			return raw, nil
		case ok && fault.Kind == Conflict && try < conflicts:
			live, err := w.read(ctx)
			if err != nil {
				return nil, err
			}
			version = live.GetResourceVersion()
		default:
			return nil, err
		}
	}
}

// versioned is an object with a resourceVersion.
func versioned(object map[string]any, version string) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["resourceVersion"] = version
	with := maps.Clone(object)
	with["metadata"] = metadata
	return with
}

// read reads the live object.
func (w *objectWrite) read(ctx context.Context) (*unstructured.Unstructured, error) {
	raw, err := w.send(ctx, &w.ref, call{method: http.MethodGet, path: w.ref.path})
	if err != nil {
		return nil, err
	}
	live, err := decode(raw)
	if err != nil {
		return nil, w.ref.newError(Transient, err.Error(), nil)
	}
	return live, nil
}

// recreate deletes the live object, waits until it is gone, and writes it
// again. The context of the step bounds the wait. Between both writes the
// object does not exist, which is what Force accepts.
func (w *objectWrite) recreate(ctx context.Context, again func(context.Context) ([]byte, error)) ([]byte, error) {
	old := w.step.Live
	if old == nil || w.options.DryRun {
		// A dry run cannot show what is created in the place of what exists. It
		// has shown that the object is read and permitted.
		return w.dryRunRecreate(ctx)
	}
	propagation := cmp.Or(w.step.Options.Propagation, metav1.DeletePropagationBackground)
	if err := w.remove(ctx, &w.ref, removal{uid: old.GetUID(), propagation: propagation}); err != nil {
		return nil, err
	}
	if err := w.awaitGone(ctx, old.GetUID()); err != nil {
		return nil, err
	}
	fresh := *w.step
	fresh.Live = nil
	w.step = &fresh
	raw, err := again(ctx)
	if err == nil {
		return raw, nil
	}
	return nil, w.restore(ctx, old, err)
}

// dryRunRecreate is the dry run of deleting and creating.
func (w *objectWrite) dryRunRecreate(ctx context.Context) ([]byte, error) {
	if w.step.Live == nil {
		return nil, w.ref.newError(Immutable, "it was created meanwhile, and cannot be changed", nil)
	}
	if err := w.remove(ctx, &w.ref, removal{uid: w.step.Live.GetUID(), propagation: metav1.DeletePropagationBackground, dryRun: true}); err != nil {
		return nil, err
	}
	return w.body, nil
}

// restore creates the old object again when the new one was refused: a typo in
// an immutable object must not take the service down. The error reports both.
func (w *objectWrite) restore(ctx context.Context, old *unstructured.Unstructured, cause error) error {
	fault, ok := errors.AsType[*Error](cause)
	if !ok {
		return cause
	}
	redacted := *fault
	previous := sanitize(old.Object)
	delete(previous, "status")
	body, err := json.Marshal(previous)
	if err == nil {
		before := *w
		before.body = body
		_, err = before.create(ctx)
	}
	if err == nil {
		redacted.Message += " (the old object was deleted because of Force, and has been created again)"
	} else {
		redacted.Message += " (the old object was deleted because of Force, and could not be created again)"
	}
	return &redacted
}

// awaitGone waits until an object does not exist, or is another one. The watch
// runs with the agent's own rights: an impersonated account that may delete
// need not have the right to watch.
func (w *objectWrite) awaitGone(ctx context.Context, uid types.UID) error {
	var objects dynamic.ResourceInterface = w.cluster.Dynamic.Resource(w.ref.mapping.Resource)
	if w.ref.mapping.Namespaced {
		objects = w.cluster.Dynamic.Resource(w.ref.mapping.Resource).Namespace(w.ref.key.Namespace)
	}
	var last *unstructured.Unstructured
	_, err := kube.WaitFor(ctx, objects, kube.Named(w.ref.key.Name), func(found []*unstructured.Unstructured) error {
		for _, object := range found {
			if object.GetUID() == uid {
				last = object
				return errors.New("it is still there")
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	message := "the old object is not gone yet"
	if last != nil && len(last.GetFinalizers()) > 0 {
		message += fmt.Sprintf("; its finalizers are %q, and the controllers that set them have to remove them", last.GetFinalizers())
	}
	return w.ref.newError(Transient, message, context.Cause(ctx))
}

// isAbsent reports whether an error means that the object does not exist.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) }
