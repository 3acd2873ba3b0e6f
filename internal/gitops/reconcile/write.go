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

// The annotations of an Application that ask for something.
const (
	refreshAnnotation  = "argocd.argoproj.io/refresh"
	approvedAnnotation = "argocd.argoproj.io/deletion-approved"
)

const (
	writeTimeout = 15 * time.Second
	// writeTries is how often a write is tried when somebody else was faster.
	writeTries = 5
	// fieldManager is who writes, as managedFields show it.
	fieldManager = "slipway-agent"
)

// draft is how an Application should be when a pass is over.
type draft struct {
	status v1alpha1.ApplicationStatus
	// consumed is the request that was taken up, and refresh the value of the
	// annotation that was followed. Both are removed, unless they are others now.
	consumed *v1alpha1.Operation
	refresh  string
	// finalizers are the ones to remove.
	finalizers []string
}

// patchFor is what leads from an Application to the draft, or nil if it is so
// already. It never touches the spec. What is not ours alone is written for the
// version that was read only.
func patchFor(app *v1alpha1.Application, want *draft, now time.Time) (map[string]any, error) {
	patch := map[string]any{}
	guarded := false
	if want.consumed != nil && reflect.DeepEqual(app.Operation, want.consumed) {
		patch["operation"] = nil
		guarded = true
	}
	metadata := map[string]any{}
	if want.refresh != "" && app.Annotations[refreshAnnotation] == want.refresh {
		metadata["annotations"] = map[string]any{refreshAnnotation: nil}
	}
	if kept := without(app.Finalizers, want.finalizers); len(kept) < len(app.Finalizers) {
		metadata["finalizers"] = kept
	}
	status, stateChanged, err := statusPatch(app, want, now)
	if err != nil {
		return nil, err
	}
	if len(status) > 0 {
		patch["status"] = status
	}
	if len(patch) == 0 && len(metadata) == 0 {
		return nil, nil
	}
	if guarded || stateChanged || len(metadata) > 0 {
		metadata["resourceVersion"] = app.ResourceVersion
	}
	// One that was deleted and made again is another one.
	metadata["uid"] = string(app.UID)
	patch["metadata"] = metadata
	return patch, nil
}

// statusPatch is the part of a patch that is about the status, and whether it
// touches the state of the operation, which clients write too.
func statusPatch(app *v1alpha1.Application, want *draft, now time.Time) (map[string]any, bool, error) {
	status := want.status
	if state := status.OperationState; state != nil && isTerminating(app) && !state.Phase.Completed() {
		// Somebody ended it meanwhile. That is not undone.
		asked := *state
		asked.Phase = v1alpha1.OperationTerminating
		status.OperationState = &asked
	}
	status.ReconciledAt = app.Status.ReconciledAt
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
		patch["reconciledAt"] = now.UTC().Format(time.RFC3339)
	}
	return patch, stateChanged, nil
}

// difference is the JSON merge patch between two documents.
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

func without(all, some []string) []string {
	kept := make([]string, 0, len(all))
	for _, one := range all {
		if !slices.Contains(some, one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// errGone says that there is no such Application any more.
var errGone = errors.New("the Application is gone")

// write makes the Application as the draft says. If somebody else wrote it
// meanwhile, that is read first. It reports whether anything was written.
func (p *pass) write(ctx context.Context, want *draft) (bool, error) {
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
		answer, err := client.Patch(request, p.id.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		if apierrors.IsConflict(err) && try < writeTries {
			answer, err = client.Get(request, p.id.Name, metav1.GetOptions{})
			cancel()
			if err == nil {
				err = p.adopt(answer, true)
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
		return true, p.adopt(answer, metadata["resourceVersion"] == nil)
	}
}

// adopt takes what the API server answered. If it may have what nobody has
// looked at yet, that is looked at after this pass.
func (p *pass) adopt(answer *unstructured.Unstructured, unseen bool) error {
	unstructured.RemoveNestedField(answer.Object, "metadata", "managedFields")
	app, refused, err := v1alpha1.Decode(answer.Object)
	if err != nil {
		return fmt.Errorf("read the Application: %w", err)
	}
	if app.UID != p.app.UID {
		return errGone
	}
	if unseen && !equality.Semantic.DeepEqual(request(p.app), request(app)) {
		p.queue.add(task{app: p.id}, becauseAsked)
	}
	p.app = app
	p.book.note(app, refused)
	return nil
}
