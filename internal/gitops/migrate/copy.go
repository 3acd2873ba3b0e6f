package migrate

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/kube"
)

// Copy creates a Secret or ConfigMap of Argo CD in the namespace of a runtime. It
// keeps the content and those labels and annotations that do not mark an owner.
// One that exists there is an error and stays as it is.
func Copy(ctx context.Context, cluster *kube.Cluster, object *unstructured.Unstructured, namespace string) (Write, error) {
	made := object.DeepCopy()
	made.Object["metadata"] = map[string]any{"name": object.GetName(), "namespace": namespace}
	made.SetLabels(inherited(object.GetLabels()))
	made.SetAnnotations(inherited(object.GetAnnotations()))
	resources := map[string]string{"Secret": "secrets", "ConfigMap": "configmaps"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: resources[object.GetKind()]}
	// The body of the write is left out: it can have passwords.
	write := Write{Verb: "create", Object: object.GetKind() + " " + namespace + "/" + object.GetName(), Why: "the runtime needs its own"}
	_, err := cluster.Dynamic.Resource(resource).Namespace(namespace).Create(ctx, made, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return write, fmt.Errorf("make the %s %s/%s: %w", object.GetKind(), namespace, object.GetName(), err)
	}
	return write, nil
}
