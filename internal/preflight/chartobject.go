package preflight

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object that the chart installs, as it is rendered with the
// values of the installation.
type Object struct {
	schema.GroupVersionKind
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
	// Hook is set for an object that exists during an operation only.
	Hook bool
}

// resource returns the resource of the object's kind. It is derived from the
// name of the kind and not discovered: the kind may not exist yet.
func (o Object) resource() schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind)
	return plural
}
