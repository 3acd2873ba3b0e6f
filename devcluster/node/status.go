package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// observed is the state of a Pod at one moment, as its worker sees it: the
// input of nextStatus beside the Pod itself.
type observed struct {
	podIP  string // empty before the Pod has an address
	hostIP string
	// init and regular are the statuses of the containers, in the order of the
	// spec.
	init, regular []corev1.ContainerStatus
	// stopping means that nothing is started any more, ended that nothing runs
	// any more either.
	stopping, ended bool
	// problem is the error that left the Pod without an address.
	problem string
	// expired means that activeDeadlineSeconds have passed.
	expired bool
	// generation is the one of the spec that was reconciled; status and
	// conditions report it as observedGeneration.
	generation int64
	now        metav1.Time
}

// nextStatus computes the status of a Pod from its current one and the observed
// state. It is a pure function. Conditions and fields that other clients wrote,
// such as readiness gates, are kept.
func nextStatus(pod *corev1.Pod, o observed) corev1.PodStatus {
	// The Pod comes from the informer's cache, which must not be modified.
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = o.generation
	s.HostIP, s.HostIPs = o.hostIP, []corev1.HostIP{{IP: o.hostIP}}
	if o.podIP != "" {
		s.PodIP, s.PodIPs = o.podIP, []corev1.PodIP{{IP: o.podIP}}
	}
	if s.StartTime == nil {
		s.StartTime = &o.now
	}
	s.InitContainerStatuses = slices.Clone(o.init)
	s.ContainerStatuses = slices.Clone(o.regular)
	s.EphemeralContainerStatuses = ephemeralStatuses(pod)
	// Succeeded and Failed are final: controllers act on them once.
	if s.Phase != corev1.PodSucceeded && s.Phase != corev1.PodFailed {
		s.Phase = podPhase(pod, s.InitContainerStatuses, s.ContainerStatuses, o.stopping && o.ended)
		if o.expired && o.ended {
			s.Phase = corev1.PodFailed
		}
	}
	if o.expired {
		s.Reason = reasonDeadline
		s.Message = "the Pod was active for longer than activeDeadlineSeconds"
	}
	setConditions(pod, &s, o)
	return s
}

// ephemeralStatuses reports every debug container as one that cannot be
// created, so that kubectl debug shows the reason instead of waiting.
func ephemeralStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range pod.Spec.EphemeralContainers {
		out = append(out, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: reasonCreateError, Message: "an ephemeral container " + unsupportedByThisNode}},
		})
	}
	return out
}

// podPhase computes the phase by the rules of the kubelet. final means that
// nothing runs and nothing will start: before that a Pod neither succeeds nor
// fails, so that no controller replaces it while one of its processes still
// runs.
func podPhase(pod *corev1.Pod, init, regular []corev1.ContainerStatus, final bool) corev1.PodPhase {
	pending, succeeded := stillInitialising(pod, init), true
	for i := range regular {
		s := &regular[i]
		// A container in back-off has run before, so it does not make the Pod
		// pending.
		pending = pending || s.State.Waiting != nil && s.LastTerminationState.Terminated == nil
		succeeded = succeeded && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	switch {
	case final && succeeded && !pending:
		return corev1.PodSucceeded
	case final:
		return corev1.PodFailed
	case pending:
		return corev1.PodPending
	}
	return corev1.PodRunning
}

// stillInitialising reports whether an init container has not completed, or a
// sidecar has never started. init has the order of the spec.
func stillInitialising(pod *corev1.Pod, init []corev1.ContainerStatus) bool {
	for i := range init {
		s := &init[i]
		if isSidecar(&pod.Spec.InitContainers[i]) {
			// Restarts of a sidecar that has once started do not make the Pod
			// pending again.
			everStarted := isTrue(s.Started) || s.LastTerminationState.Terminated != nil || s.State.Terminated != nil
			if !everStarted {
				return true
			}
		} else if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			return true
		}
	}
	return false
}

// isTrue reports whether an optional flag is set and true.
func isTrue(b *bool) bool { return b != nil && *b }

// podCondition is the status of a condition, with the reason and message of a false
// one.
type podCondition struct {
	ok              bool
	reason, message string
}

