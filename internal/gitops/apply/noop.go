package apply

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// isCertainNoop reports whether applying an object certainly changes nothing of
// the live one: the fields that we own are exactly those of the object, with
// the same values. Then a server-side apply has nothing to add, change or
// remove.
//
// It needs no schemas: managedFields show which parts of a kind are merged and
// which are replaced as a whole. Where two values are not equal as text (a
// quantity in another notation, a default in an atomic value) the result is
// false, and the API server decides.
func isCertainNoop(desired map[string]any, live *unstructured.Unstructured) bool {
	entry := ours(entriesOf(live.Object))
	if entry == nil || entry.text("apiVersion") != desired["apiVersion"] || live.GetAPIVersion() != desired["apiVersion"] {
		return false
	}
	tree := entry.fields()
	if tree == nil {
		return false
	}
	metadata, _ := desired["metadata"].(map[string]any)
	below, _ := tree["f:metadata"].(map[string]any)
	is, _ := live.Object["metadata"].(map[string]any)
	names := []string{"name", "namespace"}
	for _, name := range names {
		if metadata[name] != is[name] {
			return false
		}
	}
	// Name and namespace have no owner.
	return sameMap(below, metadata, is, names) &&
		sameMap(without(tree, "f:metadata"), desired, live.Object, []string{"apiVersion", "kind", "metadata"})
}

// sameValue compares a desired value with the live one, along the fields that
// we own.
func sameValue(tree map[string]any, desired, live any) bool {
	if len(tree) == 0 {
		return equal(desired, live)
	}
	switch desired := desired.(type) {
	case map[string]any:
		is, ok := live.(map[string]any)
		return ok && sameMap(tree, desired, is, nil)
	case []any:
		is, ok := live.([]any)
		return ok && sameList(tree, desired, is)
	}
	return false
}

// sameMap compares maps. Fields in leftOut have no owner.
func sameMap(tree, desired, live map[string]any, leftOut []string) bool {
	owned := 0
	for step := range tree {
		if step != "." {
			owned++
		}
	}
	for field, value := range desired {
		if slices.Contains(leftOut, field) {
			continue
		}
		below, ok := tree["f:"+field].(map[string]any)
		if !ok || value == nil {
			return false
		}
		owned--
		is, has := live[field]
		if !has {
			// The API server does not store what is empty, for some kinds.
			if len(below) == 0 && isEmpty(value) {
				continue
			}
			return false
		}
		if !sameValue(below, value, is) {
			return false
		}
	}
	return owned == 0
}

// sameList compares lists that the API server merges. They must have the same
// elements in the same order: where other managers put elements in between, the
// API server decides.
func sameList(tree map[string]any, desired, live []any) bool {
	if len(desired) != len(live) {
		return false
	}
	elements, ok := elementsOf(tree)
	if !ok || len(elements) != len(desired) {
		return false
	}
	for i := range desired {
		at := -1
		for n, element := range elements {
			if element.isFor(desired[i], live[i]) {
				at = n
				break
			}
		}
		if at < 0 || !elements[at].same(desired[i], live[i]) {
			return false
		}
		elements = append(elements[:at], elements[at+1:]...)
	}
	return true
}

// ownedElement is an element of a list that we own.
type ownedElement struct {
	// keys identify it; nil for an element of a set, which its value
	// identifies.
	keys  map[string]any
	value any
	below map[string]any
}

// elementsOf reads the elements of a list from a field set. It returns false if
// there are steps of another form.
func elementsOf(tree map[string]any) ([]ownedElement, bool) {
	elements := make([]ownedElement, 0, len(tree))
	for step, below := range tree {
		if step == "." {
			continue
		}
		kind, text, _ := strings.Cut(step, ":")
		fields, ok := below.(map[string]any)
		element := ownedElement{below: fields}
		var err error
		switch kind {
		case "k":
			err = json.Unmarshal([]byte(text), &element.keys)
			ok = ok && len(element.keys) > 0
		case "v":
			err = json.Unmarshal([]byte(text), &element.value)
		default:
			ok = false
		}
		if !ok || err != nil {
			return nil, false
		}
		elements = append(elements, element)
	}
	return elements, true
}

// isFor reports whether an element is this one. The desired object may leave
// out a key that has a default; the live one never does.
func (e *ownedElement) isFor(desired, live any) bool {
	if e.keys == nil {
		return equal(e.value, desired) && equal(e.value, live)
	}
	want, ok := desired.(map[string]any)
	is, isMap := live.(map[string]any)
	if !ok || !isMap {
		return false
	}
	for key, value := range e.keys {
		if given, has := want[key]; has && !equal(given, value) || !equal(is[key], value) {
			return false
		}
	}
	return true
}

// same compares an element that was matched by isFor.
func (e *ownedElement) same(desired, live any) bool {
	if e.keys == nil {
		return len(e.below) == 0
	}
	return sameValue(e.below, desired, live)
}

// isEmpty reports whether a value is an empty map or list, which some kinds do
// not store.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// equal compares JSON values. A number is equal whether it was decoded as an
// integer or as a float.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for key, value := range a {
			if is, has := other[key]; !has || !equal(value, is) {
				return false
			}
		}
		return true
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for i := range a {
			if !equal(a[i], other[i]) {
				return false
			}
		}
		return true
	}
	if first, ok := number(a); ok {
		second, ok := number(b)
		return ok && first == second
	}
	return reflect.DeepEqual(a, b)
}

// number is a number that can be compared exactly.
func number(value any) (float64, bool) {
	const exact = 1 << 53
	switch value := value.(type) {
	case int64:
		return float64(value), value > -exact && value < exact
	case int:
		return float64(value), value > -exact && value < exact
	case float64:
		return value, true
	}
	return 0, false
}
