package action

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Change is what an action would write.
type Change struct {
	Object *unstructured.Unstructured
	// Create: the object is new. Otherwise it is the one of the action.
	Create bool
}

// changes reads the result of a script: the changed object, or a list of
// {operation, resource}.
func changes(object *unstructured.Unstructured, result any) ([]Change, error) {
	switch result := result.(type) {
	case map[string]any:
		changed, err := patched(object, result)
		return []Change{{Object: changed}}, err
	case []any:
		var all []Change
		for _, element := range result {
			change, err := changeOf(object, element)
			if err != nil {
				return nil, err
			}
			all = append(all, change)
		}
		return all, nil
	}
	return nil, errors.New("the action returned neither an object nor a list")
}

// changeOf reads one element of a list.
func changeOf(object *unstructured.Unstructured, element any) (Change, error) {
	fields, _ := element.(map[string]any)
	resource, isObject := fields["resource"].(map[string]any)
	if !isObject {
		return Change{}, errors.New("a change of the action has no resource")
	}
	switch operation := fields["operation"]; operation {
	case "create":
		return Change{Object: &unstructured.Unstructured{Object: resource}, Create: true}, nil
	case "patch":
		changed, err := patched(object, resource)
		return Change{Object: changed}, err
	default:
		return Change{}, fmt.Errorf("the action has the operation %v: only create and patch are known", operation)
	}
}

// patched returns the changed object of an action, which has to be the same one:
// the rights were checked for it.
func patched(object *unstructured.Unstructured, content map[string]any) (*unstructured.Unstructured, error) {
	restoreEmpty(content, object.Object)
	changed := &unstructured.Unstructured{Object: content}
	if changed.GroupVersionKind() != object.GroupVersionKind() || changed.GetName() != object.GetName() || changed.GetNamespace() != object.GetNamespace() {
		return nil, fmt.Errorf("the action changes %s %s/%s instead of its own object", changed.GetKind(), changed.GetNamespace(), changed.GetName())
	}
	return changed, nil
}

// restoreEmpty makes empty lists empty objects again where the original has an
// object: Lua has one type for both.
func restoreEmpty(changed, original any) any {
	switch changed := changed.(type) {
	case map[string]any:
		before, _ := original.(map[string]any)
		for name, value := range changed {
			changed[name] = restoreEmpty(value, before[name])
		}
	case []any:
		if _, wasObject := original.(map[string]any); wasObject && len(changed) == 0 {
			return map[string]any{}
		}
		before, _ := original.([]any)
		for i, value := range changed {
			if i < len(before) {
				changed[i] = restoreEmpty(value, before[i])
			}
		}
	}
	return changed
}
