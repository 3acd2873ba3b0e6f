package apply

import (
	"encoding/base64"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// decode reads a response.
func decode(raw []byte) (*unstructured.Unstructured, error) {
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil || content == nil {
		// The text of the error may quote what it could not read.
		return nil, errResponse
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// sanitize is an object as it is sent: without fields that the API server sets,
// and with the stringData of a Secret in its data. Unchanged parts are shared.
func sanitize(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		if _, has := metadata[field]; has {
			metadata = without(metadata, field)
		}
	}
	text, hasText := object["stringData"].(map[string]any)
	isSecret := object["kind"] == "Secret" && object["apiVersion"] == "v1"
	tidied := maps.Clone(object)
	if metadata != nil {
		tidied["metadata"] = metadata
	}
	if isSecret && hasText {
		if data, ok := encoded(object["data"], text); ok {
			delete(tidied, "stringData")
			tidied["data"] = data
		}
	}
	return tidied
}

// without is a copy of a map without a field.
func without(from map[string]any, field string) map[string]any {
	rest := make(map[string]any, len(from))
	for key, value := range from {
		if key != field {
			rest[key] = value
		}
	}
	return rest
}

// encoded is the data of a Secret with its stringData, which wins as in the API
// server. It returns false if one of them is malformed: the API server then
// reports it.
func encoded(data any, text map[string]any) (map[string]any, bool) {
	all := map[string]any{}
	switch given := data.(type) {
	case nil:
	case map[string]any:
		maps.Copy(all, given)
	default:
		return nil, false
	}
	for key, value := range text {
		plain, ok := value.(string)
		if !ok {
			return nil, false
		}
		all[key] = base64.StdEncoding.EncodeToString([]byte(plain))
	}
	return all, true
}
