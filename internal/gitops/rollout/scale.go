package rollout

import (
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// scaleDownDelay is how long an old ReplicaSet runs on after the switch.
func (p *pass) scaleDownDelay() time.Duration {
	var given *int32
	switch strategy := p.spec.Strategy; {
	case strategy.BlueGreen != nil:
		given = strategy.BlueGreen.ScaleDownDelaySeconds
	case strategy.Canary.TrafficRouting == nil:
		return 0
	default:
		given = strategy.Canary.ScaleDownDelaySeconds
	}
	if given == nil {
		return defaultScaleDownDelay * time.Second
	}
	return time.Duration(*given) * time.Second
}

// abortDelay is how long the new ReplicaSet runs on after an abort. keep means for
// ever, and set that the spec has a value.
func (p *pass) abortDelay() (delay time.Duration, keep, set bool) {
	var given *int32
	switch strategy := p.spec.Strategy; {
	case strategy.BlueGreen != nil:
		given = strategy.BlueGreen.AbortScaleDownDelaySeconds
	case strategy.Canary.TrafficRouting == nil:
		return 0, false, false
	default:
		given = strategy.Canary.AbortScaleDownDelaySeconds
	}
	switch {
	case given == nil:
		return defaultScaleDownDelay * time.Second, false, false
	case *given == 0:
		return 0, true, true
	}
	return time.Duration(*given) * time.Second, false, true
}

// delaysAbort: the update is aborted, and the new ReplicaSet is scaled down later.
func (p *pass) delaysAbort() bool {
	canary := p.spec.Strategy.Canary
	if !p.isAborted() || p.stableSet == nil || canary != nil && canary.TrafficRouting == nil {
		return false
	}
	_, keep, set := p.abortDelay()
	dynamic := canary != nil && canary.DynamicStableScale
	return !keep && (set || !dynamic)
}

// keepWanted removes deadlines of the new and the stable ReplicaSet, which a rollback
// to an old one leaves.
func (p *pass) keepWanted() {
	if !p.delaysAbort() {
		p.removeDeadline(p.newSet)
	}
	if p.stableSet != nil && p.stableSet != p.newSet {
		p.removeDeadline(p.stableSet)
	}
}

// scaleNew gives the new ReplicaSet its size. After an abort it keeps its size until
// its deadline, which begins when the stable one can serve everything.
func (p *pass) scaleNew() bool {
	size := p.newSize()
	if !p.delaysAbort() {
		return p.scaleNewTo(size)
	}
	if !hasDeadline(p.newSet) {
		p.scale(p.newSet, sizeOf(p.newSet)) // the annotation alone
		if availableOf(p.stableSet) >= p.replicas() {
			delay, _, _ := p.abortDelay()
			p.setDeadline(p.newSet, delay)
		}
		return false
	}
	if rest := p.untilDeadline(p.newSet); rest > 0 {
		p.again(rest)
		p.scale(p.newSet, sizeOf(p.newSet))
		return false
	}
	return p.scaleNewTo(0)
}

// scaleNewTo scales the new ReplicaSet, and the Deployment that it replaces.
func (p *pass) scaleNewTo(size int32) bool {
	before := sizeOf(p.newSet)
	scaled := p.scale(p.newSet, size)
	p.scaleWorkloadProgressively(before, size)
	return scaled
}

// newSize is the size of the new ReplicaSet.
func (p *pass) newSize() int32 {
	if p.spec.Strategy.BlueGreen != nil {
		return p.previewSize()
	}
	size, _ := p.canarySizes(p.status.Canary.Weights)
	return size
}

// revisionLimit is the number of old ReplicaSets that may wait to be scaled down.
func (p *pass) revisionLimit() int32 {
	var limit *int32
	if strategy := p.spec.Strategy.BlueGreen; strategy != nil {
		limit = strategy.ScaleDownDelayRevisionLimit
	} else {
		limit = p.spec.Strategy.Canary.ScaleDownDelayRevisionLimit
	}
	if limit == nil {
		return math.MaxInt32
	}
	return *limit
}

// delayed returns the size of an old ReplicaSet that is scaled down later: that of
// before until its deadline. waiting counts those that wait.
func (p *pass) delayed(set *appsv1.ReplicaSet, waiting *int32, size int32) int32 {
	limit := p.revisionLimit()
	if !hasDeadline(set) {
		if *waiting >= limit || sizeOf(set) == 0 {
			return 0
		}
		*waiting++
		p.setDeadline(set, p.scaleDownDelay())
		return sizeOf(set)
	}
	*waiting++
	rest := p.untilDeadline(set)
	if *waiting > limit || rest == 0 {
		return 0
	}
	p.again(rest)
	return size
}

// scaleOthers scales down ReplicaSets that are neither new nor stable. It reports
// whether one was.
func (p *pass) scaleOthers() bool {
	var active []*appsv1.ReplicaSet
	for _, set := range p.others {
		if sizeOf(set) > 0 {
			active = append(active, set)
		}
	}
	if len(active) == 0 {
		return false
	}
	if p.spec.Strategy.BlueGreen != nil {
		return p.scaleOldBlueGreen(active)
	}
	return p.scaleOldCanary(active)
}

// newestFirst orders ReplicaSets by revision, and by age.
func newestFirst(sets []*appsv1.ReplicaSet) {
	slices.SortFunc(sets, func(one, other *appsv1.ReplicaSet) int {
		if order := revisionOf(&other.ObjectMeta) - revisionOf(&one.ObjectMeta); order != 0 {
			return int(order)
		}
		return byAge(other, one)
	})
}

// scaleOldCanary scales old ReplicaSets down, with their unavailable Pods first, as
// long as enough Pods are available.
func (p *pass) scaleOldCanary(old []*appsv1.ReplicaSet) bool {
	total := int32(0)
	for _, set := range old {
		if size, available := sizeOf(set), availableOf(set); available < size {
			p.scale(set, available)
			total += size - available
		}
	}
	_, unavailable := p.fenceposts()
	spare := sum(p.all, availableOf) - (p.replicas() - unavailable)
	if spare <= 0 {
		return false
	}
	newestFirst(old)
	routed := p.spec.Strategy.Canary.TrafficRouting != nil
	waiting := int32(0)
	for _, set := range old {
		before := sizeOf(set)
		if spare <= 0 {
			break
		}
		if before == 0 || routed && p.isReferenced(set) {
			continue
		}
		size := p.oldCanarySize(set, spare, &waiting)
		if size == before {
			continue
		}
		p.scale(set, size)
		spare -= before - size
		total += before - size
	}
	return total > 0
}

// oldCanarySize is the size of an old ReplicaSet. Without a router its Pods get
// traffic, so that they go as fast as the availability permits. With one, the previous
// stable runs on for a while; one of an update that was replaced gets no traffic.
func (p *pass) oldCanarySize(set *appsv1.ReplicaSet, spare int32, waiting *int32) int32 {
	canary := p.spec.Strategy.Canary
	switch {
	case canary.TrafficRouting == nil:
		return max(sizeOf(set)-spare, 0)
	case canary.DynamicStableScale, !p.isFullyPromoted() && !hasDeadline(set):
		return 0
	}
	return p.delayed(set, waiting, sizeOf(set))
}

// isReferenced: the status or a Service names a ReplicaSet, so that it may get
// traffic.
func (p *pass) isReferenced(set *appsv1.ReplicaSet) bool {
	hash := hashOf(set)
	names := []string{p.old.StableRS, p.old.CurrentPodHash, p.old.BlueGreen.ActiveSelector, p.old.BlueGreen.PreviewSelector}
	if weights := p.old.Canary.Weights; weights != nil {
		names = append(names, weights.Canary.PodTemplateHash, weights.Stable.PodTemplateHash)
	}
	for _, service := range serviceNames(p.spec) {
		names = append(names, selectedBy(p.seen.Services[service]))
	}
	return hash != "" && slices.Contains(names, hash)
}

// serviceNames are the Services that a spec names.
func serviceNames(spec *v1alpha1.RolloutSpec) []string {
	var names []string
	if strategy := spec.Strategy.BlueGreen; strategy != nil {
		names = append(names, strategy.ActiveService, strategy.PreviewService)
	}
	if strategy := spec.Strategy.Canary; strategy != nil {
		names = append(names, strategy.StableService, strategy.CanaryService)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
