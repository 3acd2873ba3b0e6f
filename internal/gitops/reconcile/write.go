package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// The annotations of an Application that are requests.
const (
	// The annotations of an Application that request something, with Argo CD's
	// names.
	refreshAnnotation  = "argocd.argoproj.io/refresh"
	approvedAnnotation = "argocd.argoproj.io/deletion-approved"
)

const (
	writeTimeout = 15 * time.Second
	// writeTries is how often a write is retried after a conflict.
	writeTries = 5
	// fieldManager is the name of our writes in managedFields.
	fieldManager = "slipway-agent"
)

// applicationUpdate is what a run changes in an Application.
type applicationUpdate struct {
	status v1alpha1.ApplicationStatus
	// consumed is the request that was taken up, and refresh the value of the
	// annotation that was satisfied. Both are removed, unless a client has set
	// another one meanwhile.
	consumed *v1alpha1.Operation
	refresh  string
	// finalizers are the ones to remove.
	finalizers []string
}

// wholePatch returns the merge patch for an update by one request, or nil if
// nothing changes. It never touches the spec. Fields that clients write, too, are
// patched for the version that was read only, so that no request is lost.
func wholePatch(app *v1alpha1.Application, want *applicationUpdate, now time.Time) (map[string]any, error) {
	patch := restPart(app, want)
	status, stateChanged, err := statusPatch(app, want, now)
	if err != nil || len(status) == 0 {
		return patch, err
	}
	if patch == nil {
		// One that was deleted and made again is another one.
		metadata := map[string]any{"uid": string(app.UID)}
		if stateChanged {
			metadata["resourceVersion"] = app.ResourceVersion
		}
		patch = map[string]any{"metadata": metadata}
	}
	patch["status"] = status
	return patch, nil
}

// statusPart is the patch of the status subresource; nil if nothing of it
// changes. It is for the version that was read: of the metadata nothing else
// counts.
func statusPart(app *v1alpha1.Application, want *applicationUpdate, now time.Time) (map[string]any, error) {
	status, _, err := statusPatch(app, want, now)
	if err != nil || len(status) == 0 {
		return nil, err
	}
	return map[string]any{"status": status, "metadata": map[string]any{"resourceVersion": app.ResourceVersion}}, nil
}

// restPart is the patch of everything but the status; nil if nothing changes.
func restPart(app *v1alpha1.Application, want *applicationUpdate) map[string]any {
	patch, metadata := map[string]any{}, map[string]any{}
	if want.consumed != nil && reflect.DeepEqual(app.Operation, want.consumed) {
		patch["operation"] = nil
	}
	if want.refresh != "" && app.Annotations[refreshAnnotation] == want.refresh {
		metadata["annotations"] = map[string]any{refreshAnnotation: nil}
	}
	if kept := without(app.Finalizers, want.finalizers); len(kept) < len(app.Finalizers) {
		metadata["finalizers"] = kept
	}
	if len(patch) == 0 && len(metadata) == 0 {
		return nil
	}
	metadata["resourceVersion"], metadata["uid"] = app.ResourceVersion, string(app.UID)
	patch["metadata"] = metadata
	return patch
}

// statusPatch returns the part of the patch for the status, and whether it
// touches the state of the operation, which clients write to terminate it.
func statusPatch(app *v1alpha1.Application, want *applicationUpdate, now time.Time) (map[string]any, bool, error) {
	status := want.status
	if state := status.OperationState; state != nil && isTerminating(app) && !state.Phase.Completed() {
		// A user has ended the operation meanwhile. That is not undone.
		requested := *state
		requested.Phase = v1alpha1.OperationTerminating
		status.OperationState = &requested
	}
	status.ReconciledAt = app.Status.ReconciledAt
	// Most runs change nothing, and to encode two statuses is a large part of one.
	if reflect.DeepEqual(app.Status, status) {
		return nil, false, nil
	}
	before, err := app.Status.Unstructured()
	if err != nil {
		return nil, false, fmt.Errorf("encode the status: %w", err)
	}
	after, err := status.Unstructured()
	if err != nil {
		return nil, false, fmt.Errorf("encode the status: %w", err)
	}
	patch := difference(before, after)
	_, stateChanged := patch["operationState"]
	if len(patch) > 0 {
		patch["reconciledAt"] = comparedAt(&status, now).UTC().Format(time.RFC3339)
	}
	return patch, stateChanged, nil
}

// comparedAt is when a run that began at now has compared what it writes. A run that ends
// an operation compares after it, and often in a later second than it began: clients of
// Argo CD wait until the comparison is not older than the end.
func comparedAt(status *v1alpha1.ApplicationStatus, now time.Time) time.Time {
	if state := status.OperationState; state != nil && state.FinishedAt != nil && state.FinishedAt.After(now) {
		return state.FinishedAt.Time
	}
	return now
}

