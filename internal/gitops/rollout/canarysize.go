package rollout

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// fenceposts are the Pods above and below the wanted number that an update may have.
// Both zero would stop it, so that one Pod may be unavailable then.
func (p *pass) fenceposts() (surge, unavailable int32) {
	replicas := int(p.replicas())
	maxSurge, maxUnavailable := intstr.FromString(defaultPercentage), intstr.FromString(defaultPercentage)
	if canary := p.spec.Strategy.Canary; canary != nil {
		maxSurge = *intstr.ValueOrDefault(canary.MaxSurge, maxSurge)
		maxUnavailable = *intstr.ValueOrDefault(canary.MaxUnavailable, maxUnavailable)
	}
	above, _ := intstr.GetScaledValueFromIntOrPercent(&maxSurge, replicas, true)        // invalid has refused what is neither
	below, _ := intstr.GetScaledValueFromIntOrPercent(&maxUnavailable, replicas, false) // likewise
	if above == 0 && below == 0 {
		below = 1
	}
	return int32(above), int32(min(below, replicas))
}

// fullWeight is the weight of all traffic.
func (p *pass) fullWeight() int32 {
	if canary := p.spec.Strategy.Canary; canary != nil && canary.TrafficRouting != nil && canary.TrafficRouting.MaxTrafficWeight != nil {
		return *canary.TrafficRouting.MaxTrafficWeight
	}
	return defaultWeight
}

// hasOwnStable: there is a stable ReplicaSet beside the new one.
func (p *pass) hasOwnStable() bool { return p.stableSet != nil && p.stableSet != p.newSet }

// canarySizes are the sizes of the new and the stable ReplicaSet.
func (p *pass) canarySizes(weights *v1alpha1.TrafficWeights) (canary, stable int32) {
	if p.spec.Strategy.Canary.TrafficRouting == nil {
		return p.basicSizes()
	}
	return p.routedSizes(weights)
}

// canaryTarget is the size or, without one, the weight that the canary should have.
func (p *pass) canaryTarget() (size *int32, weight int32) {
	if p.old.PromoteFull || p.old.StableRS == "" || p.isFullyPromoted() {
		return nil, p.fullWeight()
	}
	if scale := p.canaryScale(); scale != nil {
		if scale.Replicas != nil {
			return scale.Replicas, 0
		}
		if scale.Weight != nil {
			return nil, *scale.Weight
		}
	}
	return nil, p.scaleWeight()
}

// canaryScale is the last setCanaryScale that counts; nil if the weight does. After an
// abort the weight counts, unless the canary is kept.
func (p *pass) canaryScale() *v1alpha1.SetCanaryScale {
	canary := p.spec.Strategy.Canary
	if canary.TrafficRouting == nil {
		return nil
	}
	if _, keep, _ := p.abortDelay(); p.old.Abort && !keep {
		return nil
	}
	step, index := p.currentStep()
	if step == nil {
		return nil
	}
	for i := index; i >= 0; i-- {
		if scale := canary.Steps[i].SetCanaryScale; scale != nil {
			if scale.MatchTrafficWeight {
				return nil
			}
			return scale
		}
	}
	return nil
}

// scaleWeight is the weight that the size follows. A dynamically scaled stable
// ReplicaSet comes back in the steps of the update after an abort, and not at once.
func (p *pass) scaleWeight() int32 {
	canary := p.spec.Strategy.Canary
	if !p.old.Abort || !canary.DynamicStableScale || p.stableSet == nil {
		return p.setWeight()
	}
	running := max(p.replicas()-availableOf(p.stableSet), availableOf(p.newSet))
	for i := len(canary.Steps) - 1; i >= 0; i-- {
		if weight := canary.Steps[i].SetWeight; weight != nil && p.sizeForWeight(*weight) < running {
			return *weight
		}
	}
	return 0
}

// setWeight is the weight of the last setWeight step; 0 after an abort and before the
// first, everything after the last step.
func (p *pass) setWeight() int32 {
	if p.old.Abort {
		return 0
	}
	step, index := p.currentStep()
	if step == nil {
		return p.fullWeight()
	}
	return p.weightUpTo(index)
}

// weightUpTo is the weight of the last setWeight step up to an index; 0 without one.
func (p *pass) weightUpTo(index int32) int32 {
	for i := index; i >= 0; i-- {
		if weight := p.spec.Strategy.Canary.Steps[i].SetWeight; weight != nil {
			return *weight
		}
	}
	return 0
}

// sizeForWeight is the number of Pods for a weight, rounded up.
func (p *pass) sizeForWeight(weight int32) int32 {
	return int32(math.Ceil(float64(weight) * float64(p.replicas()) / float64(p.fullWeight())))
}

// routedSizes are the sizes with a router. The stable ReplicaSet keeps its full size,
// or with dynamicStableScale that of its traffic: the larger of what it gets and what
// it will get.
func (p *pass) routedSizes(weights *v1alpha1.TrafficWeights) (canary, stable int32) {
	size, weight := p.canaryTarget()
	if size != nil {
		canary = *size
	} else {
		canary = p.atLeast(p.sizeForWeight(weight))
	}
	if !p.spec.Strategy.Canary.DynamicStableScale {
		return canary, p.replicas()
	}
	stable = p.sizeForWeight(p.fullWeight() - weight)
	if weights != nil {
		stable = max(stable, p.sizeForWeight(weights.Stable.Weight))
		if p.old.Abort {
			canary = max(canary, p.sizeForWeight(weights.Canary.Weight))
		}
	}
	return p.atLeast(canary), p.atLeast(stable)
}

