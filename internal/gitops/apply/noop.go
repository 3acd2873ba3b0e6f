package apply

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// isCertainNoop reports whether applying an object certainly changes nothing of the
// live one: what we own of it is exactly what the object has, and has the same
// values. Then a server-side apply has nothing to add, to change or to remove.
//
// It knows no schemas. That of the kind is in the managedFields: what the API
// server merges has entries for its parts, and what it takes as a whole has not.
// Where the two are not the same text (a quantity that was written in another
// way, a default within something that is taken as a whole) it is not certain.
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
	// What names an object is owned by nobody.
	return sameMap(below, metadata, is, names) &&
		sameMap(without(tree, "f:metadata"), desired, live.Object, []string{"apiVersion", "kind", "metadata"})
}

// sameValue compares a value of the object with the live one, along what we own
// of it.
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

// sameMap compares maps. The fields that are left out are owned by nobody.
func sameMap(tree, desired, live map[string]any, leftOut []string) bool {
	owned := 0
	for step := range tree {
		if step != "." {
			owned++
		}
	}
	for field, value := range desired {
		if isOneOf(field, leftOut) {
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

func isOneOf(field string, names []string) bool {
	for _, name := range names {
		if field == name {
			return true
		}
	}
	return false
}

// sameList compares lists that the API server merges. They must have the same
// elements in the same order: where others put elements in between is a question
// for the API server.
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
	// keys tell it from others; nil for one that is told by its value.
	keys  map[string]any
	value any
	below map[string]any
}

// elementsOf reads the steps to the elements of a list. It is false if there are
// others.
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

// isFor reports whether an element is the one that we own. The object may leave
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

func (e *ownedElement) same(desired, live any) bool {
	if e.keys == nil {
		return len(e.below) == 0
	}
	return sameValue(e.below, desired, live)
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// equal compares values of JSON. A number is the same whether it was read as an
// integer or not.
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
