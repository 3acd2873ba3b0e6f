package rollout

import (
	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// phaseOf is the phase of a status and its reason. The order of the checks is that
// of Argo Rollouts, because clients show the message.
func phaseOf(spec *v1alpha1.RolloutSpec, status *v1alpha1.RolloutStatus) (phase, message string) {
	for _, one := range status.Conditions {
		if one.Type == v1alpha1.ConditionInvalidSpec {
			return v1alpha1.PhaseDegraded, v1alpha1.ConditionInvalidSpec + ": " + one.Message
		}
		if one.Reason == reasonAborted || one.Reason == reasonTimedOut {
			return v1alpha1.PhaseDegraded, one.Reason + ": " + one.Message
		}
	}
	if spec.Paused {
		return v1alpha1.PhasePaused, "manually paused"
	}
	if len(status.PauseConditions) > 0 {
		return v1alpha1.PhasePaused, status.PauseConditions[0].Reason
	}
	if message := progressOf(spec, status); message != "" {
		return v1alpha1.PhaseProgressing, message
	}
	return v1alpha1.PhaseHealthy, ""
}

// progressOf is what an update waits for; empty if it is complete.
func progressOf(spec *v1alpha1.RolloutSpec, status *v1alpha1.RolloutStatus) string {
	replicas := int32(defaultReplicas)
	if spec.Replicas != nil {
		replicas = *spec.Replicas
	}
	switch {
	case spec.RestartAt != nil && (status.RestartedAt == nil || !spec.RestartAt.Equal(status.RestartedAt)):
		return "rollout is restarting"
	case status.UpdatedReplicas < replicas:
		return "more replicas need to be updated"
	case status.AvailableReplicas < status.UpdatedReplicas:
		return "updated replicas are still becoming available"
	}
	if strategy := spec.Strategy.BlueGreen; strategy != nil {
		switch run := status.BlueGreen.PostPromotionAnalysisRunStatus; {
		case status.BlueGreen.ActiveSelector == "" || status.BlueGreen.ActiveSelector != status.CurrentPodHash:
			return "active service cutover pending"
		case isComplete(status):
			return ""
		case strategy.PostPromotionAnalysis != nil && (run == nil || !isFinished(run.Status)):
			return "waiting for analysis to complete"
		}
		return "waiting for post-promotion verification to complete"
	}
	switch {
	// With a router, old Pods run on for the scale-down delay.
	case spec.Strategy.Canary != nil && spec.Strategy.Canary.TrafficRouting == nil && status.Replicas > status.UpdatedReplicas:
		return "old replicas are pending termination"
	case !isComplete(status):
		return "waiting for all steps to complete"
	}
	return ""
}
