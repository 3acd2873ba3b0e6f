package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/internal/gitops/plan"
)

// withoutIgnored is an object without its ignored fields, so that an apply
// leaves them as they are. A field that we own is not left out, because that
// would remove it: it gets its live value.
//
// Of a list that the API server replaces as a whole nothing can be left out: if
// a part of it is ignored, the live list is kept.
func withoutIgnored(desired map[string]any, live *unstructured.Unstructured, ignore *plan.Ignore) map[string]any {
	rest := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(desired)}
	ignore.Strip(live.DeepCopy(), rest)
	owned := ours(entriesOf(live.Object)).fields()
	keepOwned(owned, desired, rest.Object, live.Object)
	// The identity of an object is sent even if rules ignore it.
	for _, field := range []string{"apiVersion", "kind"} {
		rest.Object[field] = desired[field]
	}
	rest.SetName(live.GetName())
	if namespace := live.GetNamespace(); namespace != "" {
		rest.SetNamespace(namespace)
	}
	return rest.Object
}

// keepOwned puts live values where something was left out that we own.
func keepOwned(owned, desired, rest, live map[string]any) {
	for field, value := range desired {
		below, isOwned := owned["f:"+field].(map[string]any)
		is, has := live[field]
		if !has {
			continue
		}
		left, kept := rest[field]
		switch {
		case !kept && isOwned:
			rest[field] = runtime.DeepCopyJSONValue(is)
		case kept:
			rest[field] = keepValue(below, value, left, is)
		}
	}
}

// keepValue is what is left of a value, with what we own in it.
func keepValue(owned map[string]any, desired, rest, live any) any {
	switch desired := desired.(type) {
	case map[string]any:
		left, ok := rest.(map[string]any)
		is, isMap := live.(map[string]any)
		if ok && isMap {
			keepOwned(owned, desired, left, is)
		}
	case []any:
		left, ok := rest.([]any)
		is, isList := live.([]any)
		if ok && isList && !equal(desired, left) {
			return keepList(owned, desired, left, is)
		}
	}
	return rest
}

// keepList does the same for a list of which something was left out.
func keepList(owned map[string]any, desired, rest, live []any) any {
	elements, ok := elementsOf(owned)
	if !ok || len(elements) == 0 || elements[0].keys == nil {
		return runtime.DeepCopyJSONValue(live)
	}
	left := rest
	for _, want := range desired {
		for i := range elements {
			is := elements[i].among(live)
			if is == nil || !elements[i].isFor(want, is) {
				continue
			}
			if kept := elements[i].among(rest); kept != nil {
				keepValue(elements[i].below, want, kept, is)
			} else {
				left = append(left, runtime.DeepCopyJSONValue(is))
			}
		}
	}
	return left
}

// among returns the element in a list, or nil. A key that is left out matches
// every value.
func (e *ownedElement) among(list []any) any {
	for _, each := range list {
		fields, ok := each.(map[string]any)
		matches := ok
		for key, value := range e.keys {
			if is, has := fields[key]; has && !equal(is, value) {
				matches = false
			}
		}
		if matches {
			return each
		}
	}
	return nil
}
