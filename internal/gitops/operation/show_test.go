package operation_test

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// tryGet asks the API server, not the cache.
func (w *world) tryGet(key tracking.Key, version string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	mapping, err := w.kinds.Mapping(ctx, key.GroupKind().WithVersion(version))
	if err != nil {
		return nil, err
	}
	object, err := w.cluster.Dynamic.Resource(mapping.Resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// showResults is one line for each object: phase, object, status, progress,
// message. Whether an object that no step waits for is gone when the operation
// ends is a matter of luck.
func showResults(w *world, results []v1alpha1.ResourceResult) string {
	var text strings.Builder
	for _, result := range results {
		key := tracking.Key{Group: result.Group, Kind: result.Kind, Namespace: result.Namespace, Name: result.Name}
		status := string(result.Status)
		if result.HookType != "" {
			status = "hook"
		}
		phase := string(result.HookPhase)
		if result.Status == v1alpha1.ResultPruned && phase != string(v1alpha1.OperationFailed) {
			phase = "-"
		}
		fmt.Fprintf(&text, "%s %s %s %s: %s\n", result.SyncPhase, key, status, phase, result.Message)
	}
	return strings.ReplaceAll(text.String(), w.namespace, "NAMESPACE")
}
