package reconcile

import (
	"context"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// detectStatusSubresource finds out whether the status of Applications is a
// subresource, as in our definition, or not, as in Argo CD's, which many clusters
// have. It is asked at the start, and again when a write shows that the definition
// was replaced. If it cannot be found out, the last result stays.
func (c *Controller) detectStatusSubresource(ctx context.Context) bool {
	serves, err := c.Cluster.Serves(ctx, v1alpha1.APIVersion, "applications/status")
	if err != nil {
		c.Log.Warn("cannot read whether Applications have a status subresource", "error", err)
		return c.hasStatusSubresource.Load()
	}
	if c.hasStatusSubresource.Swap(serves) != serves {
		c.Log.Info("status subresource of Applications changed", "served", serves)
	}
	return serves
}

// isTakenUp reports whether the requested operation is the one of the state: the
// process that took it up ended before it removed it. Nothing but the status has
// changed since then, or the generation would be another.
func (p *reconcileRun) isTakenUp() bool {
	state := p.state()
	return p.app.Operation != nil && state != nil && state.RequestGeneration != 0 && state.RequestGeneration == p.app.Generation
}
