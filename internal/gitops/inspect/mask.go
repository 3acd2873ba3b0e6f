package inspect

import (
	"encoding/base64"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/secret"
)

// lastAppliedAnnotation is kubectl's copy of the object, including Secrets.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// anotherValue replaces a value of a Secret that differs from the one before.
const anotherValue = secret.Redacted + " (another value)"

// MaskedPair returns copies of two states of one object, without managed fields
// and kubectl's copy. Of a Secret they show which values differ and nothing
// else. Either may be nil.
func MaskedPair(before, after *unstructured.Unstructured) (*unstructured.Unstructured, *unstructured.Unstructured) {
	before, after = tidied(before), tidied(after)
	if isSecret(before) || isSecret(after) {
		// A single state keeps its fields as they are written: there is nothing
		// to compare.
		if before != nil && after != nil {
			foldStringData(before)
			foldStringData(after)
		}
		maskSecrets(before, after)
	}
	return before, after
}

// isSecret reports whether an object is a Secret.
func isSecret(object *unstructured.Unstructured) bool {
	if object == nil {
		return false
	}
	key := tracking.KeyOf(object)
	return key.Group == "" && key.Kind == "Secret"
}

// tidied returns a copy without fields that only controllers read.
func tidied(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object == nil {
		return nil
	}
	tidy := object.DeepCopy()
	tidy.SetManagedFields(nil)
	dropLastApplied(tidy)
	return tidy
}

// dropLastApplied removes kubectl's copy. Annotations that are no map could
// hide one, and are removed.
func dropLastApplied(object *unstructured.Unstructured) {
	metadata, _ := object.Object["metadata"].(map[string]any)
	switch annotations := metadata["annotations"].(type) {
	case map[string]any:
		delete(annotations, lastAppliedAnnotation)
	default:
		delete(metadata, "annotations")
	}
}

// foldStringData moves stringData to data, as the API server does, so that both
// states of a Secret can be compared.
func foldStringData(object *unstructured.Unstructured) {
	clear := nestedMap(object, "stringData")
	if len(clear) == 0 {
		return
	}
	data := maps.Clone(nestedMap(object, "data"))
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range clear {
		if text, ok := value.(string); ok {
			value = base64.StdEncoding.EncodeToString([]byte(text))
		}
		data[key] = value
	}
	object.Object["data"] = data
	delete(object.Object, "stringData")
}

// maskSecrets replaces the values of a Secret. A difference stays visible. Keys
// stay, because they are what a user has to compare. The length of a value is
// hidden too.
func maskSecrets(before, after *unstructured.Unstructured) {
	for _, field := range []string{"data", "stringData"} {
		maskValues(nestedMap(before, field), nestedMap(after, field), func(string) bool { return false })
	}
	// Tools keep copies of a Secret in annotations of their own.
	maskValues(annotations(before), annotations(after), isPlainAnnotation)
}

// maskValues replaces the values of two states, but for the keys that are plain.
func maskValues(old, fresh map[string]any, plain func(key string) bool) {
	for key, value := range old {
		other, both := fresh[key]
		switch {
		case plain(key):
			continue
		case both && !sameValue(other, value):
			fresh[key] = anotherValue
		case both:
			fresh[key] = secret.Redacted
		}
		old[key] = secret.Redacted
	}
	for key := range fresh {
		if _, both := old[key]; !both && !plain(key) {
			fresh[key] = secret.Redacted
		}
	}
}

// annotations returns the annotations of an object, not a copy.
func annotations(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	metadata, _ := object.Object["metadata"].(map[string]any)
	content, _ := metadata["annotations"].(map[string]any)
	return content
}

// isPlainAnnotation reports whether an annotation of a Secret is one of Argo CD
// or ours, which users need to see: waves, sync options, the tracking id.
func isPlainAnnotation(key string) bool {
	return strings.HasPrefix(key, "argocd.argoproj.io/") || strings.HasPrefix(key, "slipway.dev/")
}

// sameValue compares values of a Secret. Values that are no text are never
// equal, as they may not be comparable.
func sameValue(a, b any) bool {
	first, ok := a.(string)
	second, also := b.(string)
	return ok && also && first == second
}

// nestedMap returns a map of an object, not a copy; an empty one if there is
// none. Another value in its place is removed: it could be a secret.
func nestedMap(object *unstructured.Unstructured, field string) map[string]any {
	if object == nil {
		return nil
	}
	content, ok := object.Object[field].(map[string]any)
	if !ok {
		delete(object.Object, field)
	}
	return content
}

// ShownApplication returns a copy of an Application without managed fields and
// without credentials in addresses.
func ShownApplication(app *Application) *unstructured.Unstructured {
	shown := tidied(app.Object)
	hidePasswords(shown.Object, 0)
	return shown
}

// addressDepth bounds the recursion.
const addressDepth = 64

// hidePasswords removes users, passwords and queries from the addresses of
// repositories at any depth. It changes the value in place; the caller passes a copy.
func hidePasswords(value any, depth int) {
	if depth > addressDepth {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for key, each := range value {
			text, isText := each.(string)
			if !isText {
				hidePasswords(each, depth+1)
				continue
			}
			if key == "repoURL" {
				value[key] = address.Redact(text)
			}
		}
	case []any:
		for _, each := range value {
			hidePasswords(each, depth+1)
		}
	}
}

// shownObject returns a copy without the fields that every write changes, and
// without the status.
func shownObject(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object == nil {
		return nil
	}
	shown := tidied(object)
	for _, field := range []string{"resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(shown.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(shown.Object, "status")
	return shown
}

// objectText encodes an object as YAML.
func objectText(object *unstructured.Unstructured) (string, error) {
	if object == nil {
		return "", nil
	}
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}
