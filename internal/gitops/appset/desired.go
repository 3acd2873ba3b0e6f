package appset

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/plan"
)

// desired is a generated Application as canonical JSON.
type desired struct {
	// name and project are those of the Application. body has its labels,
	// annotations, finalizers and spec.
	name, project string
	body          []byte
	// prune is whether the syncs of a rollout prune.
	prune bool
}

// contentOf returns the part of an Application that a set controls. Other
// fields belong to users and other controllers.
func contentOf(object map[string]any) map[string]any {
	kept := map[string]any{}
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if !generate.IsEmpty(metadata[field]) {
			kept[field] = metadata[field]
		}
	}
	return map[string]any{"metadata": kept, "spec": object["spec"]}
}

// newDesired encodes a generated Application. Encoding sorts the fields, so
// that equal Applications have equal bodies and most comparisons need no
// decoding. In a rollout no sync is automated, as in Argo CD: the set starts them.
func newDesired(application *v1alpha1.Application, rolling bool) (*desired, error) {
	policy, prune := application.Spec.SyncPolicy, false
	if rolling && policy != nil && policy.Automated != nil {
		prune = policy.IsAutomated() && policy.Automated.Prune
		policy.Automated.Enabled = new(false)
	}
	object, err := application.Unstructured()
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", application.Name, err)
	}
	body, err := json.Marshal(contentOf(object))
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", application.Name, err)
	}
	return &desired{name: application.Name, project: application.Spec.ProjectName(), body: body, prune: prune}, nil
}

// projectIn returns the project of a live Application.
func projectIn(object map[string]any) string {
	spec, _ := object["spec"].(map[string]any)
	name, _ := spec["project"].(string)
	return cmp.Or(name, v1alpha1.DefaultProject)
}

// decodeBody decodes canonical JSON.
func decodeBody(body []byte) (map[string]any, error) {
	var decoded map[string]any
	err := json.Unmarshal(body, &decoded)
	return decoded, err
}

// The annotations of a move from Argo CD, which internal/gitops/migrate writes.
const (
	// PendingAnnotation is on a set that generates nothing, because Argo CD may
	// have its Applications still.
	PendingAnnotation = "slipway.dev/migration-pending"
	// OriginAnnotation is on a moved Application or set: what Argo CD's was.
	OriginAnnotation = "slipway.dev/migrated-from"
)

// preserved are annotations that other controllers write into Applications,
// such as a refresh request.
func preserved() []string {
	return []string{
		"notified.notifications.argoproj.io", "argocd.argoproj.io/refresh", "argocd.argoproj.io/hydrate", "argocd.argoproj.io/deletion-approved",
		OriginAnnotation,
	}
}

// mergePatch returns the change of a live Application; nil for none. As in Argo
// CD, labels and annotations are those of the template, except for the
// preserved ones, and so are finalizers, except for those of others.
func (d *desired) mergePatch(live []byte, fields *v1alpha1.ApplicationPreservedFields, ignore *plan.Ignore) (map[string]any, error) {
	// Most runs change nothing. Equal texts need no decoding.
	if string(live) == string(d.body) {
		return nil, nil
	}
	is, err := decodeBody(live)
	if err != nil {
		return nil, err
	}
	want, err := decodeBody(d.body)
	if err != nil {
		return nil, err
	}
	if fields == nil {
		fields = &v1alpha1.ApplicationPreservedFields{}
	}
	// contentOf always writes metadata, so that the assertions cannot fail.
	liveMeta, wantMeta := is["metadata"].(map[string]any), want["metadata"].(map[string]any)
	preserve(liveMeta, wantMeta, "annotations", append(preserved(), fields.Annotations...))
	preserve(liveMeta, wantMeta, "labels", fields.Labels)
	// An empty list would remove finalizers of others.
	if merged := keepFinalizers(liveMeta["finalizers"], wantMeta["finalizers"]); len(merged) > 0 {
		wantMeta["finalizers"] = merged
	}
	return difference(withoutIgnored(ignore, d.name, is, want)), nil
}

// preserve copies the named fields of the live object, which others write.
func preserve(live, want map[string]any, field string, names []string) {
	present, _ := live[field].(map[string]any)
	for _, name := range names {
		value, ok := present[name]
		if !ok {
			continue
		}
		into, _ := want[field].(map[string]any)
		if into == nil {
			into = map[string]any{}
			want[field] = into
		}
		into[name] = value
	}
}

// keepFinalizers returns the wanted finalizers, and those of the live object
// that are not ours to remove: hooks and Kubernetes add some.
func keepFinalizers(live, want any) []any {
	wanted, _ := want.([]any)
	merged := slices.Clone(wanted)
	present, _ := live.([]any)
	for _, one := range present {
		text, _ := one.(string)
		// Variants of our finalizer are replaced by the wanted one.
		if !strings.HasPrefix(text, generate.Finalizer) && !slices.Contains(merged, one) {
			merged = append(merged, one)
		}
	}
	return merged
}

// difference returns the JSON merge patch (RFC 7386) from one object to
// another; nil if they are equal.
func difference(is, want map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range is {
		// In a merge patch null removes a field.
		if _, stays := want[name]; !stays {
			patch[name] = nil
		}
	}
	for name, value := range want {
		before, present := is[name]
		if present && reflect.DeepEqual(before, value) {
			continue
		}
		inner, nested := value.(map[string]any)
		old, both := before.(map[string]any)
		// Objects are compared field by field, and lists are replaced as a
		// whole.
		if nested && both {
			patch[name] = difference(old, inner)
		} else {
			patch[name] = value
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}
