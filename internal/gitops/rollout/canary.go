package rollout

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// canary does one pass of a canary. Its parts are done in order, and a part that
// scales something ends the pass before the next step is considered: the numbers of
// Pods that were read are no longer true.
func (p *pass) canary() {
	if p.templateChanged() || p.stepsChanged() {
		p.finishCanary()
		return
	}
	if p.restartPods() {
		return // the next pass sees which Pods are left
	}
	p.syncMetadata()
	p.deleteOld()
	p.switchCanaryServices()
	p.routeTraffic()
	p.analyse()
	if len(p.pause.add) == 0 && !p.scaleCanary() {
		p.pauseAtStep()
	}
	p.finishCanary()
}

// templateChanged: the template is another one than at the last pass.
func (p *pass) templateChanged() bool {
	return p.old.CurrentPodHash != "" && p.old.CurrentPodHash != hashOf(p.newSet)
}

// stepsChanged: the steps are others than at the last pass.
func (p *pass) stepsChanged() bool { return p.old.CurrentStepHash != stepsHash(p.spec) }

// currentStep returns the step that the update is at, and its index; nil after the
// last one and without steps.
func (p *pass) currentStep() (*v1alpha1.CanaryStep, int32) {
	canary := p.spec.Strategy.Canary
	if canary == nil || len(canary.Steps) == 0 {
		return nil, 0
	}
	index := int32(0)
	if p.old.CurrentStepIndex != nil {
		index = *p.old.CurrentStepIndex
	}
	if index < 0 || int(index) >= len(canary.Steps) {
		return nil, index
	}
	return &canary.Steps[index], index
}

// scaleCanary scales the stable, the new and the other ReplicaSets, and ends with the
// first that changes. It reports whether one did.
func (p *pass) scaleCanary() bool {
	if p.isHalted() {
		return false
	}
	p.keepWanted()
	if p.hasOwnStable() {
		// The weights of the last pass: at the end of an update the new ones give
		// everything to the stable Service, which no longer is this ReplicaSet.
		_, size := p.canarySizes(p.old.Canary.Weights)
		if p.scale(p.stableSet, size) {
			return true
		}
	}
	return p.scaleNew() || p.scaleOthers()
}

// baseStatus starts the new status with what both strategies have.
func (p *pass) baseStatus() {
	status := &p.status
	status.CurrentPodHash = hashOf(p.newSet)
	status.Replicas = sum(p.all, actualOf)
	status.UpdatedReplicas = actualOf(p.newSet)
	status.ReadyReplicas = sum(p.all, readyOf)
	status.CollisionCount = p.old.CollisionCount
	status.Conditions = p.old.Conditions
	removeCondition(status, v1alpha1.ConditionInvalidSpec)
	status.StableRS = p.old.StableRS
	status.PromoteFull = status.CurrentPodHash != status.StableRS && p.old.PromoteFull
}

// finishCanary makes the status of a canary.
func (p *pass) finishCanary() {
	p.baseStatus()
	status := &p.status
	status.AvailableReplicas = sum(p.all, availableOf)
	status.HPAReplicas = status.Replicas
	status.Selector = metav1.FormatLabelSelector(p.spec.Selector)
	status.CurrentStepHash = stepsHash(p.spec)
	p.advance()
	p.finish()
}

// advance decides the step of the new status.
func (p *pass) advance() {
	status := &p.status
	steps := int32(len(p.spec.Strategy.Canary.Steps))
	if p.templateChanged() || p.stepsChanged() {
		p.reset()
		switch {
		case steps == 0:
		case p.old.StableRS == hashOf(p.newSet):
			p.event(reasonSkipSteps, "Rollback to stable ReplicaSets")
			status.CurrentStepIndex = &steps
		case p.isWithinWindow() && sizeOf(p.newSet) > 0:
			p.event(reasonSkipSteps, "Rollback to active ReplicaSets within RollbackWindow")
			status.CurrentStepIndex = &steps
		}
		return
	}
	step, index := p.currentStep()
	if p.old.PromoteFull || p.isWithinWindow() {
		p.pause.clear, p.pause.unabort = true, true
		index = steps
	}
	if reason := p.canaryPromotion(); reason != "" {
		p.promote(reason)
		return
	}
	if p.isAborted() {
		index = 0
		if status.StableRS == status.CurrentPodHash {
			index = steps
		}
	} else if step != nil && p.stepCompleted(step) {
		index++
		status.Canary.CurrentStepAnalysisRunStatus = nil
		p.event(reasonStepCompleted, "Rollout step %d/%d completed (%s)", index, steps, stepText(step))
		p.pause.remove = append(p.pause.remove, v1alpha1.PauseCanaryStep)
	}
	if steps > 0 {
		status.CurrentStepIndex = &index
	}
}

// reset starts an update.
func (p *pass) reset() {
	p.pause.clear, p.pause.unabort = true, true
	p.status.RestartedAt = p.spec.RestartAt
	p.status.PromoteFull = false
	p.status.BlueGreen = v1alpha1.BlueGreenStatus{}
	p.status.Canary.CurrentStepAnalysisRunStatus = nil
	p.status.Canary.CurrentBackgroundAnalysisRunStatus = nil
	p.status.CurrentStepIndex = nil
	if canary := p.spec.Strategy.Canary; canary != nil && len(canary.Steps) > 0 {
		p.status.CurrentStepIndex = new(int32)
	}
}