// atLeast applies minPodsPerReplicaSet.
func (p *pass) atLeast(size int32) int32 {
	least := p.spec.Strategy.Canary.MinPodsPerReplicaSet
	if size == 0 || least == nil {
		return size
	}
	return max(size, min(*least, p.replicas()))
}

// basicSizes are the sizes without a router, where the number of Pods is the weight.
// Within the surge, the stable ReplicaSet grows first. One is scaled down only as far
// as enough Pods are available, and after all old ones.
func (p *pass) basicSizes() (canary, stable int32) {
	replicas := p.replicas()
	_, weight := p.canaryTarget()
	surge, unavailable := p.fenceposts()
	wantCanary, wantStable := nearestSplit(replicas, weight, p.fullWeight(), surge)
	both := p.hasOwnStable()
	canary = sizeOf(p.newSet)
	total := canary + sum(p.others, sizeOf)
	if both {
		stable = sizeOf(p.stableSet)
		total += stable
	} else {
		wantCanary, wantStable = replicas, 0
	}

	room := replicas + surge - total
	if both && stable < wantStable && room > 0 {
		grown := min(stable+room, wantStable)
		room -= grown - stable
		stable = grown
	}
	if canary < wantCanary && room > 0 {
		canary = min(canary+room, wantCanary)
	}
	if sum(p.others, sizeOf) > 0 {
		return canary, stable
	}

	least := replicas - unavailable
	// Pods of the ReplicaSet that shrinks count even if they are not available: it
	// could never be scaled down otherwise.
	grows := wantCanary >= sizeOf(p.newSet)
	spare := removable(p.newSet, !grows) + removable(p.stableSet, grows) - least
	if spare <= 0 {
		return canary, stable
	}
	limits := limits{most: replicas + surge, least: least}
	switch {
	case !grows:
		canary = shrink(p.newSet, wantCanary, spare, canary)
		canary, stable = limits.fit(p.newSet, p.stableSet, canary, stable)
	case both:
		stable = shrink(p.stableSet, wantStable, spare, stable)
		stable, canary = limits.fit(p.stableSet, p.newSet, stable, canary)
	}
	return canary, stable
}

// removable is the number of Pods of a ReplicaSet that count for scaling down.
func removable(set *appsv1.ReplicaSet, all bool) int32 {
	if all {
		return sizeOf(set)
	}
	return min(sizeOf(set), availableOf(set))
}

// shrink is the size of a ReplicaSet that loses up to spare Pods, but not more than it
// has above what is wanted.
func shrink(set *appsv1.ReplicaSet, wanted, spare, size int32) int32 {
	if sizeOf(set) <= wanted {
		return size
	}
	return max(wanted, sizeOf(set)-spare)
}

// limits are the most Pods of an update, and the least that are available.
type limits struct{ most, least int32 }

// fit keeps two sizes within the limits: that of the ReplicaSet which shrinks, and that
// of the other one, which may have grown beyond the surge.
func (l limits) fit(shrinking, other *appsv1.ReplicaSet, size, otherSize int32) (int32, int32) {
	if other == nil {
		return size, otherSize
	}
	available := min(availableOf(shrinking), size)
	otherSize -= max(0, otherSize+size-l.most)
	available += min(availableOf(other), otherSize)
	// Give back what the cut has taken of the availability.
	lost := max(0, availableOf(other)-otherSize)
	otherSize += min(lost, max(0, l.least-available))
	return size - max(0, otherSize+size-l.most), otherSize
}

// nearestSplit is the number of canary and stable Pods whose share is nearest to a
// weight: of all Pods, or of one more if a surge permits it. A weight between nothing
// and everything has at least one Pod on each side.
func nearestSplit(replicas, weight, full, surge int32) (canary, stable int32) {
	if replicas == 0 {
		return 0, 0
	}
	exact := float64(replicas*weight) / float64(full)
	up, down := int32(math.Ceil(exact)), int32(math.Floor(exact))
	mayBeNone := weight == full || weight == 0 || replicas == 1 && surge == 0
	best, found := math.Inf(1), false
	consider := func(count, total int32) {
		distance := math.Abs(float64(count*full)/float64(total) - float64(weight))
		if distance < best {
			best, found, canary, stable = distance, true, count, total-count
		}
	}
	if up < replicas || mayBeNone {
		consider(up, replicas)
	}
	if !isTie(weight, full, replicas) && (down != 0 || mayBeNone) {
		consider(down, replicas)
	}
	if surge > 0 {
		consider(up, replicas+1)
		if !isTie(weight, full, replicas+1) && (down != 0 || mayBeNone) {
			consider(down, replicas+1)
		}
	}
	if !found {
		return 0, replicas
	}
	return canary, stable
}

// isTie: rounding up and down are equally near. Up is taken then.
func isTie(weight, full, total int32) bool {
	_, fraction := math.Modf(float64(total) * (float64(weight) / float64(full)))
	return fraction == 0.5
}
