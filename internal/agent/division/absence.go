package division

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
)

// absenceInterval is how often Leases of members are read while they are waited for.
const absenceInterval = time.Second

// AwaitNone waits until no replica takes part in a division, for a leader that reconciles
// everything: during an upgrade that ends the division there are both. It needs the verb get
// on Leases only. Where that is refused there can be no division.
func AwaitNone(ctx context.Context, cluster *kube.Cluster, name string) error {
	seen := map[string]observation{}
	for {
		live, err := liveMembers(ctx, cluster, name, seen)
		if err == nil && live == 0 || apierrors.IsForbidden(err) {
			return nil
		}
		if backoff.Sleep(ctx, absenceInterval) != nil {
			return ctx.Err()
		}
	}
}

// liveMembers counts the members of a table whose Leases are renewed.
func liveMembers(ctx context.Context, cluster *kube.Cluster, name string, seen map[string]observation) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	leases := cluster.Client.CoordinationV1().Leases(cluster.Namespace)
	table, err := leases.Get(ctx, tableNameOf(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("read the table of the division: %w", err)
	}
	generations, _ := parseTable(table.Annotations[tableAnnotation]) // without members nothing is divided
	members := map[string]bool{}
	for _, one := range generations {
		for _, member := range one.Members {
			members[member] = true
		}
	}
	live := 0
	for member := range members {
		lease, err := leases.Get(ctx, member, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return 0, fmt.Errorf("read the Lease of a replica: %w", err)
		case seen[member].version != lease.ResourceVersion:
			seen[member] = observation{lease.ResourceVersion, time.Now()}
		}
		duration := DefaultDuration
		if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
			duration = time.Duration(*seconds) * time.Second
		}
		if time.Since(seen[member].since) < duration {
			live++
		}
	}
	return live, nil
}
