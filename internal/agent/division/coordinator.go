package division

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/observe"
)

// observation is since when a Lease has a version, by the clock of this replica.
type observation struct {
	version string
	since   time.Time
}

// coordinator is the part of the division that any member can do: it deletes Leases that
// have expired, and writes the next generation. The first member does it at once and each
// further one a little later, so that they seldom do it at the same time; then one of them
// gets a conflict. It belongs to the goroutine of the membership.
type coordinator struct {
	*Division
	self string
	// observed are the Leases of other members.
	observed map[string]observation
	// due is since when the next generation is due; zero if it is not.
	due time.Time
}

// observe notes when each Lease was seen in its version. That is after it was written, and
// so after its holder began to count.
func (c *coordinator) observe(now *snapshot) {
	for name := range c.observed {
		if now.leases[name] == nil {
			delete(c.observed, name)
		}
	}
	for name, lease := range now.leases {
		if c.observed[name].version != lease.ResourceVersion {
			c.observed[name] = observation{lease.ResourceVersion, time.Now()}
		}
	}
}

// act does what is due, by the last snapshot.
func (c *coordinator) act(ctx context.Context, seen *snapshot) {
	rank := -1
	if seen != nil {
		rank = seen.rank(c.self)
	}
	if rank < 0 {
		return // the own Lease is not in it yet
	}
	turn := time.Duration(rank) * c.Duration / 30
	for name, lease := range seen.leases {
		if name != c.self && time.Since(c.observed[name].since) >= c.Duration+turn {
			c.expire(ctx, lease)
		}
	}
	table, due := seen.next()
	switch {
	case !due:
		c.due = time.Time{}
	case c.due.IsZero():
		c.due = time.Now()
	}
	if due && time.Since(c.due) >= turn {
		c.due = time.Time{}
		c.write(ctx, seen, table)
	}
}

// expire deletes the Lease of a member that does not renew it. A renewal that comes in
// meanwhile makes another version, and the member stays; one that comes later finds no
// Lease.
func (c *coordinator) expire(ctx context.Context, lease *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, c.Duration/renewals)
	defer cancel()
	err := c.Cluster.Client.CoordinationV1().Leases(lease.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	switch {
	case err == nil:
		c.Log.Warn("a replica is gone: its Lease expired", "lease", lease.Name, "identity", holderOf(lease))
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil:
		c.Log.Warn("cannot delete an expired Lease; retrying", "lease", lease.Name, observe.KeyError, err)
	}
	// The watch shows what became of it. Until then it counts as seen now.
	c.observed[lease.Name] = observation{lease.ResourceVersion, time.Now().Add(-c.Duration * (renewals - 1) / renewals)}
}

// write writes the table for the version that was read. If that is not the latest one,
// another member was faster.
func (c *coordinator) write(ctx context.Context, seen *snapshot, table []generation) {
	ctx, cancel := context.WithTimeout(ctx, c.Duration/renewals)
	defer cancel()
	leases := c.Cluster.Client.CoordinationV1().Leases(c.Cluster.Namespace)
	var err error
	if seen.table == nil {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: c.tableName(), Labels: map[string]string{divisionLabel: c.Name}, Annotations: map[string]string{tableAnnotation: encodeTable(table)},
		}}, metav1.CreateOptions{})
	} else {
		next := seen.table.DeepCopy()
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		next.Annotations[tableAnnotation] = encodeTable(table)
		_, err = leases.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		c.Log.Warn("cannot write the table of the division; retrying", observe.KeyError, err)
	}
}
