package rollout

import (
	"slices"
	"time"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// pauseChange is what a pass changes about pauses and the abort.
type pauseChange struct {
	add, remove    []string
	clear          bool
	abort, unabort bool
	// message is why it is aborted, beside a request of a person.
	message string
}

// isAborted: the update is aborted when the pass ends.
func (p *pass) isAborted() bool {
	return !p.pause.unabort && (p.pause.abort || p.old.Abort)
}

// pausedBy returns the pause of a reason in the status that was read; nil without.
func (p *pass) pausedBy(reason string) *v1alpha1.PauseCondition {
	at := slices.IndexFunc(p.old.PauseConditions, func(one v1alpha1.PauseCondition) bool { return one.Reason == reason })
	if at < 0 {
		return nil
	}
	return &p.old.PauseConditions[at]
}

// isHalted: nothing is scaled or switched, because a person paused the Rollout or an
// analysis has no result.
func (p *pass) isHalted() bool {
	return p.spec.Paused || p.pausedBy(v1alpha1.PauseInconclusiveAnalysis) != nil
}

// writePause sets the abort and the pauses of the new status. An abort ends pauses.
func (p *pass) writePause(status *v1alpha1.RolloutStatus) {
	status.Abort, status.AbortedAt = false, nil
	if p.isAborted() {
		status.Abort, status.AbortedAt = true, p.old.AbortedAt
		if status.AbortedAt == nil {
			status.AbortedAt = &p.now
		}
		return
	}
	if p.pause.clear {
		return
	}
	var kept []v1alpha1.PauseCondition
	for _, one := range p.old.PauseConditions {
		if !slices.Contains(p.pause.remove, one.Reason) {
			kept = append(kept, one)
		}
	}
	paused := p.old.ControllerPause
	for _, reason := range p.pause.add {
		if p.pausedBy(reason) == nil {
			kept = append(kept, v1alpha1.PauseCondition{Reason: reason, StartTime: p.now})
			paused = true
		}
	}
	if len(kept) > 0 {
		status.PauseConditions, status.ControllerPause = kept, paused
	}
}

// stepPauseEnded: a person has continued the update, or the duration is over.
// controllerPause without a condition means that a client removed the condition.
func (p *pass) stepPauseEnded(pause v1alpha1.RolloutPause) bool {
	condition := p.pausedBy(v1alpha1.PauseCanaryStep)
	if condition == nil {
		return p.old.ControllerPause
	}
	if pause.Duration == nil {
		return false
	}
	end := condition.StartTime.Add(time.Duration(pause.Seconds()) * time.Second)
	return p.seen.Now.After(end)
}

// pauseAtStep pauses at a pause step, or requests a pass for its end.
func (p *pass) pauseAtStep() {
	step, _ := p.currentStep()
	if p.spec.Paused || p.old.PromoteFull || step == nil || step.Pause == nil {
		return
	}
	condition := p.pausedBy(v1alpha1.PauseCanaryStep)
	switch {
	case condition == nil && !p.old.ControllerPause:
		p.pause.add = append(p.pause.add, v1alpha1.PauseCanaryStep)
		if step.Pause.Duration != nil {
			p.again(time.Duration(step.Pause.Seconds()) * time.Second)
		}
	case condition != nil && step.Pause.Duration != nil:
		p.againAt(condition.StartTime.Add(time.Duration(step.Pause.Seconds()) * time.Second))
	}
}

// againAt requests a pass just after a time, unless that is over.
func (p *pass) againAt(when time.Time) {
	if rest := when.Sub(p.seen.Now); rest > 0 {
		p.again(rest + 10*time.Millisecond)
	}
}

// reportPause writes the conditions of a pause that has begun or ended since the
// last pass, which then is all that is done: the time without progress must not count
// against the deadline.
func (p *pass) reportPause() bool {
	progress := conditionOf(p.old, v1alpha1.ConditionProgressing)
	paused := len(p.old.PauseConditions) > 0 || p.spec.Paused
	aborted := progress != nil && progress.Reason == reasonAborted
	wasPaused := progress != nil && progress.Reason == reasonPaused

	var changes []v1alpha1.RolloutCondition
	if paused != wasPaused && !aborted && !isComplete(p.old) {
		reason, message := reasonPaused, messagePaused
		if !paused {
			reason, message = reasonResumed, messageResumed
		}
		changes = append(changes, p.condition(v1alpha1.ConditionProgressing, unknown, reason, message))
	}
	if !p.old.Abort && aborted {
		changes = append(changes, p.condition(v1alpha1.ConditionProgressing, unknown, reasonRetry, messageRetry))
	}
	before := conditionOf(p.old, v1alpha1.ConditionPaused)
	if paused != (before != nil && before.Status == yes) && !aborted {
		changes = append(changes, p.condition(v1alpha1.ConditionPaused, statusOf(paused), reasonPaused, messagePaused))
	}
	if len(changes) == 0 {
		return false
	}
	p.writeConditions(changes...)
	return true
}
