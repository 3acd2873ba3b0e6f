package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ownManagers are the field managers of commands of this program that write
// objects beside Helm: repairs of slipway preflight, and slipway runtime mesh.
func ownManagers() []string { return []string{"slipway-preflight", "slipway-mesh"} }

// takeOver gives Helm the fields that our other commands own in the objects of a
// manifest. Helm applies without force, so that fields of other tools are
// conflicts for the user to decide. Fields of our own commands must not be: they
// would fail every later upgrade, and its rollback.
func (c *Client) takeOver(ctx context.Context, manifest string) error {
	objects, err := objectsOf(manifest)
	if err != nil {
		return fmt.Errorf("read the manifest of the release %s: %w", c.place, err)
	}
	for _, object := range objects {
		id, err := c.identify(object)
		if err != nil {
			return err
		}
		resource, err := c.resourceOf(object)
		if err != nil {
			return err
		}
		client := c.cluster.Metadata.Resource(resource).Namespace(id.Namespace)
		live, err := client.Get(ctx, id.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", id, err)
		}
		entries, err := withoutOwnManagers(live.GetManagedFields())
		if err != nil || entries == nil {
			continue // Helm reports the conflict
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "replace", "path": "/metadata/managedFields", "value": entries},
			// A change since the read is a conflict, and is not overwritten.
			{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		})
		if err != nil {
			return err
		}
		if _, err := client.Patch(ctx, id.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: helmFields}); err != nil {
			return fmt.Errorf("take over the fields of %s: %w", id, err)
		}
	}
	return nil
}

// withoutOwnManagers returns the entries with those of our own managers merged
// into Helm's, or nil if there are none. Helm then owns these fields, and its next
// apply removes the ones that the chart does not have.
func withoutOwnManagers(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	taken, version := &fieldpath.Set{}, ""
	var rest []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		ours := slices.Contains(ownManagers(), entry.Manager)
		helm := entry.Manager == helmFields && entry.Operation == metav1.ManagedFieldsOperationApply
		// Subresources stay with their controllers.
		if entry.Subresource != "" || !ours && !helm {
			rest = append(rest, entry)
			continue
		}
		fields, err := fieldSet(entry)
		if err != nil {
			return nil, err
		}
		taken = taken.Union(fields)
		if ours {
			version = entry.APIVersion
		}
	}
	if version == "" {
		return nil, nil
	}
	text, err := taken.ToJSON()
	if err != nil {
		return nil, err
	}
	merged := metav1.ManagedFieldsEntry{
		Manager: helmFields, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
	}
	if err := json.Unmarshal(text, merged.FieldsV1); err != nil {
		return nil, err
	}
	return append(rest, merged), nil
}

// fieldSet decodes the fields of an entry (KEP-555, FieldsV1).
func fieldSet(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if entry.FieldsV1 == nil {
		return set, nil
	}
	text, err := json.Marshal(entry.FieldsV1)
	if err != nil {
		return nil, err
	}
	return set, set.FromJSON(bytes.NewReader(text))
}

// Change upgrades the release with its own chart and with changed values; nil
// only applies it again. Fields that other tools have changed are taken over: it
// repairs objects of the release. Hooks do not run, because nothing is installed
// that was not validated before.
func (c *Client) Change(ctx context.Context, changes map[string]any) error {
	all, err := c.history(ctx)
	if err != nil {
		return err
	}
	last := deployed(all)
	if last == nil || newest(all).Info.Status.IsPending() {
		return errors.New("there is no healthy release " + c.place.String())
	}
	upgrade := action.NewUpgrade(c.config)
	upgrade.Namespace, upgrade.ResetThenReuseValues, upgrade.MaxHistory = c.place.Namespace, true, keptRevisions
	upgrade.DisableHooks, upgrade.ForceConflicts, upgrade.Timeout = true, true, requestTime
	upgrade.WaitStrategy, upgrade.WaitOptions = helmkube.HookOnlyStrategy, []helmkube.WaitOption{helmkube.WithWaitContext(ctx)}
	upgrade.Description = "repaired by slipway preflight"
	if changes == nil {
		changes = map[string]any{}
	}
	// Helm would return at once and write on in the background.
	if _, err := upgrade.RunWithContext(context.WithoutCancel(ctx), c.place.Release, last.Chart, changes); err != nil {
		return fmt.Errorf("apply the release %s again: %w", c.place, shortError(err))
	}
	return nil
}
