package health

import (
	"cmp"
	"strings"
)

// observed reports whether the controller of an object has seen its last change.
// A status.observedGeneration that is not a number, such as the hash that Argo
// Rollouts wrote before version 0.10, cannot be compared. It counts as seen: the
// object would wait for ever otherwise.
func (o *object) observed() bool {
	seen, comparable := o.status.generation("observedGeneration")
	if !comparable && o.status.has("observedGeneration") {
		return true
	}
	return o.generation <= seen
}

// notObserved is the message while the controller has not seen the last change.
const notObserved = "Waiting for the last change to be seen by the controller"

// deployment follows Argo CD. Its own progress deadline makes it Degraded.
func deployment(o *object) *Status {
	if o.spec.flag("paused") {
		return suspended("Deployment is paused")
	}
	if !o.observed() {
		return progressing(notObserved)
	}
	if c, found := find(o.status.conditions(), "Progressing"); found && c.reason == "ProgressDeadlineExceeded" {
		return degraded("Deployment exceeded its progress deadline: %s", c.text())
	}
	// As in kubectl rollout status: updated, then no old ones, then available.
	wanted, updated := o.spec.number("replicas"), o.status.number("updatedReplicas")
	existing, available := o.status.number("replicas"), o.status.number("availableReplicas")
	switch {
	case o.spec.has("replicas") && updated < wanted:
		return progressing("Waiting for the rollout to finish: %d of %d replicas are updated", updated, wanted)
	case existing > updated:
		return progressing("Waiting for the rollout to finish: %d old replicas are left", existing-updated)
	case available < updated:
		return progressing("Waiting for the rollout to finish: %d of %d updated replicas are available", available, updated)
	}
	return healthy("")
}

// statefulSet follows Argo CD, which never calls one Degraded. Pods update in
// order, and with a partition only some of them.
func statefulSet(o *object) *Status {
	if !o.status.has("observedGeneration") || !o.observed() {
		return progressing(notObserved)
	}
	wanted, ready := o.spec.number("replicas"), o.status.number("readyReplicas")
	if o.spec.has("replicas") && ready < wanted {
		return progressing("Waiting for %d Pods to be ready", wanted-ready)
	}
	strategy := o.spec.group("updateStrategy")
	updated := o.status.number("updatedReplicas")
	// With a partition only the Pods above it are updated.
	if rolling := strategy.group("rollingUpdate"); strategy.text("type") == "RollingUpdate" && rolling != nil {
		if o.spec.has("replicas") && rolling.has("partition") && updated < wanted-rolling.number("partition") {
			return progressing("Waiting for the partitioned rollout to finish: %d of %d Pods are updated", updated, wanted-rolling.number("partition"))
		}
		return healthy("The partitioned rollout is complete: %d Pods are updated", updated)
	}
	if strategy.text("type") == "OnDelete" {
		return healthy("StatefulSet has %d ready Pods", ready)
	}
	if revision := o.status.text("updateRevision"); revision != o.status.text("currentRevision") {
		return progressing("Waiting for the rolling update to complete: %d Pods are at revision %s", updated, revision)
	}
	return healthy("The rolling update is complete: %d Pods are at revision %s", o.status.number("currentReplicas"), o.status.text("currentRevision"))
}

// daemonSet waits for the updated Pods on all nodes, unless they are updated on
// deletion.
func daemonSet(o *object) *Status {
	if !o.observed() {
		return progressing(notObserved)
	}
	wanted, updated := o.status.number("desiredNumberScheduled"), o.status.number("updatedNumberScheduled")
	switch available := o.status.number("numberAvailable"); {
	case o.spec.group("updateStrategy").text("type") == "OnDelete":
		return healthy("%d of %d Pods are updated", updated, wanted)
	case updated < wanted:
		return progressing("Waiting for the rollout to finish: %d of %d Pods are updated", updated, wanted)
	case available < wanted:
		return progressing("Waiting for the rollout to finish: %d of %d updated Pods are available", available, wanted)
	}
	return healthy("")
}

// replicaSet waits for the available replicas.
func replicaSet(o *object) *Status {
	if !o.observed() {
		return progressing(notObserved)
	}
	if c, found := find(o.status.conditions(), "ReplicaFailure"); found && c.status == "True" {
		return degraded("%s", c.text())
	}
	wanted, available := o.spec.number("replicas"), o.status.number("availableReplicas")
	if o.spec.has("replicas") && available < wanted {
		return progressing("Waiting for the rollout to finish: %d of %d replicas are available", available, wanted)
	}
	return healthy("")
}

// pod is Degraded by failing containers only where they are restarted for ever.
// A Pod that ends, such as a hook, may still succeed.
func pod(o *object) *Status {
	always := o.spec.text("restartPolicy") == "Always"
	if failing := failingContainers(o.status); always && len(failing) > 0 {
		return degraded("%s", strings.Join(failing, ", "))
	}
	message := o.status.text("message")
	switch o.status.text("phase") {
	case "Pending":
		return progressing("%s", message)
	case "Succeeded":
		return healthy("%s", message)
	case "Failed":
		return degraded("%s", podFailure(o.status))
	case "Running":
		return runningPod(o, always)
	}
	return unknown("%s", message)
}

// runningPod follows the restart policy: only a Pod that restarts always can be
// Healthy while it runs.
func runningPod(o *object, always bool) *Status {
	message := o.status.text("message")
	// The API server sets the policy, so that another value is an incomplete
	// object.
	if policy := o.spec.text("restartPolicy"); !always && policy != "OnFailure" && policy != "Never" {
		return unknown("%s", message)
	}
	if !always {
		return progressing("%s", message)
	}
	if c, found := find(o.status.conditions(), "Ready"); found && c.status == "True" {
		return healthy("%s", message)
	}
	for _, container := range o.status.groups("containerStatuses") {
		if container.group("lastState").has("terminated") {
			return degraded("%s", message)
		}
	}
	return progressing("%s", message)
}

// failingContainers returns why containers cannot start. The reasons are those
// of Argo CD: errors and back-offs of images, configuration and crashes.
func failingContainers(status group) []string {
	var failing []string
	for _, container := range status.groups("containerStatuses") {
		waiting := container.group("state").group("waiting")
		reason := waiting.text("reason")
		if strings.HasPrefix(reason, "Err") || strings.HasSuffix(reason, "Error") || strings.HasSuffix(reason, "BackOff") {
			message := cmp.Or(waiting.text("message"), reason)
			failing = append(failing, message)
		}
	}
	return failing
}

// podFailure returns the most specific reason of a failed Pod.
func podFailure(status group) string {
	if message := status.text("message"); message != "" {
		return message
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, container := range status.groups(list) {
			terminated := container.group("state").group("terminated")
			switch {
			case terminated.text("message") != "":
				return terminated.text("message")
			case terminated.text("reason") == "OOMKilled":
				return "container " + container.text("name") + " ran out of memory (OOMKilled)"
			case terminated.number("exitCode") != 0:
				return degraded("container %q failed with exit code %d", container.text("name"), terminated.number("exitCode")).Message
			}
		}
	}
	return ""
}
