package rollout

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// blueGreen does one pass of a blue-green update.
func (p *pass) blueGreen() {
	strategy := p.spec.Strategy.BlueGreen
	if strategy.PreviewService != "" && !p.isHalted() {
		p.switchService(strategy.PreviewService, hashOf(p.newSet))
	}
	if !p.templateChanged() {
		p.restartPods()
		p.scaleBlueGreen()
		p.pauseBlueGreen()
		p.switchActive()
		p.analyse()
		p.syncMetadata()
	}
	p.finishBlueGreen()
}

// scaleBlueGreen scales all ReplicaSets: the stable one is always complete.
func (p *pass) scaleBlueGreen() {
	p.keepWanted()
	if p.stableSet != nil {
		p.scale(p.stableSet, p.replicas())
	}
	p.scaleNew()
	p.scaleOthers()
	p.deleteOld()
}

// active is the hash that the active Service selects.
func (p *pass) active() string {
	return selectedBy(p.seen.Services[p.spec.Strategy.BlueGreen.ActiveService])
}

// previewSize is the size of the new ReplicaSet: previewReplicaCount until it may be
// promoted.
func (p *pass) previewSize() int32 {
	preview := p.spec.Strategy.BlueGreen.PreviewReplicaCount
	active := p.byHash(p.old.BlueGreen.ActiveSelector)
	switch {
	case preview == nil, active == nil, active == p.newSet, p.old.PromoteFull:
		return p.replicas()
	case hashOf(p.newSet) != p.old.CurrentPodHash:
		return *preview // the update has just begun
	case !p.spec.Paused && len(p.old.PauseConditions) == 0 && p.old.BlueGreen.ScaleUpPreviewCheckPoint:
		return p.replicas()
	}
	return *preview
}

// isPreviewReady: the new ReplicaSet has its size, and all its Pods are available.
func (p *pass) isPreviewReady() bool {
	size := p.previewSize()
	return sizeOf(p.newSet) == size && availableOf(p.newSet) == size
}

// isFastTracked: the new ReplicaSet is promoted without a pause.
func (p *pass) isFastTracked() bool {
	active := p.active()
	return p.isFastRollback() || p.old.PromoteFull || active == "" || active == hashOf(p.newSet)
}

// isAutomatic: no person and no time is waited for.
func (p *pass) isAutomatic() bool {
	strategy := p.spec.Strategy.BlueGreen
	return (strategy.AutoPromotionEnabled == nil || *strategy.AutoPromotionEnabled) && strategy.AutoPromotionSeconds <= 0
}

// pauseBlueGreen pauses before the switch, or ends the pause.
func (p *pass) pauseBlueGreen() {
	if p.old.Abort || !p.isPreviewReady() || p.isHalted() {
		return
	}
	if p.isFastTracked() || p.old.BlueGreen.ScaleUpPreviewCheckPoint || p.isAutomatic() {
		p.pause.remove = append(p.pause.remove, v1alpha1.PauseBlueGreen)
		return
	}
	if !p.prePromotionPassed() {
		return
	}
	seconds := time.Duration(p.spec.Strategy.BlueGreen.AutoPromotionSeconds) * time.Second
	switch condition := p.pausedBy(v1alpha1.PauseBlueGreen); {
	case condition == nil && !p.old.ControllerPause:
		p.pause.add = append(p.pause.add, v1alpha1.PauseBlueGreen)
		if seconds > 0 {
			p.again(seconds)
		}
	case condition == nil:
	case p.blueGreenPauseEnded():
		p.pause.remove = append(p.pause.remove, v1alpha1.PauseBlueGreen)
	case seconds > 0:
		p.againAt(condition.StartTime.Add(seconds))
	}
}

// blueGreenPauseEnded: a person has continued the update, or autoPromotionSeconds are
// over.
func (p *pass) blueGreenPauseEnded() bool {
	strategy := p.spec.Strategy.BlueGreen
	condition := p.pausedBy(v1alpha1.PauseBlueGreen)
	switch {
	case len(p.pause.add) > 0:
		return false
	case p.old.BlueGreen.ScaleUpPreviewCheckPoint:
		return true
	case strategy.AutoPromotionEnabled != nil && !*strategy.AutoPromotionEnabled:
		return p.old.ControllerPause && condition == nil
	case strategy.AutoPromotionSeconds == 0:
		return true
	case condition == nil:
		return false
	}
	return p.seen.Now.After(condition.StartTime.Add(time.Duration(strategy.AutoPromotionSeconds) * time.Second))
}

