package rollout

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// restartInterval is when Pods are evicted again that a PodDisruptionBudget protects, or
// whose successors were ready before a pass saw that they were not.
const restartInterval = 30 * time.Second

// needsRestart: restartAt is over, and the status does not have it yet.
func needsRestart(rollout *v1alpha1.Rollout, now time.Time) bool {
	at, done := rollout.Spec.RestartAt, rollout.Status.RestartedAt
	return at != nil && (done == nil || !at.Equal(done)) && now.After(at.Time)
}

// restartPods evicts Pods that are older than restartAt, as many at a time as may be
// unavailable, and one at least. It reports whether it evicted one: what was read of
// ReplicaSets is no longer true then.
func (p *pass) restartPods() bool {
	if p.spec.RestartAt != nil {
		p.againAt(p.spec.RestartAt.Time)
	}
	if !needsRestart(p.rollout, p.seen.Now) {
		return false
	}
	own := p.ownPods()
	// An update may have more Pods than replicas.
	least := max(p.replicas(), sum(p.all, sizeOf)) - max(p.maxUnavailable(), 1)
	spare := -least
	for _, pod := range own {
		if p.isPodAvailable(pod) {
			spare++
		}
	}
	older, evicted := 0, false
	for _, pod := range own {
		if !pod.CreationTimestamp.Before(p.spec.RestartAt) {
			continue
		}
		older++
		if spare > 0 && pod.DeletionTimestamp == nil {
			p.write(Write{Resource: pods, Name: pod.Name, Evict: true})
			spare--
			evicted = true
		}
	}
	if older > 0 {
		p.again(restartInterval)
	} else {
		p.status.RestartedAt = p.spec.RestartAt
	}
	return evicted
}

// ownPods are the Pods of the ReplicaSets of the Rollout.
func (p *pass) ownPods() []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range p.seen.Pods {
		if slices.ContainsFunc(p.all, func(set *appsv1.ReplicaSet) bool { return metav1.IsControlledBy(pod, set) }) {
			found = append(found, pod)
		}
	}
	return found
}

// isPodAvailable: a Pod has been ready for minReadySeconds, and is not deleted.
func (p *pass) isPodAvailable(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, one := range pod.Status.Conditions {
		if one.Type == corev1.PodReady && one.Status == corev1.ConditionTrue {
			least := time.Duration(p.spec.MinReadySeconds) * time.Second
			return least == 0 || !one.LastTransitionTime.IsZero() && !p.seen.Now.Before(one.LastTransitionTime.Add(least))
		}
	}
	return false
}

// maxUnavailable is the number of Pods that a restart may take at a time.
func (p *pass) maxUnavailable() int32 {
	strategy := p.spec.Strategy.BlueGreen
	if strategy == nil {
		_, unavailable := p.fenceposts()
		return unavailable
	}
	given := intstr.ValueOrDefault(strategy.MaxUnavailable, intstr.FromString(defaultPercentage))
	count, err := intstr.GetScaledValueFromIntOrPercent(given, int(p.replicas()), false)
	if err != nil {
		return 0
	}
	return min(int32(count), p.replicas())
}
