package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// restartFirst and restartLast bound the back-off between restarts. A
	// development cluster restarts sooner than the kubelet, which begins with
	// ten seconds and ends with five minutes.
	restartFirst = time.Second
	restartLast  = time.Minute
	// restartForgiven is the length of a run after which the back-off starts
	// over; it is the kubelet's.
	restartForgiven = 10 * time.Minute
)

// containerKind is the role of a container in its Pod. It decides the order of
// start and stop, and whether the restart policy applies.
type containerKind int

const (
	regularContainer containerKind = iota
	initContainer                  // runs to completion before the next one starts
	sidecarContainer               // an init container that keeps running
)

// isSidecar reports whether an init container is a sidecar (KEP-753): one with
// restartPolicy Always, which keeps running beside the regular ones.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// restartsAfter reports whether a container that ended with an exit code is
// started again: by its own rules and policy if it has them, otherwise by the
// Pod's. A rule that matches wins over the policy. An init container that
// succeeded is never started again.
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

// exitCodeMatches evaluates a rule's In or NotIn condition on the exit code; a
// rule without one never matches.
func exitCodeMatches(on *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if on == nil {
		return false
	}
	listed := slices.Contains(on.Values, code)
	return listed == (on.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}

// restartDelay is the exponential back-off of one container. It lives in
// memory: a restart of the node starts it over.
type restartDelay struct{ last time.Duration }

// next returns the wait after a run of the given length. It doubles up to
// restartLast.
func (d *restartDelay) next(ran time.Duration) time.Duration {
	if d.last == 0 || ran >= restartForgiven {
		d.last = restartFirst
	} else {
		d.last = min(2*d.last, restartLast)
	}
	return d.last
}

// resumed is the state in which the node continues a container: new, or left
// behind by an earlier node.
type resumed struct {
	status corev1.ContainerStatus
	// next is the restart count of the next run.
	next int32
	// settled means that the container is not started again.
	settled bool
}

// resume computes the state of a container from its last status. A process that
// ran when the last node ended has ended with it, as every process does;
// restarts decides whether the container is started again. old is nil for a new
// container.
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
	// The exit code is not recorded anywhere; 137 (SIGKILL) and
	// ContainerStatusUnknown are what the kubelet reports for such a container.
	if run := old.State.Running; run != nil {
		r.status.Ready, r.status.Started = false, &no
		ended = &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: reasonUnknown, Message: "the process ended when the process node ended",
			StartedAt: run.StartedAt, FinishedAt: apiTime(now), ContainerID: old.ContainerID,
		}
	}
	switch {
	// It was in back-off: the restart count is that of the run that ended.
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
