package agentprocess

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/programs"
)

// Applications returns the client for the Applications of a namespace.
func Applications(cluster *kube.Cluster, namespace string) dynamic.ResourceInterface {
	return cluster.Dynamic.Resource(schema.GroupVersionResource{
		Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "applications",
	}).Namespace(namespace)
}

// Await watches an Application until holds returns nil, and returns it. An
// Application that does not exist yet is waited for. The test fails after
// programs.Patience with the last error.
func Await(t *testing.T, in dynamic.ResourceInterface, name string, holds func(*v1alpha1.Application) error) *v1alpha1.Application {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	var last *v1alpha1.Application
	_, err := kube.WaitFor(ctx, in, kube.Named(name), func(found []*unstructured.Unstructured) error {
		if len(found) != 1 {
			return errors.New("it does not exist")
		}
		app, _, err := v1alpha1.Decode(found[0].Object)
		if err != nil {
			return err
		}
		last = app
		return holds(app)
	})
	if err != nil {
		t.Fatalf("Application %s: %v", name, err)
	}
	return last
}

// InOrder returns a condition for Await: the Application is Synced and Healthy,
// its last operation succeeded, and its revision is the given one unless that
// is empty.
func InOrder(revision string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		status, phase := &app.Status, v1alpha1.OperationPhase("")
		if status.OperationState != nil {
			phase = status.OperationState.Phase
		}
		at := status.Sync.Revision
		if status.Sync.Status == v1alpha1.SyncSynced && status.Health.Status == v1alpha1.Healthy && phase == v1alpha1.OperationSucceeded &&
			(revision == "" || at == revision) {
			return nil
		}
		return fmt.Errorf("it is %s and %s at %s, and not Synced and Healthy at %s: %s", status.Sync.Status, status.Health.Status, at, revision, Reported(app))
	}
}

// Reported summarizes the status of an Application on one line: conditions, the
// last operation, and resources that are not Healthy.
func Reported(app *v1alpha1.Application) string {
	var text strings.Builder
	for _, condition := range app.Status.Conditions {
		fmt.Fprintf(&text, "%s: %s; ", condition.Type, condition.Message)
	}
	if state := app.Status.OperationState; state != nil {
		fmt.Fprintf(&text, "operation %s: %s; ", state.Phase, state.Message)
	}
	for _, resource := range app.Status.Resources {
		if resource.Health != nil && resource.Health.Status != v1alpha1.Healthy {
			fmt.Fprintf(&text, "%s %s is %s: %s; ", resource.Kind, resource.Name, resource.Health.Status, resource.Health.Message)
		}
	}
	return text.String()
}
