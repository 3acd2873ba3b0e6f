package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withMetadata returns a copy of a rendered object whose metadata can be read,
// or the reason why it cannot.
//
// Fields of metadata that are null are left out: charts render "annotations:"
// with nothing below it, and the API server treats null as absent. Labels and
// annotations that are null stay; they become empty text when the object is
// marked, as kubectl sends them.
func withMetadata(rendered *unstructured.Unstructured) (*unstructured.Unstructured, *Refusal) {
	object := rendered.DeepCopy()
	value := object.Object["metadata"]
	if value == nil {
		delete(object.Object, "metadata")
		return object, nil
	}
	metadata, isMap := value.(map[string]any)
	if !isMap {
		return nil, &Refusal{Field: "metadata", Reason: Invalid, Message: "it is not a map"}
	}
	maps.DeleteFunc(metadata, func(_ string, value any) bool { return value == nil })
	// The accessors of unstructured objects return nothing for a value of another
	// type, so that an object would end in another namespace than the one it names.
	for _, field := range []string{"name", "namespace", "generateName"} {
		value, has := metadata[field]
		if _, isText := value.(string); has && !isText {
			return nil, &Refusal{Field: "metadata." + field, Reason: Invalid, Message: "it is not text; put it in quotes"}
		}
	}
	for _, field := range []string{"annotations", "labels"} {
		if refusal := checkTexts(metadata, field); refusal != nil {
			return nil, refusal
		}
	}
	return object, nil
}

// checkTexts returns why a field of metadata is not a map of texts, or nil.
func checkTexts(metadata map[string]any, field string) *Refusal {
	value, has := metadata[field]
	texts, isMap := value.(map[string]any)
	if has && !isMap {
		return &Refusal{Field: "metadata." + field, Reason: Invalid, Message: "it is not a map"}
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if _, isText := texts[key].(string); !isText && texts[key] != nil {
			return &Refusal{Field: "metadata." + field + "[" + shorten(key) + "]", Reason: Invalid,
				Message: "the value is not text; put it in quotes"}
		}
	}
	return nil
}
