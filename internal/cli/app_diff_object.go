package cli

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/secret"
)

// lastAppliedAnnotation is where kubectl keeps a copy of the object, Secrets too.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// printObjectDiff prints the difference of one object. Either may be nil.
func printObjectDiff(w io.Writer, key tracking.Key, before, after *unstructured.Unstructured) error {
	before, after = shownObject(before), shownObject(after)
	if key.Group == "" && key.Kind == "Secret" {
		maskSecrets(before, after)
	}
	from, err := objectText(before)
	if err != nil {
		return err
	}
	to, err := objectText(after)
	if err != nil {
		return err
	}
	diff := unifiedDiff(from, to)
	if diff == "" {
		diff = "(the difference is in fields that only the API server writes)\n"
	}
	_, err = fmt.Fprintf(w, "--- live/%s%s\n+++ git/%s%s\n%s", key, absentNote(before), key, absentNote(after), printableLines(diff))
	return err
}

func absentNote(object *unstructured.Unstructured) string {
	if object == nil {
		return " (not there)"
	}
	return ""
}

// shownObject is a copy without what a write changes whatever it writes, and
// without the status.
func shownObject(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object == nil {
		return nil
	}
	shown := object.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(shown.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(shown.Object, "metadata", "annotations", lastAppliedAnnotation)
	unstructured.RemoveNestedField(shown.Object, "status")
	return shown
}

// maskSecrets hides the values of a Secret. That one differs can be seen.
func maskSecrets(before, after *unstructured.Unstructured) {
	for _, field := range []string{"data", "stringData"} {
		old, fresh := nestedMap(before, field), nestedMap(after, field)
		for key, value := range old {
			other, both := fresh[key]
			if both && other != value {
				fresh[key] = secret.Redacted + " (another value)"
			} else if both {
				fresh[key] = secret.Redacted
			}
			old[key] = secret.Redacted
		}
		for key := range fresh {
			if _, both := old[key]; !both {
				fresh[key] = secret.Redacted
			}
		}
	}
}

// nestedMap is a map in an object, not a copy; an empty one if there is none.
// What is in its place and is no map is taken away: it could be a value.
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

func objectText(object *unstructured.Unstructured) (string, error) {
	if object == nil {
		return "", nil
	}
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}

// printableLines makes a text safe for terminals, line by line.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
