package rollout

import (
	"fmt"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// goesBackDynamically: the template went back to the stable ReplicaSet in the middle of
// an update, and that is too small because of dynamicStableScale. The traffic stays
// with the ReplicaSet that is returned until it has grown.
func (p *pass) goesBackDynamically() (canaryHash string, back bool) {
	canary, weights := p.spec.Strategy.Canary, p.old.Canary.Weights
	if !p.isFullyPromoted() || canary.TrafficRouting == nil || !canary.DynamicStableScale || weights == nil {
		return "", false
	}
	before := weights.Canary.PodTemplateHash
	return before, before != hashOf(p.newSet) && availableOf(p.newSet) < p.replicas()
}

// routeTraffic writes the weights to the router, and to the new status.
func (p *pass) routeTraffic() {
	routing := p.spec.Strategy.Canary.TrafficRouting
	if routing == nil || routing.Nginx == nil && routing.Plugins == nil {
		p.status.Canary.Weights = nil
		return
	}
	canaryHash, stableHash := hashOf(p.newSet), hashOf(p.stableSet)
	if before, back := p.goesBackDynamically(); back {
		canaryHash = before
	}
	weight := p.trafficWeight()
	// The stable ReplicaSet has to carry the rest.
	rest := (p.fullWeight() - weight) * p.replicas() / p.fullWeight()
	if p.stableSet == nil || availableOf(p.stableSet) < rest {
		return
	}
	p.setRouterWeight(weight)

	canary := p.spec.Strategy.Canary
	weights := v1alpha1.TrafficWeights{
		Canary: v1alpha1.WeightDestination{Weight: weight, ServiceName: canary.CanaryService, PodTemplateHash: canaryHash},
		Stable: v1alpha1.WeightDestination{Weight: p.fullWeight() - weight, ServiceName: canary.StableService, PodTemplateHash: stableHash},
	}
	if before := p.old.Canary.Weights; before == nil || before.Canary != weights.Canary || before.Stable != weights.Stable {
		p.status.Canary.Weights = &weights
		p.event(reasonWeightUpdated, "Traffic weight updated %s", weightChange(before, weight))
	}
}

// weightChange describes a change of the canary's weight.
func weightChange(before *v1alpha1.TrafficWeights, weight int32) string {
	switch {
	case before == nil:
		return fmt.Sprintf("to %d", weight)
	case before.Canary.Weight != weight:
		return fmt.Sprintf("from %d to %d", before.Canary.Weight, weight)
	}
	return ""
}

// trafficWeight is the weight of the canary. One without available Pods gets nothing,
// and a step its weight only when its Pods are there.
func (p *pass) trafficWeight() int32 {
	canary := p.spec.Strategy.Canary
	_, back := p.goesBackDynamically()
	switch {
	case back:
		return p.weightOnReturn()
	case p.isFullyPromoted():
		return 0
	case p.isAborted():
		weight := p.weightOnReturn()
		if !canary.DynamicStableScale || weight == 0 {
			p.pointService(canary.CanaryService, p.stableSet, false)
		}
		return weight
	case availableOf(p.newSet) == 0:
		return 0
	case p.old.PromoteFull:
		weight := int32(0)
		if canary.DynamicStableScale {
			weight = p.fullWeight() * availableOf(p.newSet) / p.replicas()
		} else if p.old.Canary.Weights != nil {
			weight = p.old.Canary.Weights.Canary.Weight
		}
		return weight
	case len(canary.Steps) == 0:
		return 0
	}
	step, index := p.currentStep()
	switch {
	case !p.atSizes(nil):
		return p.weightUpTo(min(index, int32(len(canary.Steps))) - 1)
	case step != nil:
		return p.setWeight()
	}
	return p.fullWeight()
}

// weightOnReturn is the weight of the canary while traffic goes back to the stable
// ReplicaSet: nothing at once, or with dynamicStableScale as much as the stable one
// cannot carry yet.
func (p *pass) weightOnReturn() int32 {
	if !p.spec.Strategy.Canary.DynamicStableScale || p.stableSet == nil || p.replicas() == 0 {
		return 0
	}
	full := p.fullWeight()
	wanted := p.scaleWeight()
	carried := full * availableOf(p.stableSet) / p.replicas()
	if p.old.Canary.Weights == nil {
		return max(full-carried, 0, wanted)
	}
	now := p.old.Canary.Weights.Canary.Weight
	switch {
	case wanted <= 0:
		return min(max(full-carried, 0), now)
	case carried < full-wanted:
		return now // the stable ReplicaSet still grows
	}
	return min(wanted, now)
}

// setRouterWeight writes a weight to the routers.
func (p *pass) setRouterWeight(weight int32) {
	routing := p.spec.Strategy.Canary.TrafficRouting
	for _, name := range ingressNames(routing) {
		p.writeCanaryIngress(name, weight)
	}
	for _, name := range routeNames(routing) {
		p.writeRouteWeights(name, weight)
	}
}
