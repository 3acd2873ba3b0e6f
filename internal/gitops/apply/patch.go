package apply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
)

// actionManager is the field manager of changes by actions. They are no desired
// state, so that it differs from Manager: a sync neither takes over nor removes
// them.
const actionManager = "slipway-action"

// Patch changes a live object to another state of it, by a merge patch of what
// differs. It is a Conflict if the object has changed since it was read: a merge
// patch replaces whole lists. The status is changed apart, where the API server
// keeps it apart.
func (a *Applier) Patch(ctx context.Context, live, changed *unstructured.Unstructured, options Options) error {
	at, err := a.refOf(ctx, live)
	if err != nil {
		return err
	}
	at.secrets = maskOf(at.key, live, changed)
	patch, err := mergePatch(live, changed)
	if err != nil {
		return at.newError(Invalid, "the change cannot be written as JSON", err)
	}
	version := live.GetResourceVersion()
	if status, has := patch["status"]; has {
		patched, err := a.sendPatch(ctx, at, "/status", ofVersion(map[string]any{"status": status}, version), options)
		fault, failed := errors.AsType[*Error](err)
		switch {
		case err == nil:
			delete(patch, "status")
			// A dry run leaves the version as it is.
			if !options.DryRun {
				version = patched.GetResourceVersion()
			}
		case !failed || !apierrors.IsNotFound(fault.Err): // otherwise the kind has no status of its own
			return err
		}
	}
	if len(patch) == 0 {
		return nil
	}
	_, err = a.sendPatch(ctx, at, "", ofVersion(patch, version), options)
	return err
}

// ofVersion is a patch for one version of an object.
func ofVersion(patch map[string]any, version string) map[string]any {
	if patch["metadata"] == nil {
		patch["metadata"] = map[string]any{}
	}
	return versioned(patch, version)
}

// sendPatch sends a merge patch.
func (a *Applier) sendPatch(ctx context.Context, at objectRef, subresource string, patch map[string]any, options Options) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, at.newError(Invalid, "the change cannot be written as JSON", err)
	}
	query := url.Values{"fieldManager": {actionManager}, "fieldValidation": {metav1.FieldValidationStrict}}
	if options.DryRun {
		query.Set("dryRun", metav1.DryRunAll)
	}
	raw, err := a.send(ctx, &at, call{
		method: http.MethodPatch, path: at.path + subresource, contentType: types.MergePatchType, body: body, query: query, exact: true,
	})
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

// mergePatch returns what differs between two states of an object.
func mergePatch(live, changed *unstructured.Unstructured) (map[string]any, error) {
	before, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := changed.MarshalJSON()
	if err != nil {
		return nil, err
	}
	encoded, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	return patch, json.Unmarshal(encoded, &patch)
}
