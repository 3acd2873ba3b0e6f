package plan

import (
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

// words splits an annotation at its commas, without spaces and empty parts.
func words(object *unstructured.Unstructured, annotation string) []string {
	var found []string
	for word := range strings.SplitSeq(object.GetAnnotations()[annotation], ",") {
		if word = strings.TrimSpace(word); word != "" {
			found = append(found, word)
		}
	}
	return found
}

func hasWord(object *unstructured.Unstructured, annotation, want string) bool {
	for _, word := range words(object, annotation) {
		if word == want {
			return true
		}
	}
	return false
}
