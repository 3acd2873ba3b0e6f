package plan

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The annotations that are read. Argo CD's mean here what they mean there.
const (
	annotationHook           = "argocd.argoproj.io/hook"
	annotationDeletePolicy   = "argocd.argoproj.io/hook-delete-policy"
	annotationWave           = "argocd.argoproj.io/sync-wave"
	annotationOptions        = "argocd.argoproj.io/sync-options"
	annotationCompare        = "argocd.argoproj.io/compare-options"
	annotationHelmHook       = "helm.sh/hook"
	annotationHelmPolicy     = "helm.sh/hook-delete-policy"
	annotationHelmWeight     = "helm.sh/hook-weight"
	annotationHelmKeepPolicy = "helm.sh/resource-policy"
)

// annotationOf returns the value of an annotation, and whether the object has
// it. A value that is null counts as absent: a template that leaves it empty
// asks for nothing, as in Argo CD.
func annotationOf(object *unstructured.Unstructured, name string) (string, bool) {
	metadata, _ := object.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, ok := annotations[name].(string)
	return value, ok
}

// words splits an annotation at its commas, without spaces and empty parts.
func words(object *unstructured.Unstructured, annotation string) []string {
	text, _ := annotationOf(object, annotation)
	var found []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			found = append(found, word)
		}
	}
	return found
}

func hasWord(object *unstructured.Unstructured, annotation, want string) bool {
	return slices.Contains(words(object, annotation), want)
}
