package rollout

import (
	corev1 "k8s.io/api/core/v1"

	appsv1 "k8s.io/api/apps/v1"
)

// selectedBy is the hash that a Service selects; empty without one.
func selectedBy(service *corev1.Service) string {
	if service == nil {
		return ""
	}
	return service.Spec.Selector[labelHash]
}

// switchService points a Service at a hash, and marks it as managed.
func (p *pass) switchService(name, hash string) {
	service := p.seen.Services[name]
	if service == nil {
		return
	}
	_, managed := service.Annotations[annotationManagedBy]
	before := selectedBy(service)
	if before == hash && managed {
		return
	}
	patch := map[string]any{"spec": map[string]any{"selector": map[string]any{labelHash: hash}}}
	if !managed {
		patch["metadata"] = map[string]any{"annotations": map[string]any{annotationManagedBy: p.rollout.Name}}
	}
	p.write(Write{Resource: services, Name: name, Patch: patch})
	if service.Spec.Selector == nil {
		service.Spec.Selector = map[string]string{}
	}
	service.Spec.Selector[labelHash] = hash
	p.event(reasonSwitchService, "Switched selector for service '%s' from '%s' to '%s'", name, before, hash)
}

// switchCanaryServices points both Services of a canary at their ReplicaSets. Without
// a router, the canary Service goes back to the stable ReplicaSet after an abort.
func (p *pass) switchCanaryServices() {
	canary := p.spec.Strategy.Canary
	p.pointService(canary.StableService, p.stableSet, true)
	if p.isAborted() && canary.TrafficRouting == nil {
		p.pointService(canary.CanaryService, p.stableSet, true)
		return
	}
	if _, back := p.goesBackDynamically(); back {
		return
	}
	p.pointService(canary.CanaryService, p.newSet, true)
}

// pointService points a Service at a ReplicaSet, once that has Pods for it: all of them
// for a Service that was not managed before, and one otherwise.
func (p *pass) pointService(name string, set *appsv1.ReplicaSet, check bool) {
	service := p.seen.Services[name]
	if set == nil || service == nil || selectedBy(service) == hashOf(set) {
		return
	}
	_, managed := service.Annotations[annotationManagedBy]
	isAvailable := sizeOf(set) != 0 && availableOf(set) != 0 && sizeOf(set) <= availableOf(set)
	if check && (!managed && !isAvailable || availableOf(set) == 0) {
		return
	}
	p.switchService(name, hashOf(set))
}
