package kube

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// Serves reports whether the API server serves a resource, or a subresource such
// as applications/status. Every user may read that, whatever rights it has.
func (c *Cluster) Serves(ctx context.Context, groupVersion, resource string) (bool, error) {
	served, err := discovery.ToDiscoveryInterfaceWithContext(c.Client.Discovery()).ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	if apierrors.IsNotFound(err) {
		return false, nil // the whole group is missing
	}
	if err != nil {
		return false, fmt.Errorf("read the resources of %s: %w", groupVersion, err)
	}
	return slices.ContainsFunc(served.APIResources, func(one metav1.APIResource) bool { return one.Name == resource }), nil
}
