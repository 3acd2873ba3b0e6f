package division

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
)

// Owner returns the replica that owns a key in the latest generation, for people; empty
// if nothing is divided. It may still wait for the last owner. It needs the verb get on
// Leases of the namespace.
func Owner(ctx context.Context, cluster *kube.Cluster, namespace, name, key string) (string, error) {
	leases := cluster.Client.CoordinationV1().Leases(namespace)
	table, err := leases.Get(ctx, tableNameOf(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("read the table of the division: %w", err)
	}
	seen, err := read(table.Name, []*coordinationv1.Lease{table})
	if err != nil {
		return "", err
	}
	member := ownerOf(seen.members(seen.latest()), key)
	if member == "" {
		return "", nil
	}
	lease, err := leases.Get(ctx, member, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil // it has just left, and the next generation has another owner
	} else if err != nil {
		return "", fmt.Errorf("read the Lease of the owner: %w", err)
	}
	// The table stays when the division is turned off, and so do Leases of replicas that
	// were killed.
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil ||
		time.Since(lease.Spec.RenewTime.Time) > 2*time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second {
		return "", nil
	}
	return holderOf(lease), nil
}