// switchActive points the active Service at the new ReplicaSet once it is complete and
// promoted, and back at the stable one after an abort.
func (p *pass) switchActive() {
	if p.isHalted() || !p.isPreviewReady() || !p.isSaturated(p.newSet) {
		return
	}
	hash := p.active()
	if p.isFastTracked() || p.blueGreenPauseEnded() && p.prePromotionPassed() {
		hash = hashOf(p.newSet)
	}
	if p.old.Abort {
		hash = p.old.StableRS
	}
	p.switchService(p.spec.Strategy.BlueGreen.ActiveService, hash)
}

// scaleOldBlueGreen scales old ReplicaSets down after their delay. It reports whether
// one changed.
func (p *pass) scaleOldBlueGreen(old []*appsv1.ReplicaSet) bool {
	if p.pausedBy(v1alpha1.PauseInconclusiveAnalysis) != nil || p.postPromotionRuns() {
		return false
	}
	newestFirst(old)
	scaled, waiting := false, int32(0)
	for _, set := range old {
		if p.isReferenced(set) {
			continue
		}
		if p.scale(set, p.delayed(set, &waiting, p.replicas())) {
			scaled = true
		}
	}
	return scaled
}

// finishBlueGreen makes the status of a blue-green update.
func (p *pass) finishBlueGreen() {
	strategy, status := p.spec.Strategy.BlueGreen, &p.status
	p.baseStatus()
	if p.templateChanged() {
		p.reset()
	}
	if p.old.PromoteFull || p.isWithinWindow() {
		p.pause.clear, p.pause.unabort = true, true
	}
	status.BlueGreen.PreviewSelector = selectedBy(p.seen.Services[strategy.PreviewService])
	status.BlueGreen.ActiveSelector = p.active()
	if reason := p.blueGreenPromotion(); reason != "" {
		p.promote(reason)
	} else {
		status.BlueGreen.ScaleUpPreviewCheckPoint = p.mayScaleUpPreview()
	}
	if active := p.byHash(status.BlueGreen.ActiveSelector); active != nil {
		status.HPAReplicas, status.AvailableReplicas, status.ReadyReplicas = actualOf(active), availableOf(active), readyOf(active)
		status.Selector = metav1.FormatLabelSelector(active.Spec.Selector)
	} else {
		status.HPAReplicas, status.AvailableReplicas = sum(p.all, actualOf), sum(p.all, availableOf)
		status.Selector = metav1.FormatLabelSelector(p.spec.Selector)
	}
	p.finish()
}

// blueGreenPromotion is why the new ReplicaSet becomes the stable one; empty if it
// does not yet.
func (p *pass) blueGreenPromotion() string {
	status := &p.status
	switch {
	case p.stableSet == nil, status.BlueGreen.ActiveSelector == "":
		return "Initial deploy"
	case status.BlueGreen.ActiveSelector != status.CurrentPodHash:
		return ""
	case p.old.PromoteFull:
		return "Full promotion requested"
	case p.isWithinWindow():
		return "Rollback within window"
	case p.isFastRollback():
		return "Fast rollback"
	case p.isAborted() || !p.postPromotionPassed():
		return ""
	}
	return "Completed blue-green update"
}

// mayScaleUpPreview: the preview had its size and was promoted, so that it grows to
// the full one. It stays so until the end of the update.
func (p *pass) mayScaleUpPreview() bool {
	preview := p.spec.Strategy.BlueGreen.PreviewReplicaCount
	switch {
	case preview == nil:
		return false
	case p.old.BlueGreen.ScaleUpPreviewCheckPoint && !p.templateChanged():
		return true
	case !p.prePromotionPassed() || !p.blueGreenPauseEnded():
		return false
	}
	return *preview == availableOf(p.newSet)
}
