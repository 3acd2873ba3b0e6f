package appset

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// desired is an Application as its set wants it, as canonical JSON.
type desired struct {
	name string
	body []byte
}

// contentOf is what of an Application a set decides: what people or other
// programs add elsewhere is theirs.
func contentOf(object map[string]any) map[string]any {
	kept := map[string]any{}
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if !isEmpty(metadata[field]) {
			kept[field] = metadata[field]
		}
	}
	return map[string]any{"metadata": kept, "spec": object["spec"]}
}

// newDesired keeps a generated Application.
func newDesired(application *v1alpha1.Application) (*desired, error) {
	object, err := application.Unstructured()
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", application.Name, err)
	}
	body, err := json.Marshal(contentOf(object))
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", application.Name, err)
	}
	return &desired{name: application.Name, body: body}, nil
}

func decodeBody(body []byte) (map[string]any, error) {
	var decoded map[string]any
	err := json.Unmarshal(body, &decoded)
	return decoded, err
}

// preserved are annotations that other programs write into Applications.
func preserved() []string {
	return []string{
		"notified.notifications.argoproj.io", "argocd.argoproj.io/refresh", "argocd.argoproj.io/hydrate", "argocd.argoproj.io/deletion-approved",
	}
}

// patch is what has to be changed of a live Application, nil for nothing. As in
// Argo CD the labels and annotations are those of the template, but for those
// that are preserved, and the finalizers too, but for those of others.
func (d *desired) patch(live []byte, fields *v1alpha1.ApplicationPreservedFields) (map[string]any, error) {
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
	liveMeta, wantMeta := is["metadata"].(map[string]any), want["metadata"].(map[string]any)
	preserve(liveMeta, wantMeta, "annotations", append(preserved(), fields.Annotations...))
	preserve(liveMeta, wantMeta, "labels", fields.Labels)
	if merged := keepFinalizers(liveMeta["finalizers"], wantMeta["finalizers"]); len(merged) > 0 {
		wantMeta["finalizers"] = merged
	}
	return difference(is, want), nil
}

// preserve takes over what others wrote.
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

// keepFinalizers gives the wanted finalizers, and those of the live object that
// are not ours to remove: hooks, and Kubernetes itself, put some there.
func keepFinalizers(live, want any) []any {
	wanted, _ := want.([]any)
	merged := slices.Clone(wanted)
	present, _ := live.([]any)
	for _, one := range present {
		text, _ := one.(string)
		if !strings.HasPrefix(text, finalizer) && !slices.Contains(merged, one) {
			merged = append(merged, one)
		}
	}
	return merged
}

// difference is the JSON merge patch from one object to another, nil if they are
// the same.
func difference(is, want map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range is {
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
