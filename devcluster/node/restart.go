package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// A development cluster restarts sooner than the kubelet, which begins with ten seconds and ends with five minutes.
	restartFirst = time.Second
	restartLast  = time.Minute
	// restartForgiven is how long a container has to run for its earlier crashes to be forgotten.
	restartForgiven = 10 * time.Minute
)

// containerKind says how a container takes part in its Pod.
type containerKind int

const (
	regularContainer containerKind = iota
	initContainer                  // runs to completion before the next one starts
	sidecarContainer               // an init container that keeps running
)

// isSidecar reports whether an init container keeps running beside the regular ones.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// restartsAfter decides whether a container that ended with an exit code is started again: by its own rules and policy
// if it has them, otherwise by the Pod's. An init container that succeeded is never started again.
func restartsAfter(pod *corev1.PodSpec, c *corev1.Container, kind containerKind, code int32) bool {
	if kind == sidecarContainer {
		return true
	}
	if kind == initContainer && code == 0 {
		return false
	}
	policy := pod.RestartPolicy
	if c.RestartPolicy != nil {
		for _, rule := range c.RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestart && exitCodeMatches(rule.ExitCodes, code) {
				return true
			}
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

func exitCodeMatches(on *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if on == nil {
		return false
	}
	listed := slices.Contains(on.Values, code)
	return listed == (on.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}

// restartDelay is the back-off of one container.
type restartDelay struct{ last time.Duration }

// next is how long to wait after a run of the given length.
func (d *restartDelay) next(ran time.Duration) time.Duration {
	if d.last == 0 || ran >= restartForgiven {
		d.last = restartFirst
	} else {
		d.last = min(2*d.last, restartLast)
	}
	return d.last
}

// resumed is a container as the node takes it up: new, or left behind by a node that is no more.
type resumed struct {
	status corev1.ContainerStatus
	// next is the restart count of the next run.
	next int32
	// settled means that it is not started again.
	settled bool
}

// resume takes up a container. What ran when the last node ended has ended with it, as every process does; restarts
// decides whether it is started again. old is nil for a container that is new.
func resume(c *corev1.Container, old *corev1.ContainerStatus, now time.Time, restarts func(code int32) bool) resumed {
	no := false
	if old == nil {
		return resumed{status: corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Started: &no,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCreating}},
		}}
	}
	r := resumed{status: *old.DeepCopy(), next: old.RestartCount}
	ended := old.State.Terminated.DeepCopy()
	if run := old.State.Running; run != nil {
		r.status.Ready, r.status.Started = false, &no
		ended = &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: reasonUnknown, Message: "the process ended when the process node ended",
			StartedAt: run.StartedAt, FinishedAt: apiTime(now), ContainerID: old.ContainerID,
		}
	}
	switch {
	case ended == nil && old.LastTerminationState.Terminated != nil:
		r.next++
	case ended != nil && restarts(ended.ExitCode):
		r.next++
		r.status.LastTerminationState = corev1.ContainerState{Terminated: ended}
		r.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCreating}}
	case ended != nil:
		r.settled = true
		r.status.State = corev1.ContainerState{Terminated: ended}
	}
	return r
}
