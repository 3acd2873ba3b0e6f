package plan

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// KnownField is a field of a kind that has a type of Kubernetes, which the schema
// of the kind does not have: a quantity in it may be written in several ways.
type KnownField struct {
	Kind schema.GroupKind
	// Path is the names that lead to the field. A list on the way stands for each
	// of its elements.
	Path []string
	// New makes an empty value of the type, as a pointer.
	New func() any
}

// WithKnownFields is the Ignore with fields of which another spelling does not
// count either.
func (i *Ignore) WithKnownFields(fields []KnownField) *Ignore {
	if i == nil || len(fields) == 0 {
		return i
	}
	copied := *i
	copied.known = fields
	return &copied
}

// Equalize takes from both versions of an object what does not count in a
// comparison: what Strip takes, and spellings of known fields. It changes them.
// What Equalize leaves is not for an apply, which keeps the spelling of Git.
func (i *Ignore) Equalize(live, other *unstructured.Unstructured) {
	if i == nil {
		return
	}
	i.Strip(live, other)
	kind := live.GroupVersionKind().GroupKind()
	for _, field := range i.known {
		if field.Kind == kind {
			field.respell(live.Object, field.Path)
			field.respell(other.Object, field.Path)
		}
	}
}

// respell writes what a path leads to as its type is written. What is not there,
// or not of the type, stays as it is: the difference is shown.
func (f *KnownField) respell(value any, path []string) any {
	if list, ok := value.([]any); ok {
		spelt := slices.Clone(list)
		for i := range spelt {
			spelt[i] = f.respell(spelt[i], path)
		}
		return spelt
	}
	if len(path) > 0 {
		if object, ok := value.(map[string]any); ok && object[path[0]] != nil {
			object[path[0]] = f.respell(object[path[0]], path[1:])
		}
		return value
	}
	typed := f.New()
	text, err := json.Marshal(value)
	if err != nil || json.Unmarshal(text, typed) != nil {
		return value
	}
	var spelt any
	if text, err = json.Marshal(typed); err != nil || utiljson.Unmarshal(text, &spelt) != nil {
		return value
	}
	return spelt
}
