package apply

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// CertainChange returns the live object with those fields changed that applying the
// desired one certainly changes, or nil if there is none, and a dry run has to decide.
// It is the counterpart of isCertainNoop: of a commit that changes an image or a value
// it needs no request to find out that the object is OutOfSync.
//
// before is what was desired before. A field counts if we own it, the live object has
// it as before has it, and the desired one has another value. Where the live value is
// not that of before, a webhook or the API server has written it in another way, and
// would do so again. The value after the change is presumed: the result shows that the
// objects differ, and not all of the difference.
func CertainChange(before, desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	entry, version := ours(entriesOf(live.Object)), live.GetAPIVersion()
	if entry == nil || entry.text("apiVersion") != version || before.GetAPIVersion() != version || desired.GetAPIVersion() != version {
		return nil
	}
	changed := changedMap(entry.fields(), sanitize(before.Object), sanitize(desired.Object), live.Object)
	if changed == nil {
		return nil
	}
	// It shares its unchanged parts with the live object until here.
	return (&unstructured.Unstructured{Object: changed}).DeepCopy()
}

// changedMap returns a live map with the certain changes along the fields that we own;
// nil if there is none.
func changedMap(tree, before, desired, live map[string]any) map[string]any {
	var changed map[string]any
	for field, value := range desired {
		below, owned := tree["f:"+field].(map[string]any)
		was, had := before[field]
		is, has := live[field]
		// A field that is new may have been a default, or is not stored at all.
		if !owned || !had || !has {
			continue
		}
		if after, ok := changedValue(below, was, value, is); ok {
			if changed == nil {
				changed = maps.Clone(live)
			}
			changed[field] = after
		}
	}
	return changed
}

// changedValue is changedMap for any value.
func changedValue(tree map[string]any, before, desired, live any) (any, bool) {
	if len(tree) == 0 {
		return desired, isCertainChange(before, desired, live)
	}
	switch is := live.(type) {
	case map[string]any:
		was, isMap := before.(map[string]any)
		want, areMaps := desired.(map[string]any)
		if isMap && areMaps {
			changed := changedMap(tree, was, want, is)
			return changed, changed != nil
		}
	case []any:
		was, isList := before.([]any)
		want, areLists := desired.([]any)
		if isList && areLists {
			changed := changedList(tree, was, want, is)
			return changed, changed != nil
		}
	}
	return nil, false
}

// changedList is changedMap for a list whose elements have keys. An element that is not
// in all three lists, by its keys, does not count.
func changedList(tree map[string]any, before, desired, live []any) []any {
	elements, ok := elementsOf(tree)
	if !ok {
		return nil
	}
	var changed []any
	for _, element := range elements {
		was, want, is := element.in(before), element.in(desired), element.in(live)
		if was < 0 || want < 0 || is < 0 {
			continue
		}
		if after, ok := changedValue(element.below, before[was], desired[want], live[is]); ok {
			if changed == nil {
				changed = slices.Clone(live)
			}
			changed[is] = after
		}
	}
	return changed
}

// in returns where a list has the element, or -1 if it has none or several. A key that
// has a default may be left out.
func (e *ownedElement) in(list []any) int {
	found := -1
	for i, one := range list {
		fields, isMap := one.(map[string]any)
		matches := isMap && len(e.keys) > 0
		for key, value := range e.keys {
			if given, has := fields[key]; has && !equal(given, value) {
				matches = false
			}
		}
		if matches && found >= 0 {
			return -1
		}
		if matches {
			found = i
		}
	}
	return found
}

// isCertainChange reports whether a field that is live as it was desired before becomes
// another value. Values of other types do not count, as the API server may write them in
// the same way; neither do empty texts and zero, in place of which it may set a default.
func isCertainChange(before, desired, live any) bool {
	if !equal(before, live) || equal(before, desired) {
		return false
	}
	switch want := desired.(type) {
	case string:
		was, isText := before.(string)
		return isText && want != "" && !isSameQuantity(was, want)
	case bool:
		_, isBool := before.(bool)
		return isBool
	case []any:
		was, isList := before.([]any)
		return isList && len(want) > 0 && areTexts(was) && areTexts(want)
	}
	value, isNumber := number(desired)
	_, wasNumber := number(before)
	return isNumber && wasNumber && value != 0
}

// isSameQuantity reports whether two texts are one quantity, such as 1000m and 1: the
// API server stores both in the same way.
func isSameQuantity(a, b string) bool {
	first, err := resource.ParseQuantity(a)
	if err != nil {
		return false
	}
	second, err := resource.ParseQuantity(b)
	return err == nil && first.Cmp(second) == 0
}

// areTexts reports whether a list has only texts that are not empty.
func areTexts(list []any) bool {
	return !slices.ContainsFunc(list, func(one any) bool {
		text, ok := one.(string)
		return !ok || text == ""
	})
}
