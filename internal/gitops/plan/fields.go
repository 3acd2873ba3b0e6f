package plan

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// fieldTree is a set of fields in the form of FieldsV1: each key is a step
// (f: a field, k: an element by its keys, v: one by its value, i: one by its
// place), and "." is what the steps so far lead to.
type fieldTree map[string]fieldTree

// maxFieldDepth bounds how deep a tree is followed. Objects are not that deep.
const maxFieldDepth = 64

func parseFields(raw []byte) (fieldTree, bool) {
	var decoded map[string]any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, false
	}
	return treeOf(decoded, 0)
}

func treeOf(decoded map[string]any, depth int) (fieldTree, bool) {
	if depth > maxFieldDepth {
		return nil, false
	}
	tree := fieldTree{}
	for step, below := range decoded {
		children, ok := below.(map[string]any)
		if !ok {
			return nil, false
		}
		if tree[step], ok = treeOf(children, depth+1); !ok {
			return nil, false
		}
	}
	return tree, true
}

// merge adds another set. A field that one of them owns as a whole stays owned
// as a whole.
func (t fieldTree) merge(other fieldTree) {
	for step, below := range other {
		mine, ok := t[step]
		switch {
		case !ok:
			t[step] = below
		case len(mine) == 0 || len(below) == 0:
			t[step] = fieldTree{}
		default:
			mine.merge(below)
		}
	}
}

// ownsItself reports whether the set has the field itself, and not only some of
// what is in it.
func (t fieldTree) ownsItself() bool {
	_, ok := t["."]
	return ok || len(t) == 0
}

// whole reports whether the set has a field with all that is in it.
func (t fieldTree) whole() bool { return len(t) == 0 }

// remove removes the fields of the set from a document. A container is removed
// too, if the set has it and nothing is left in it: another writer may have put
// something there.
func (t fieldTree) remove(document map[string]any) { t.removeFromMap(document) }

func (t fieldTree) removeFromMap(object map[string]any) {
	for step, below := range t {
		name, ok := strings.CutPrefix(step, "f:")
		if !ok {
			continue
		}
		child, ok := object[name]
		if !ok {
			continue
		}
		if rest, keep := below.strip(child); keep {
			object[name] = rest
		} else {
			delete(object, name)
		}
	}
}

// strip takes the set from a value. The second result is false if nothing of
// the value is left.
func (t fieldTree) strip(value any) (any, bool) {
	if t.whole() {
		return nil, false
	}
	switch container := value.(type) {
	case map[string]any:
		t.removeFromMap(container)
		return container, len(container) > 0 || !t.ownsItself()
	case []any:
		rest := t.stripList(container)
		return rest, len(rest) > 0 || !t.ownsItself()
	}
	return value, true
}

func (t fieldTree) stripList(list []any) []any {
	steps := t.elementSteps()
	rest := make([]any, 0, len(list))
	for i, element := range list {
		kept, keep := element, true
		for _, step := range steps {
			if step.leadsTo(i, element) {
				kept, keep = step.strip(element)
				break
			}
		}
		if keep {
			rest = append(rest, kept)
		}
	}
	return rest
}

// elementStep is a step to an element of a list.
type elementStep struct {
	keys  map[string]any // of k:
	value any            // of v:
	index int            // of i:, or -1
	below fieldTree
}

// elementSteps are the steps to elements, in a fixed order.
func (t fieldTree) elementSteps() []elementStep {
	var steps []elementStep
	for _, text := range slices.Sorted(maps.Keys(t)) {
		kind, rest, _ := strings.Cut(text, ":")
		step := elementStep{index: -1, below: t[text]}
		var err error
		switch kind {
		case "k":
			if err = json.Unmarshal([]byte(rest), &step.keys); len(step.keys) == 0 {
				continue
			}
		case "v":
			err = json.Unmarshal([]byte(rest), &step.value)
		case "i":
			step.index, err = strconv.Atoi(rest)
		default:
			continue
		}
		if err == nil {
			steps = append(steps, step)
		}
	}
	return steps
}

func (s elementStep) leadsTo(index int, element any) bool {
	switch {
	case s.index >= 0:
		return s.index == index
	case s.keys != nil:
		return hasKeys(element, s.keys)
	}
	return sameScalar(element, s.value)
}

func (s elementStep) strip(element any) (any, bool) {
	if s.keys != nil {
		return s.below.stripKeyed(element, s.keys)
	}
	return s.below.strip(element)
}

// stripKeyed takes the set from an element that has keys. The keys stay as long
// as something else does: without them the element could not be identified.
func (t fieldTree) stripKeyed(element any, keys map[string]any) (any, bool) {
	object, ok := element.(map[string]any)
	switch {
	case t.whole():
		return nil, false
	case !ok:
		return element, true
	}
	kept := map[string]any{}
	for key := range keys {
		kept[key] = object[key]
	}
	t.removeFromMap(object)
	for key := range keys {
		delete(object, key)
	}
	if len(object) == 0 && t.ownsItself() {
		return nil, false
	}
	maps.Copy(object, kept)
	return object, true
}

func hasKeys(element any, keys map[string]any) bool {
	object, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for key, want := range keys {
		is, ok := object[key]
		if !ok || !sameScalar(is, want) {
			return false
		}
	}
	return true
}

// sameScalar compares values of which one was decoded as int64 and the other as
// float64.
func sameScalar(a, b any) bool {
	if number, ok := a.(int64); ok {
		a = float64(number)
	}
	if number, ok := b.(int64); ok {
		b = float64(number)
	}
	return reflect.DeepEqual(a, b)
}
