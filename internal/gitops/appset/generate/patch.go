package generate

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// errPatch is the error of a patch that is no object.
var errPatch = errors.New("it is no object in YAML or JSON: write fields such as spec, and pipe texts of parameters to toJson")

// patched returns an Application with spec.templatePatch, expanded with its
// parameters. A patch without content changes nothing. As in Argo CD, the
// project stays that of the template: the project decides what a set may read
// before any parameter is known.
func (r *runner) patched(application, params map[string]any) (map[string]any, error) {
	text, err := r.expander.Text(r.ctx, r.set.Spec.TemplatePatch, params)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := yaml.Unmarshal([]byte(text), &patch); err != nil {
		return nil, fmt.Errorf("%w: %.200s", errPatch, err)
	}
	spec, _ := application["spec"].(map[string]any)
	project := spec["project"]
	result := mergeInto(application, patch)
	metadata, _ := result["metadata"].(map[string]any)
	changed, _ := patch["metadata"].(map[string]any)
	before, _ := application["metadata"].(map[string]any)
	if list, given := changed["finalizers"].([]any); given && metadata != nil {
		kept, _ := before["finalizers"].([]any)
		metadata["finalizers"] = union(list, kept)
	}
	if spec, isObject := result["spec"].(map[string]any); isObject {
		spec["project"] = project
	}
	return result, nil
}

// mergeInto returns an object with a patch: RFC 7386, and the directives
// $patch: replace and $patch: delete of Kubernetes. The lists of an Application
// have no keys, so that Argo CD's strategic merge replaces them too, except for
// finalizers. The input is not changed.
func mergeInto(object, patch map[string]any) map[string]any {
	merged := map[string]any{}
	directive := patch["$patch"]
	for name, value := range object {
		if directive == nil {
			merged[name] = value
		}
	}
	if directive == "delete" {
		return merged
	}
	for name, value := range patch {
		inner, nested := value.(map[string]any)
		switch {
		case name == "$patch":
		case nested:
			below, _ := merged[name].(map[string]any)
			merged[name] = mergeInto(below, inner)
		case value == nil:
			delete(merged, name)
		default:
			merged[name] = value
		}
	}
	return merged
}

// union returns the elements of both lists, those of the first one first.
func union(first, second []any) []any {
	all := slices.Clone(first)
	for _, one := range second {
		// Anything but a text is refused later.
		if text, isText := one.(string); !isText || !slices.Contains(all, any(text)) {
			all = append(all, one)
		}
	}
	return all
}
