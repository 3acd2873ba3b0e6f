package health

import "slipway.dev/slipway/api/argo/v1alpha1"

// workloadGenerationAnnotation is the generation of the workload that a Rollout
// refers to, as Argo Rollouts copies it onto the Rollout.
const workloadGenerationAnnotation = "rollout.argoproj.io/workload-generation"

// rollout follows Argo CD's rule for a Rollout of Argo Rollouts. Since version
// 1.0 its controller writes the result itself, as phase and message. A rollout
// that is aborted stays Degraded until Git or a person changes it, even though
// its old Pods serve.
func rollout(o *object) *Status {
	if o.status == nil {
		return progressing("Waiting for the Rollout to be seen by its controller")
	}
	if !o.observed() || !o.observedWorkload() {
		return progressing(notObserved)
	}
	message := o.status.text("message")
	switch phase := o.status.text("phase"); phase {
	case "":
		return rolloutWithoutPhase(o)
	case "Healthy":
		return healthy("%s", message)
	case "Degraded":
		return degraded("%s", message)
	case "Paused", "Progressing":
		// The abort is in the status before the controller updates the phase.
		if o.status.flag("abort") {
			return degraded("%s", abortMessage(o))
		}
		if phase == "Paused" {
			return suspended("%s", message)
		}
		return progressing("%s", message)
	default:
		return unknown("the phase is %q: %s", phase, message)
	}
}

// rolloutWithoutPhase is for Argo Rollouts before version 1.0: the phase follows
// from conditions and numbers.
func rolloutWithoutPhase(o *object) *Status {
	for _, c := range o.status.conditions() {
		aborted := c.reason == "RolloutAborted" || c.reason == "ProgressDeadlineExceeded"
		if c.kind == "InvalidSpec" || c.kind == "Progressing" && aborted {
			return degraded("%s", c.explains(c.kind))
		}
	}
	if o.status.flag("abort") {
		return degraded("%s", abortMessage(o))
	}
	if o.spec.flag("paused") || len(o.status.list("pauseConditions")) > 0 {
		return suspended("Rollout is paused")
	}
	if waiting := rolloutReplicas(o); waiting != nil {
		return waiting
	}
	current := o.status.text("currentPodHash")
	if blueGreen := o.status.group("blueGreen"); o.isBlueGreen() {
		if active := blueGreen.text("activeSelector"); active != current {
			return progressing("Waiting for the active Service to select the new Pods")
		}
		return healthy("")
	}
	stable := o.status.text("stableRS")
	if stable == "" {
		stable = o.status.group("canary").text("stableRS") // until version 0.8
	}
	if stable != current {
		return progressing("Waiting for the steps of the rollout to finish")
	}
	return healthy("")
}

// rolloutReplicas is what the numbers of Pods leave to wait for; nil for nothing.
func rolloutReplicas(o *object) *Status {
	wanted := int64(1) // the default of Argo Rollouts
	if o.spec.has("replicas") {
		wanted = o.spec.number("replicas")
	}
	updated, available := o.status.number("updatedReplicas"), o.status.number("availableReplicas")
	switch existing := o.status.number("replicas"); {
	case updated < wanted:
		return progressing("Waiting for the rollout to finish: %d of %d replicas are updated", updated, wanted)
	case existing > updated && !o.isBlueGreen():
		// Blue-green keeps the old Pods for a while after it is done.
		return progressing("Waiting for the rollout to finish: %d old replicas are left", existing-updated)
	case available < updated:
		return progressing("Waiting for the rollout to finish: %d of %d updated replicas are available", available, updated)
	}
	return nil
}

// isBlueGreen reports the strategy: it decides which numbers and selectors
// count.
func (o *object) isBlueGreen() bool { return o.spec.group("strategy").has("blueGreen") }

// observedWorkload reports whether the controller has seen the last change of the
// workload that a Rollout refers to. Without both numbers it counts as seen.
func (o *object) observedWorkload() bool {
	wanted, known := o.metadata.group("annotations").generation(workloadGenerationAnnotation)
	observed, written := o.status.generation("workloadObservedGeneration")
	return !o.spec.has("workloadRef") || !known || !written || wanted <= observed
}

// abortMessage is why a rollout was aborted.
func abortMessage(o *object) string {
	if c, found := find(o.status.conditions(), "Progressing"); found && c.reason == "RolloutAborted" && c.message != "" {
		return c.message
	}
	if message := o.status.text("message"); message != "" {
		return "Rollout is aborted: " + message
	}
	return "Rollout is aborted"
}

// kindRollout is the kind of Argo Rollouts, which has the group of Argo CD.
const kindRollout = "Rollout"

// isRollout reports whether an object is a Rollout of Argo Rollouts.
func (o *object) isRollout() bool {
	return o.kind.Group == v1alpha1.Group && o.kind.Kind == kindRollout
}
