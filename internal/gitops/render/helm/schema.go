package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"

	"slipway.dev/slipway/internal/gitops/render/job"
)

// checkSchemas refuses schemas that refer to something outside of themselves:
// Helm would fetch addresses and open files.
func checkSchemas(loaded *chart.Chart) error {
	if len(loaded.Schema) > 0 {
		var schema any
		if err := json.Unmarshal(loaded.Schema, &schema); err != nil {
			return fmt.Errorf("values.schema.json of the chart %s is not JSON: %w", loaded.Name(), err)
		}
		if ref := foreignReference(schema); ref != "" {
			return job.Refuse("values.schema.json of the chart %s refers to %s: only references within the file, as #/definitions/name, are followed", loaded.Name(), ref)
		}
	}
	for _, dependency := range loaded.Dependencies() {
		if err := checkSchemas(dependency); err != nil {
			return err
		}
	}
	return nil
}

// foreignReference is a reference of a schema that is not within it.
func foreignReference(schema any) string {
	switch value := schema.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			below := value[key]
			if text, ok := below.(string); ok && isReference(key) && !isLocal(key, text) {
				return text
			}
			if found := foreignReference(below); found != "" {
				return found
			}
		}
	case []any:
		for _, below := range value {
			if found := foreignReference(below); found != "" {
				return found
			}
		}
	}
	return ""
}

func isReference(key string) bool {
	switch key {
	case "$ref", "$dynamicRef", "$recursiveRef", "$schema":
		return true
	}
	return false
}

// isLocal reports whether a reference needs nothing from outside. The schemas
// of schemas are built in; an urn is never fetched.
func isLocal(key, text string) bool {
	if strings.HasPrefix(text, "#") || strings.HasPrefix(text, "urn:") {
		return true
	}
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(text, scheme); ok && strings.HasPrefix(rest, "json-schema.org/") {
			return true
		}
	}
	return key == "$schema" && text == ""
}
