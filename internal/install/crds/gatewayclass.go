package crds

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/gatewayapi"
)

// gatewayController is the controller of Slipway's GatewayClasses.
const gatewayController = "slipway.dev/gateway-controller"

// servedRecheck is the time between two attempts to use a kind whose definition is new.
const servedRecheck = 200 * time.Millisecond

// EnsureGatewayClass creates a GatewayClass with the marks of the release, unless it
// exists. It waits until the API server serves the kind, whose definition may be new.
func EnsureGatewayClass(ctx context.Context, options Options, name string) error {
	classes := options.Cluster.Dynamic.Resource(schema.GroupVersionResource{Group: gatewayapi.Group, Version: "v1", Resource: "gatewayclasses"})
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gatewayapi.Group + "/v1", "kind": "GatewayClass",
		"metadata": map[string]any{
			"name": name, "labels": map[string]any{labelManager: managerHelm},
			"annotations": map[string]any{annotationRelease: options.Release.Name, annotationNamespace: options.Release.Namespace},
		},
		"spec": map[string]any{"controllerName": gatewayController},
	}}
	for {
		_, err := classes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			// Applied by name, so that the role needs to allow this name only.
			_, err = classes.Apply(ctx, name, class, metav1.ApplyOptions{FieldManager: manager})
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("create the GatewayClass %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("create the GatewayClass %s: %w", name, err)
		case <-time.After(servedRecheck):
		}
	}
}
