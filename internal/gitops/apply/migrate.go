package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// migrate makes fields ours that a client-side apply left to other managers, so
// that what is removed in Git is removed from the object. It is done once: an
// object that we have applied has an entry of ours. The patch carries the
// version that was read, and is repeated after a conflict.
func (w *objectWrite) migrate(ctx context.Context, live *unstructured.Unstructured) error {
	for try := 1; ; try++ {
		patch, err := migration(live)
		if err != nil {
			return w.ref.newError(Invalid, "its managedFields cannot be read: "+err.Error(), nil)
		}
		if patch == nil {
			return nil
		}
		_, err = w.send(ctx, &w.ref, call{
			method: http.MethodPatch, path: w.ref.path, contentType: types.JSONPatchType, body: patch,
			query: map[string][]string{"fieldManager": {Manager}}, exact: true,
		})
		fault, ok := errors.AsType[*Error](err)
		switch {
		case err == nil || ok && isAbsent(fault.Err):
			return nil // what is gone has no fields, and is created
		case !ok || fault.Kind != Conflict || try == conflicts:
			return err
		}
		if live, err = w.read(ctx); err != nil {
			return err
		}
	}
}

// migration is the patch that makes fields ours, or nil if there is nothing to
// do.
func migration(live *unstructured.Unstructured) ([]byte, error) {
	entries := entriesOf(live.Object)
	if ours(entries) != nil {
		return nil, nil
	}
	byHand := onlyByHand(entries)
	var rest []any
	var taken *fieldpath.Set
	var mine map[string]any
	dropped := false
	for _, entry := range entries {
		switch role := roleOf(entry, byHand); {
		case role == keepEntry:
			rest = append(rest, map[string]any(entry))
		case role == dropEntry:
			dropped = true
		default:
			fields, err := setOf(entry)
			if err != nil {
				return nil, err
			}
			if mine == nil {
				mine, taken = maps.Clone(entry), fields
				continue
			}
			taken = taken.Union(fields)
		}
	}
	if mine == nil && !dropped {
		return nil, nil
	}
	if mine != nil {
		raw, err := taken.ToJSON()
		if err != nil {
			return nil, err
		}
		mine["manager"], mine["operation"], mine["fieldsV1"] = Manager, "Apply", json.RawMessage(raw)
		rest = append(rest, mine)
	}
	if rest == nil {
		// An empty list would make the API server start over with an entry that
		// owns everything.
		rest = []any{map[string]any{"manager": Manager, "operation": "Apply", "apiVersion": live.GetAPIVersion(),
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{}}}
	}
	return json.Marshal(migrationSteps(live, rest))
}

// migrationSteps is the JSON patch: the new managedFields, the version that was
// read, and the removal of kubectl's annotation.
func migrationSteps(live *unstructured.Unstructured, entries []any) []map[string]any {
	steps := []map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		// Not a test: that would fail as an object that is wrong, and this fails
		// as a conflict.
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	}
	if _, has := live.GetAnnotations()[lastApplied]; has {
		steps = append(steps, map[string]any{"op": "remove", "path": "/metadata/annotations/" + strings.ReplaceAll(lastApplied, "/", "~1")})
	}
	return steps
}

// managedEntry is one of an object's managedFields, as it is decoded.
type managedEntry map[string]any

// text is a field of the entry, or empty.
func (e managedEntry) text(field string) string {
	value, _ := e[field].(string)
	return value
}

// fields is the tree of the entry, or nil.
func (e managedEntry) fields() map[string]any {
	tree, _ := e["fieldsV1"].(map[string]any)
	return tree
}

// entriesOf are the managedFields of an object.
func entriesOf(object map[string]any) []managedEntry {
	metadata, _ := object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	entries := make([]managedEntry, 0, len(list))
	for _, each := range list {
		if entry, ok := each.(map[string]any); ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

// ours is the entry of what we applied, or nil.
func ours(entries []managedEntry) managedEntry {
	for _, entry := range entries {
		if entry.text("manager") == Manager && entry.text("operation") == "Apply" && entry.text("subresource") == "" {
			return entry
		}
	}
	return nil
}

// entryRole is what a migration does with an entry.
type entryRole int

const (
	keepEntry entryRole = iota
	dropEntry
	takeEntry
)

// roleOf decides what becomes of an entry. Subresources stay with their
// controllers.
func roleOf(entry managedEntry, byHand bool) entryRole {
	if entry.text("subresource") != "" {
		return keepEntry
	}
	isUpdate := entry.text("operation") == "Update"
	switch entry.text("manager") {
	case "before-first-apply":
		return dropEntry
	case "argocd-controller":
		return takeEntry
	case "kubectl-client-side-apply", "kubectl-last-applied":
		// The second is what kubectl apply --server-side keeps the annotation
		// with; it is an Apply.
		return takeEntry
	case "kubectl-create", "kubectl-edit", "kubectl-replace":
		if isUpdate && byHand {
			return takeEntry
		}
	}
	return keepEntry
}

// onlyByHand reports whether only people with kubectl own fields of an object,
// apart from subresources.
func onlyByHand(entries []managedEntry) bool {
	for _, entry := range entries {
		if entry.text("subresource") == "" && !strings.HasPrefix(entry.text("manager"), "kubectl-") {
			return false
		}
	}
	return true
}

// setOf decodes the field set of an entry (KEP-555, FieldsV1).
func setOf(entry managedEntry) (*fieldpath.Set, error) {
	raw, err := json.Marshal(entry.fields())
	if err != nil {
		return nil, err
	}
	set := &fieldpath.Set{}
	if entry.fields() == nil {
		return set, nil
	}
	return set, set.FromJSON(bytes.NewReader(raw))
}
