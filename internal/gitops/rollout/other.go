package rollout

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
)

// The names of Argo Rollouts' own controller in its manifests and its chart.
const (
	otherSelector = "app.kubernetes.io/name=argo-rollouts,app.kubernetes.io/component!=rollouts-dashboard"
	otherLease    = "argo-rollouts-controller-lock"
)

// Other returns which controller of Argo Rollouts the cluster has; empty for none. Two
// controllers would undo each other's writes, and measure everything twice. It looks in
// the given namespaces, or in all if there are none.
func Other(ctx context.Context, cluster *kube.Cluster, namespaces []string) (string, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if found, err := otherIn(ctx, cluster, namespace); err != nil || found != "" {
			return found, err
		}
	}
	return "", nil
}

// otherIn is Other for one namespace. What may not be read is taken for absent. A Lease
// without a holder is what remains of a controller that was removed.
func otherIn(ctx context.Context, cluster *kube.Cluster, namespace string) (string, error) {
	deployments, err := cluster.Client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: otherSelector})
	if err != nil && !apierrors.IsForbidden(err) {
		return "", fmt.Errorf("list the Deployments of Argo Rollouts: %w", err)
	}
	if err == nil {
		for i := range deployments.Items {
			if one := &deployments.Items[i]; one.Spec.Replicas == nil || *one.Spec.Replicas > 0 {
				return fmt.Sprintf("the controller of Argo Rollouts is installed: Deployment %s/%s; scale it to 0 or uninstall it", one.Namespace, one.Name), nil
			}
		}
	}
	leases, err := cluster.Client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + otherLease})
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("list the Leases of Argo Rollouts: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if isHeld(&lease.Spec) {
			return fmt.Sprintf("a controller of Argo Rollouts holds the Lease %s/%s: stop it", lease.Namespace, lease.Name), nil
		}
	}
	return "", nil
}

// isHeld: the holder of a Lease has renewed it in time.
func isHeld(lease *coordinationv1.LeaseSpec) bool {
	if lease.HolderIdentity == nil || *lease.HolderIdentity == "" || lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		return false
	}
	return time.Since(lease.RenewTime.Time) < time.Duration(*lease.LeaseDurationSeconds)*time.Second
}
