package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// The values of a condition's status.
const (
	yes     = "True"
	no      = "False"
	unknown = "Unknown"
)

// statusOf is the status of a condition that holds or does not.
func statusOf(holds bool) string {
	if holds {
		return yes
	}
	return no
}

// compareText orders texts.
func compareText(one, other string) int { return cmp.Compare(one, other) }

// condition makes a condition of this moment.
func (p *pass) condition(kind, status, reason, message string) v1alpha1.RolloutCondition {
	return v1alpha1.RolloutCondition{Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: p.now, LastTransitionTime: p.now}
}

// conditionOf returns a condition of a status; nil if it has none of the type.
func conditionOf(status *v1alpha1.RolloutStatus, kind string) *v1alpha1.RolloutCondition {
	at := slices.IndexFunc(status.Conditions, func(one v1alpha1.RolloutCondition) bool { return one.Type == kind })
	if at < 0 {
		return nil
	}
	return &status.Conditions[at]
}

// setCondition sets a condition, and reports whether it changed. One with the same
// status and reason stays as it is, with its message.
func setCondition(status *v1alpha1.RolloutStatus, condition v1alpha1.RolloutCondition) bool {
	before := conditionOf(status, condition.Type)
	if before != nil && before.Status == condition.Status && before.Reason == condition.Reason {
		return false
	}
	if before != nil && before.Status == condition.Status {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	removeCondition(status, condition.Type)
	status.Conditions = append(status.Conditions, condition)
	return true
}

// removeCondition removes a condition. The list is copied: the old status shares it.
func removeCondition(status *v1alpha1.RolloutStatus, kind string) {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(one v1alpha1.RolloutCondition) bool { return one.Type == kind })
}

// writeConditions makes a status that differs from the old one in conditions only.
func (p *pass) writeConditions(conditions ...v1alpha1.RolloutCondition) {
	status := *p.old
	for _, condition := range conditions {
		setCondition(&status, condition)
	}
	status.ObservedGeneration = strconv.FormatInt(p.rollout.Generation, 10)
	status.Phase, status.Message = phaseOf(p.spec, &status)
	p.decision.Status = &status
}

// isComplete: the new ReplicaSet is the stable one.
func isComplete(status *v1alpha1.RolloutStatus) bool {
	return status.StableRS != "" && status.StableRS == status.CurrentPodHash
}

// isHealthy: all Pods are those of the template, are available and get the traffic,
// and the spec was observed by an earlier pass.
func (p *pass) isHealthy(status *v1alpha1.RolloutStatus) bool {
	replicas := p.replicas()
	if status.UpdatedReplicas != replicas || status.AvailableReplicas != replicas || p.old.ObservedGeneration != strconv.FormatInt(p.rollout.Generation, 10) {
		return false
	}
	if strategy := p.spec.Strategy.BlueGreen; strategy != nil {
		return status.BlueGreen.ActiveSelector == status.CurrentPodHash &&
			(strategy.PreviewService == "" || status.BlueGreen.PreviewSelector == status.CurrentPodHash)
	}
	steps := int32(len(p.spec.Strategy.Canary.Steps))
	allSteps := steps == 0 || status.CurrentStepIndex == nil || *status.CurrentStepIndex == steps
	return allSteps && isComplete(status) && status.Replicas == replicas
}

// hasProgressed compares the new status with the old one.
func (p *pass) hasProgressed(status *v1alpha1.RolloutStatus) bool {
	old := p.old
	if p.spec.Strategy.BlueGreen != nil {
		if old.BlueGreen.ActiveSelector != status.BlueGreen.ActiveSelector || old.BlueGreen.PreviewSelector != status.BlueGreen.PreviewSelector {
			return true
		}
	} else {
		stepped := status.CurrentStepIndex != nil && old.CurrentStepIndex != nil && *status.CurrentStepIndex != *old.CurrentStepIndex
		if stepped || status.StableRS != old.StableRS || status.CurrentStepHash != old.CurrentStepHash {
			return true
		}
	}
	return status.UpdatedReplicas != old.UpdatedReplicas ||
		status.Replicas-status.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		status.ReadyReplicas > old.ReadyReplicas ||
		status.AvailableReplicas > old.AvailableReplicas
}

