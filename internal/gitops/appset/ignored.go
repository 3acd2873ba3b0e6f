package appset

import (
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/plan"
)

// ignoreOf compiles ignoreApplicationDifferences of a set; nil for none.
func (c *Controller) ignoreOf(set *v1alpha1.ApplicationSet) (*plan.Ignore, error) {
	if len(set.Spec.IgnoreApplicationDifferences) == 0 {
		return nil, nil
	}
	var rules []v1alpha1.ResourceIgnoreDifferences
	for _, rule := range set.Spec.IgnoreApplicationDifferences {
		rules = append(rules, v1alpha1.ResourceIgnoreDifferences{
			Group: v1alpha1.Group, Kind: v1alpha1.KindApplication,
			Name: rule.Name, JSONPointers: rule.JSONPointers, JQPathExpressions: rule.JQPathExpressions,
		})
	}
	ignore, err := plan.NewIgnore(rules, c.paths)
	if err != nil {
		return nil, fmt.Errorf("spec.ignoreApplicationDifferences: %w", err)
	}
	return ignore, nil
}

// withoutIgnored returns both versions of an Application without the fields
// that do not count. A merge patch between them leaves these fields alone.
func withoutIgnored(ignore *plan.Ignore, name string, is, want map[string]any) (map[string]any, map[string]any) {
	if ignore == nil {
		return is, want
	}
	live, wanted := applicationOf(name, is), applicationOf(name, want)
	ignore.Strip(live, wanted)
	strippedIs, strippedWant := contentOf(live.Object), contentOf(wanted.Object)
	return strippedIs, keepIgnored(is, strippedIs, want, strippedWant).(map[string]any)
}

// applicationOf returns a copy of the compared part as an object that rules
// apply to.
func applicationOf(name string, content map[string]any) *unstructured.Unstructured {
	object := (&unstructured.Unstructured{Object: content}).DeepCopy()
	object.SetAPIVersion(v1alpha1.APIVersion)
	object.SetKind(v1alpha1.KindApplication)
	object.SetName(name)
	return object
}

// keepIgnored changes the wanted version so that a merge patch keeps ignored
// fields: null for an object removes everything in it, and a list is replaced as
// a whole. In a list that differs, an element keeps the live value of an ignored
// field; Argo CD loses it, and documents that as a limitation.
func keepIgnored(is, strippedIs, want, strippedWant any) any {
	switch stripped := strippedWant.(type) {
	case map[string]any:
		isMap, _ := is.(map[string]any)
		strippedMap, _ := strippedIs.(map[string]any)
		wantMap, _ := want.(map[string]any)
		for name, value := range strippedMap {
			_, isObject := value.(map[string]any)
			// Something in it is ignored, and it is not wanted otherwise.
			if stripped[name] == nil && isObject && !reflect.DeepEqual(isMap[name], value) {
				stripped[name] = map[string]any{}
			}
		}
		for name, value := range stripped {
			if isMap[name] == nil && generate.IsEmpty(value) && !generate.IsEmpty(wantMap[name]) {
				delete(stripped, name) // all that is wanted in it is ignored
				continue
			}
			stripped[name] = keepIgnored(isMap[name], strippedMap[name], wantMap[name], value)
		}
		return stripped
	case []any:
		before, _ := is.([]any)
		compared, _ := strippedIs.([]any)
		wanted, _ := want.([]any)
		// An element that is ignored as a whole moves all others.
		if reflect.DeepEqual(compared, stripped) || len(before) != len(compared) || len(wanted) != len(stripped) {
			return stripped
		}
		restored := make([]any, len(stripped))
		for i := range stripped {
			restored[i] = wanted[i]
			if i < len(before) {
				restored[i] = withLive(before[i], compared[i], wanted[i])
			}
		}
		return restored
	}
	return strippedWant
}

// withLive returns a wanted value with those fields of the live one that are
// ignored: they are missing in its stripped form.
func withLive(live, stripped, wanted any) any {
	liveMap, isMap := live.(map[string]any)
	strippedMap, both := stripped.(map[string]any)
	wantedMap, all := wanted.(map[string]any)
	if !isMap || !both || !all {
		return wanted
	}
	result := maps.Clone(wantedMap)
	for name, value := range liveMap {
		inner, counts := strippedMap[name]
		if !counts {
			result[name] = value
		} else if given, present := wantedMap[name]; present {
			result[name] = withLive(value, inner, given)
		}
	}
	return result
}