// canaryPromotion is why the new ReplicaSet becomes the stable one; empty if it does
// not yet.
func (p *pass) canaryPromotion() string {
	steps := int32(len(p.spec.Strategy.Canary.Steps))
	step, index := p.currentStep()
	switch {
	case p.stableSet == nil:
		return "Initial deploy"
	case p.isAborted():
		return ""
	case availableOf(p.newSet) < p.replicas() && !p.isThresholdMet(p.replicas()):
		return ""
	case p.old.PromoteFull:
		return "Full promotion requested"
	case p.isWithinWindow():
		return "Rollback within window"
	case p.isFastRollback():
		return "Fast rollback"
	case steps == 0 || step == nil && index == steps:
		return fmt.Sprintf("Completed all %d canary steps", steps)
	}
	return ""
}

// promote makes the new ReplicaSet the stable one.
func (p *pass) promote(reason string) {
	status := &p.status
	p.pause.clear, p.pause.unabort = true, true
	status.PromoteFull = false
	status.BlueGreen.ScaleUpPreviewCheckPoint = false
	if canary := p.spec.Strategy.Canary; canary != nil {
		status.CurrentStepIndex = nil
		if steps := int32(len(canary.Steps)); steps > 0 {
			status.CurrentStepIndex = &steps
		}
	}
	if status.StableRS != status.CurrentPodHash {
		status.StableRS = status.CurrentPodHash
		p.event(reasonCompleted, "Rollout completed update to revision %d (%s): %s", p.revision(), status.CurrentPodHash, reason)
	}
	p.scaleWorkloadOnSuccess()
}

// isThresholdMet: so many Pods of the new ReplicaSet are available that a step is
// done; all of them, unless the spec has a threshold.
func (p *pass) isThresholdMet(desired int32) bool {
	threshold := p.spec.Strategy.Canary.ReplicaProgressThreshold
	available := availableOf(p.newSet)
	switch {
	case threshold == nil || threshold.Value < 0:
		return desired == sizeOf(p.newSet) && desired == available
	case threshold.Type == v1alpha1.ProgressPercent:
		return available*100 >= threshold.Value*desired
	}
	return available >= threshold.Value
}

// atSizes: the ReplicaSets have the sizes of the current step. Without a router the
// old ones have to be gone, because they get traffic.
func (p *pass) atSizes(weights *v1alpha1.TrafficWeights) bool {
	canary := p.spec.Strategy.Canary
	newSize, stableSize := p.canarySizes(weights)
	if !p.isThresholdMet(newSize) {
		return false
	}
	if canary.TrafficRouting == nil || !canary.DynamicStableScale {
		if p.stableSet == nil || stableSize != sizeOf(p.stableSet) || stableSize != actualOf(p.stableSet) {
			return false
		}
	}
	return canary.TrafficRouting != nil || sum(p.others, availableOf) == 0
}

// stepCompleted: the current step is done.
func (p *pass) stepCompleted(step *v1alpha1.CanaryStep) bool {
	switch {
	case p.spec.Paused:
		return false
	case step.Pause != nil:
		return p.stepPauseEnded(*step.Pause)
	case step.SetCanaryScale != nil, step.SetWeight != nil:
		return p.atSizes(p.status.Canary.Weights)
	case step.Analysis != nil:
		return p.stepAnalysisSucceeded()
	}
	return step.SetHeaderRoute != nil || step.SetMirrorRoute != nil
}

// stepText describes a step in an Event.
func stepText(step *v1alpha1.CanaryStep) string {
	switch scale := step.SetCanaryScale; {
	case step.SetWeight != nil:
		return fmt.Sprintf("setWeight: %d", *step.SetWeight)
	case step.Pause != nil && step.Pause.Duration != nil:
		return "pause: " + step.Pause.Duration.String()
	case step.Pause != nil:
		return "pause"
	case step.Analysis != nil:
		return "analysis"
	case scale != nil && scale.Weight != nil:
		return fmt.Sprintf("setCanaryScale{weight: %d}", *scale.Weight)
	case scale != nil && scale.MatchTrafficWeight:
		return "setCanaryScale{matchTrafficWeight: true}"
	case scale != nil && scale.Replicas != nil:
		return fmt.Sprintf("setCanaryScale{replicas: %d}", *scale.Replicas)
	case step.SetHeaderRoute != nil:
		return "setHeaderRoute: " + step.SetHeaderRoute.Name
	case step.SetMirrorRoute != nil:
		return "setMirrorRoute: " + step.SetMirrorRoute.Name
	}
	return "invalid"
}

// isWithinWindow: the template is one of the last revisions before the stable one, as
// many as rollbackWindow has.
func (p *pass) isWithinWindow() bool {
	window := p.spec.RollbackWindow
	if window == nil || window.Revisions <= 0 || p.stableSet == nil || !p.newSet.CreationTimestamp.Before(&p.stableSet.CreationTimestamp) {
		return false
	}
	between := int32(0)
	for _, set := range p.all {
		if set.CreationTimestamp.Before(&p.stableSet.CreationTimestamp) && p.newSet.CreationTimestamp.Before(&set.CreationTimestamp) {
			between++
		}
	}
	return between < window.Revisions
}

// isFastRollback: the template goes back to a ReplicaSet that still runs, so that
// nothing has to be tried again. It holds after a promotion, too.
func (p *pass) isFastRollback() bool {
	if p.stableSet == nil {
		return false
	}
	toStable := p.old.StableRS == hashOf(p.newSet)
	if !toStable && !p.newSet.CreationTimestamp.Before(&p.stableSet.CreationTimestamp) {
		return false
	}
	return toStable || p.isWithinWindow() || p.withinDelay && p.spec.Strategy.BlueGreen != nil
}
