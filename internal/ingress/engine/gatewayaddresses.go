package engine

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// assigner returns how Gateways get their addresses: from the pool, or by a Service with
// target ports. A Gateway that loses a target is resolved again in this pass.
func (e *Engine) assigner(view *snapshot.View) func(*gatewayv1.Gateway) gateway.Assignment {
	if e.options.Gateways.ServiceType == "" {
		return e.gateways.pool.Assign
	}
	return func(object *gatewayv1.Gateway) gateway.Assignment {
		assignment, lost := e.gateways.targets.Assign(view, object)
		for _, ref := range lost {
			if u := e.gateways.units[ref]; u != nil {
				u.markDirty(&e.state)
			}
		}
		return assignment
	}
}

// noteAssigned releases what a Gateway has that is not ours any more, and records whether
// it waits for what others have.
func (e *Engine) noteAssigned(u *gatewayUnit) {
	if !u.result.Ours {
		e.gateways.pool.Release(u.ref)
		e.gateways.targets.Release(u.ref)
	}
	held := u.result.Held()
	if held < u.held {
		e.gateways.freed = true
	}
	u.held = held
	delete(e.gateways.starved, u)
	if u.result.Starved() && e.snapshot.Exists(u.ref) {
		e.gateways.starved[u] = struct{}{}
	}
}

// markStarved marks the Gateways that wait for addresses or ports, if some became free.
func (e *Engine) markStarved() {
	if freed := e.gateways.pool.Freed(); !freed && !e.gateways.freed {
		return
	}
	e.gateways.freed = false
	for u := range e.gateways.starved {
		u.markDirty(&e.state)
	}
}