// difference returns the JSON merge patch (RFC 7386) between two documents.
func difference(before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for name, value := range after {
		old, had := before[name]
		if had && reflect.DeepEqual(old, value) {
			continue
		}
		oldGroup, wasGroup := old.(map[string]any)
		newGroup, isGroup := value.(map[string]any)
		if wasGroup && isGroup {
			patch[name] = difference(oldGroup, newGroup)
		} else {
			patch[name] = value
		}
	}
	for name := range before {
		if _, still := after[name]; !still {
			patch[name] = nil
		}
	}
	return patch
}

// without returns a list without some of its elements.
func without(all, some []string) []string {
	kept := make([]string, 0, len(all))
	for _, one := range all {
		if !slices.Contains(some, one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// errGone means that the Application was deleted.
var errGone = errors.New("the Application is gone")

// write changes the Application, and reports whether anything was written.
func (p *reconcileRun) write(ctx context.Context, want *applicationUpdate) (bool, error) {
	if p.hasStatusSubresource.Load() {
		return p.writeParts(ctx, want)
	}
	before := p.app
	written, err := p.send(ctx, want, wholePatch)
	if err != nil || p.app == before || !equality.Semantic.DeepEqual(before.Status, p.app.Status) {
		return written, err
	}
	// The status was not written: nothing of it changes, or the definition was
	// replaced by one with the subresource.
	missing, _, err := statusPatch(p.app, want, p.now)
	if err != nil || len(missing) == 0 || !p.detectStatusSubresource(ctx) {
		return written, err
	}
	return p.writeParts(ctx, want)
}

// writeParts writes the status and the rest by requests of their own. The status
// comes first: if the process ends in between, a request that was taken up is
// still there, and the state shows that it was. The other way around it would be
// lost.
func (p *reconcileRun) writeParts(ctx context.Context, want *applicationUpdate) (bool, error) {
	status, err := p.send(ctx, want, statusPart, "status")
	if errors.Is(err, errGone) && !p.detectStatusSubresource(ctx) {
		return p.send(ctx, want, wholePatch) // the definition was replaced by one without the subresource
	}
	if err != nil {
		return status, err
	}
	rest, err := p.send(ctx, want, func(app *v1alpha1.Application, want *applicationUpdate, _ time.Time) (map[string]any, error) {
		return restPart(app, want), nil
	})
	return status || rest, err
}

// patchFunc makes the patch of an update, or of a part of it, for the version of an
// Application; nil if nothing changes.
type patchFunc func(app *v1alpha1.Application, want *applicationUpdate, now time.Time) (map[string]any, error)

// send sends a part of an update. After a conflict the Application is read again,
// and the patch is made for the new version.
func (p *reconcileRun) send(ctx context.Context, want *applicationUpdate, patchFor patchFunc, subresources ...string) (bool, error) {
	client := p.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(p.id.Namespace)
	for try := 1; ; try++ {
		patch, err := patchFor(p.app, want, p.now)
		if err != nil || patch == nil {
			return false, err
		}
		body, err := json.Marshal(patch)
		if err != nil {
			return false, fmt.Errorf("encode the status: %w", err)
		}
		request, cancel := context.WithTimeout(ctx, writeTimeout)
		response, err := client.Patch(request, p.id.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
		if apierrors.IsConflict(err) && try < writeTries {
			response, err = client.Get(request, p.id.Name, metav1.GetOptions{})
			cancel()
			if err == nil {
				err = p.takeResponse(response, true)
			}
			if err == nil {
				continue
			}
		}
		cancel()
		switch {
		case apierrors.IsNotFound(err):
			return false, errGone
		case err != nil:
			return false, fmt.Errorf("write the status: %w", err)
		}
		// What was written for one version only cannot have met another one.
		metadata, _ := patch["metadata"].(map[string]any)
		return true, p.takeResponse(response, metadata["resourceVersion"] == nil)
	}
}

// takeResponse stores the Application from a response. If it may contain a
// change that no run has seen, another run is enqueued: its event will be
// dropped as an echo.
func (p *reconcileRun) takeResponse(response *unstructured.Unstructured, unseen bool) error {
	unstructured.RemoveNestedField(response.Object, "metadata", "managedFields")
	app, refused, err := p.store.decode(response.Object)
	if err != nil {
		return fmt.Errorf("read the Application: %w", err)
	}
	if app.UID != p.app.UID {
		return errGone
	}
	if unseen && !equality.Semantic.DeepEqual(request(p.app), request(app)) {
		p.queue.add(item{app: p.id}, reasonChange)
	}
	p.app = app
	p.store.update(app, refused)
	return nil
}
