package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/refusal"
)

// withMetadata returns a copy of a rendered object whose metadata can be read,
// or the reason why it cannot.
//
// Fields of metadata that are null are left out: charts render "annotations:"
// with nothing below it, and the API server treats null as absent. Labels and
// annotations that are null stay; they become empty text when the object is
// marked, as kubectl sends them.
func withMetadata(rendered *unstructured.Unstructured) (*unstructured.Unstructured, *refusal.Refusal) {
	object := rendered.DeepCopy()
	value := object.Object["metadata"]
	if value == nil {
		delete(object.Object, "metadata")
		return object, nil
	}
	metadata, isMap := value.(map[string]any)
	if !isMap {
		return nil, refusal.New("metadata", refusal.Invalid, "it is not a map")
	}
	maps.DeleteFunc(metadata, func(_ string, value any) bool { return value == nil })
	// The accessors of unstructured objects return nothing for a value of another
	// type, so that an object would end in another namespace than the one it names.
	for _, field := range []string{"name", "namespace", "generateName"} {
		value, has := metadata[field]
		if _, isText := value.(string); has && !isText {
			return nil, refusal.New("metadata."+field, refusal.Invalid, "it is not text; put it in quotes")
		}
	}
	for _, field := range []string{"annotations", "labels"} {
		if refused := checkTexts(metadata, field); refused != nil {
			return nil, refused
		}
	}
	return object, nil
}

// checkTexts returns why a field of metadata is not a map of texts, or nil.
func checkTexts(metadata map[string]any, field string) *refusal.Refusal {
	value, has := metadata[field]
	texts, isMap := value.(map[string]any)
	if has && !isMap {
		return refusal.New("metadata."+field, refusal.Invalid, "it is not a map")
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if _, isText := texts[key].(string); !isText && texts[key] != nil {
			return refusal.New("metadata."+field+"["+shorten(key)+"]", refusal.Invalid, "the value is not text; put it in quotes")
		}
	}
	return nil
}