// setConditions writes the four conditions that a kubelet owns; all others in
// the list are left alone. Ready needs ready containers and then open readiness
// gates, so its reason is the first of the two that is missing.
func setConditions(pod *corev1.Pod, s *corev1.PodStatus, o observed) {
	network := podCondition{ok: o.podIP != "" && !(o.stopping && o.ended)}
	if o.problem != "" {
		network.reason, network.message = "NoNetwork", o.problem
	}
	initialised := initialisedDecision(pod, s)
	containers := containersDecision(pod, s)
	ready := containers
	if ready.ok {
		ready = gatesDecision(pod, s)
	}
	setCondition(s, corev1.PodReadyToStartContainers, network, o)
	setCondition(s, corev1.PodInitialized, initialised, o)
	setCondition(s, corev1.ContainersReady, containers, o)
	setCondition(s, corev1.PodReady, ready, o)
}

// initialisedDecision computes the Initialized condition. Once a regular
// container has run, the Pod stays initialised, also while a sidecar restarts.
func initialisedDecision(pod *corev1.Pod, s *corev1.PodStatus) podCondition {
	if s.Phase == corev1.PodSucceeded {
		return podCondition{ok: true, reason: reasonPodCompleted}
	}
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
			return podCondition{ok: true}
		}
	}
	var missing []string
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		if isSidecar(&pod.Spec.InitContainers[i]) {
			done = isTrue(c.Started)
		}
		if !done {
			missing = append(missing, c.Name)
		}
	}
	if len(missing) == 0 {
		return podCondition{ok: true}
	}
	return podCondition{reason: reasonNotInitialized, message: fmt.Sprintf("containers with incomplete status: %s", missing)}
}

// containersDecision computes the ContainersReady condition from the regular
// containers and the sidecars. A finished Pod is not ready, with the phase as
// the reason.
func containersDecision(pod *corev1.Pod, s *corev1.PodStatus) podCondition {
	switch s.Phase {
	case corev1.PodSucceeded:
		return podCondition{reason: reasonPodCompleted}
	case corev1.PodFailed:
		return podCondition{reason: reasonPodFailed}
	}
	var unready []string
	for i := range s.InitContainerStatuses {
		if c := &s.InitContainerStatuses[i]; isSidecar(&pod.Spec.InitContainers[i]) && !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	for i := range s.ContainerStatuses {
		if c := &s.ContainerStatuses[i]; !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) == 0 {
		return podCondition{ok: true}
	}
	return podCondition{reason: reasonNotReady, message: fmt.Sprintf("containers with unready status: %s", unready)}
}

// gatesDecision reports the readiness gates whose condition is missing or not
// true. Other controllers write these conditions.
func gatesDecision(pod *corev1.Pod, s *corev1.PodStatus) podCondition {
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !open {
			closed = append(closed, string(gate.ConditionType))
		}
	}
	if len(closed) == 0 {
		return podCondition{ok: true}
	}
	return podCondition{reason: reasonGates, message: "readiness gates that are not true: " + strings.Join(closed, ", ")}
}

// setCondition replaces or appends a condition; its transition time moves only
// when its status does. A true condition has no reason, except the completed
// Pod's, as with the kubelet.
func setCondition(s *corev1.PodStatus, kind corev1.PodConditionType, v podCondition, o observed) {
	c := corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: v.reason,
		ObservedGeneration: o.generation, LastTransitionTime: o.now,
	}
	if !v.ok {
		c.Status, c.Message = corev1.ConditionFalse, v.message
	} else if v.reason != reasonPodCompleted {
		c.Reason = ""
	}
	for i := range s.Conditions {
		if old := &s.Conditions[i]; old.Type == kind {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// statusPatch returns the strategic merge patch that turns the Pod's status
// into next, or nil when they are equal. It carries the UID: the API server
// then refuses it for another Pod of the same name.
func statusPatch(pod *corev1.Pod, next corev1.PodStatus) ([]byte, error) {
	if equality.Semantic.DeepEqual(pod.Status, next) {
		return nil, nil
	}
	before, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: next})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
}