// deadline is the time within which an update has to progress.
func (p *pass) deadline() time.Duration {
	if p.spec.ProgressDeadlineSeconds != nil {
		return time.Duration(*p.spec.ProgressDeadlineSeconds) * time.Second
	}
	return defaultProgressDeadline * time.Second
}

// hasTimedOut: the last progress is too long ago. Pauses and aborts do not count.
func (p *pass) hasTimedOut(status *v1alpha1.RolloutStatus) bool {
	progress := conditionOf(status, v1alpha1.ConditionProgressing)
	if progress == nil || progress.Reason == reasonAborted || progress.Reason == reasonPaused {
		return false
	}
	return progress.Reason == reasonTimedOut || progress.LastUpdateTime.Add(p.deadline()).Before(p.seen.Now)
}

// waitsForOthers: the update is at a step that takes as long as it takes, or an old
// ReplicaSet waits to be scaled down. Neither is a lack of progress.
func (p *pass) waitsForOthers() bool {
	if step, _ := p.currentStep(); step != nil && (step.Analysis != nil || step.Pause != nil) {
		return true
	}
	if paused := conditionOf(p.old, v1alpha1.ConditionPaused); paused != nil && paused.Status == yes {
		return true
	}
	return slices.ContainsFunc(p.others, hasDeadline)
}

// abortWithoutProgress aborts an update that has exceeded its deadline, if the spec
// has progressDeadlineAbort.
func (p *pass) abortWithoutProgress(status *v1alpha1.RolloutStatus) {
	if !p.spec.ProgressDeadlineAbort || p.isAborted() || isComplete(status) || p.hasProgressed(status) || p.waitsForOthers() || !p.hasTimedOut(p.old) {
		return
	}
	p.pause.abort, p.pause.message = true, fmt.Sprintf(messageTimedOut, nameOf(p.newSet))
	p.warn(reasonAborted, "%s", p.pause.message)
}

// finish completes the new status: pauses, conditions and phase, in this order,
// because each reads the one before.
func (p *pass) finish() {
	status := &p.status
	status.ObservedGeneration = strconv.FormatInt(p.rollout.Generation, 10)
	if p.spec.WorkloadRef != nil {
		status.WorkloadObservedGeneration = p.rollout.Annotations[annotationWorkload]
	}
	p.abortWithoutProgress(status)
	p.writePause(status)
	p.writeHealth(status)
	p.writeProgress(status)
	p.writeAvailability(status)
	status.Phase, status.Message = phaseOf(p.spec, status)
	p.announcePause(status)
	p.decision.Status = status
	p.checkProgressAgain(status)
}

// writeHealth sets the conditions Healthy, and Progressing of an abort.
func (p *pass) writeHealth(status *v1alpha1.RolloutStatus) {
	paused := len(status.PauseConditions) > 0 || p.spec.Paused
	if !paused && p.isHealthy(status) {
		setCondition(status, p.condition(v1alpha1.ConditionHealthy, yes, reasonHealthy, messageHealthy))
	} else if conditionOf(p.old, v1alpha1.ConditionHealthy) != nil {
		setCondition(status, p.condition(v1alpha1.ConditionHealthy, no, reasonHealthy, messageNotHealthy))
	}
	if !p.isAborted() {
		return
	}
	message := fmt.Sprintf(messageAborted, p.revision())
	if p.pause.message != "" {
		message += ": " + p.pause.message
	}
	if setCondition(status, p.condition(v1alpha1.ConditionProgressing, no, reasonAborted, message)) {
		p.warn(reasonAborted, "%s", message)
	}
}

// writeProgress sets the condition Progressing of an update that is not aborted.
func (p *pass) writeProgress(status *v1alpha1.RolloutStatus) {
	if p.isAborted() {
		return
	}
	before, after := conditionOf(p.old, v1alpha1.ConditionHealthy), conditionOf(status, v1alpha1.ConditionHealthy)
	becameUnhealthy := before != nil && before.Status == yes && after != nil && after.Status == no
	name := nameOf(p.newSet)
	switch {
	case p.isHealthy(status):
		setCondition(status, p.condition(v1alpha1.ConditionProgressing, yes, reasonNewAvailable, fmt.Sprintf(messageNewAvailable, name)))
	case p.hasProgressed(status) || becameUnhealthy:
		// The time of the last progress changes, whatever the reason is.
		condition := p.condition(v1alpha1.ConditionProgressing, yes, reasonUpdated, fmt.Sprintf(messageProgressing, name))
		if becameUnhealthy && status.StableRS == status.CurrentPodHash {
			condition.Reason, condition.Message = reasonNotAvailable, messageNotAvailable
		}
		if old := conditionOf(p.old, v1alpha1.ConditionProgressing); old != nil && old.Status == yes {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		removeCondition(status, v1alpha1.ConditionProgressing)
		setCondition(status, condition)
	case !p.waitsForOthers() && p.hasTimedOut(status):
		setCondition(status, p.condition(v1alpha1.ConditionProgressing, no, reasonTimedOut, fmt.Sprintf(messageTimedOut, name)))
	}
}

// writeAvailability sets the conditions Available, ReplicaFailure and Completed.
func (p *pass) writeAvailability(status *v1alpha1.RolloutStatus) {
	available := false
	if p.spec.Strategy.BlueGreen != nil {
		available = p.isSaturated(p.byHash(status.BlueGreen.ActiveSelector))
	} else {
		available = sum(p.all, availableOf) >= p.replicas()
	}
	if available {
		setCondition(status, p.condition(v1alpha1.ConditionAvailable, yes, reasonAvailable, messageAvailable))
	} else {
		setCondition(status, p.condition(v1alpha1.ConditionAvailable, no, reasonAvailable, messageNotAvailable))
	}
	if failure := p.replicaFailure(); failure != nil {
		setCondition(status, *failure)
	} else {
		removeCondition(status, v1alpha1.ConditionReplicaFailure)
	}
	complete := isComplete(status)
	changed := setCondition(status, p.condition(v1alpha1.ConditionCompleted, statusOf(complete), reasonCompleted, reasonCompleted))
	if changed && !complete {
		p.event(reasonNotCompleted, "Rollout not completed, started update to revision %d (%s)", p.revision(), status.CurrentPodHash)
	}
}

// replicaFailure is the failure of a ReplicaSet to make Pods, of the new one first;
// nil without one.
func (p *pass) replicaFailure() *v1alpha1.RolloutCondition {
	for _, set := range append([]*appsv1.ReplicaSet{p.newSet}, p.all...) {
		if set == nil {
			continue
		}
		for _, one := range set.Status.Conditions {
			if one.Type == appsv1.ReplicaSetReplicaFailure {
				return &v1alpha1.RolloutCondition{
					Type: v1alpha1.ConditionReplicaFailure, Status: string(one.Status), Reason: one.Reason, Message: one.Message,
					LastUpdateTime: one.LastTransitionTime, LastTransitionTime: one.LastTransitionTime,
				}
			}
		}
	}
	return nil
}

// announcePause records Events of a pause that begins or ends.
func (p *pass) announcePause(status *v1alpha1.RolloutStatus) {
	before, after := len(p.old.PauseConditions) > 0, len(status.PauseConditions) > 0
	switch {
	case !before && after:
		p.event(reasonPaused, "%s (%s)", messagePaused, status.PauseConditions[0].Reason)
	case before && !after && status.AbortedAt == nil:
		p.event(reasonResumed, messageResumed)
	}
}

// checkProgressAgain requests a pass for the deadline of an update.
func (p *pass) checkProgressAgain(status *v1alpha1.RolloutStatus) {
	progress := conditionOf(status, v1alpha1.ConditionProgressing)
	paused := len(status.PauseConditions) > 0 || p.spec.Paused
	if progress == nil || progress.Reason == reasonTimedOut || paused || status.Abort || p.isHealthy(status) {
		return
	}
	p.againAt(progress.LastUpdateTime.Add(p.deadline() + time.Second))
}
