package node

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"slipway.dev/slipway/devcluster/must"
)

// shape builds container statuses from words: "run" (ready), "unready", "wait", "backoff:N" (ended with N, comes back),
// "exit:N" (ended with N for good).
func shape(t *testing.T, words ...string) []corev1.ContainerStatus {
	t.Helper()
	yes, no := true, false
	var out []corev1.ContainerStatus
	for i, word := range words {
		s := corev1.ContainerStatus{Name: string(rune('a' + i)), Started: &no}
		kind, code, _ := strings.Cut(word, ":")
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		if code != "" {
			must.Do(t, json.Unmarshal([]byte(code), &ended.Terminated.ExitCode))
		}
		switch kind {
		case "run", "unready":
			s.State.Running = &corev1.ContainerStateRunning{}
			s.Started, s.Ready = &yes, kind == "run"
		case "starting":
			s.State.Running = &corev1.ContainerStateRunning{}
		case "wait":
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCreating}
		case "backoff":
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonBackOff}
			s.LastTerminationState = ended
		case "exit":
			s.State = ended
		default:
			t.Fatalf("unknown word %q", word)
		}
		out = append(out, s)
	}
	return out
}

// statusPod has regular containers a, b, … and init containers a, b, …; "+" marks a sidecar.
func statusPod(policy corev1.RestartPolicy, regular int, inits string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 3}, Spec: corev1.PodSpec{RestartPolicy: policy}}
	for i := range regular {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: string(rune('a' + i))})
	}
	for i, kind := range inits {
		c := corev1.Container{Name: string(rune('a' + i))}
		if kind == '+' {
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

func TestNextStatusPhaseAndReady(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	for _, tt := range []struct {
		name    string
		policy  corev1.RestartPolicy
		kinds   string // of init containers: "." runs to completion, "+" is a sidecar
		init    string
		regular string
		ended   bool
		phase   corev1.PodPhase
		ready   bool
		reason  string // of the Ready condition
	}{
		{"new", always, "", "", "wait", false, corev1.PodPending, false, reasonNotReady},
		{"running", always, "", "", "run", false, corev1.PodRunning, true, ""},
		{"not ready", always, "", "", "run unready", false, corev1.PodRunning, false, reasonNotReady},
		{"one waits", always, "", "", "run wait", false, corev1.PodPending, false, reasonNotReady},
		{"back-off", always, "", "", "backoff:1", false, corev1.PodRunning, false, reasonNotReady},
		{"back-off on failure", onFailure, "", "", "backoff:1 exit:0", false, corev1.PodRunning, false, reasonNotReady},
		{"one done", onFailure, "", "", "run exit:0", false, corev1.PodRunning, false, reasonNotReady},
		{"succeeded", onFailure, "", "", "exit:0 exit:0", true, corev1.PodSucceeded, false, reasonPodCompleted},
		{"failed", never, "", "", "exit:0 exit:2", true, corev1.PodFailed, false, reasonPodFailed},
		{"initialising", always, "..", "exit:0 starting", "wait", false, corev1.PodPending, false, reasonNotReady},
		{"init in back-off", always, ".", "backoff:1", "wait", false, corev1.PodPending, false, reasonNotReady},
		{"init failed", never, ".", "exit:1", "wait", true, corev1.PodFailed, false, reasonPodFailed},
		{"initialised", always, ".", "exit:0", "run", false, corev1.PodRunning, true, ""},
		{"sidecar starting", always, "+", "starting", "wait", false, corev1.PodPending, false, reasonNotReady},
		{"sidecar", always, "+", "run", "run", false, corev1.PodRunning, true, ""},
		{"sidecar not ready", always, "+", "unready", "run", false, corev1.PodRunning, false, reasonNotReady},
		{"sidecar in back-off", always, "+", "backoff:1", "run", false, corev1.PodRunning, false, reasonNotReady},
		{"job with sidecar", never, "+", "exit:0", "exit:0", true, corev1.PodSucceeded, false, reasonPodCompleted},
		{"job with killed sidecar", never, "+", "exit:137", "exit:0", true, corev1.PodSucceeded, false, reasonPodCompleted},
		{"deleted, all well", always, "", "", "exit:0 exit:0", true, corev1.PodSucceeded, false, reasonPodCompleted},
		{"deleted, killed", always, "", "", "exit:0 exit:137", true, corev1.PodFailed, false, reasonPodFailed},
		{"deleted before the start", always, "", "", "wait", true, corev1.PodFailed, false, reasonPodFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			regular := shape(t, strings.Fields(tt.regular)...)
			pod := statusPod(tt.policy, len(regular), tt.kinds)
			s := nextStatus(pod, observed{
				podIP: "10.0.0.2", hostIP: "10.0.0.1", init: shape(t, strings.Fields(tt.init)...), regular: regular,
				stopping: tt.ended, ended: tt.ended, generation: 3, now: apiTime(time.Now()),
			})
			if s.Phase != tt.phase {
				t.Errorf("phase is %s, want %s", s.Phase, tt.phase)
			}
			ready := conditionOf(t, s, corev1.PodReady)
			if (ready.Status == corev1.ConditionTrue) != tt.ready || ready.Reason != tt.reason {
				t.Errorf("Ready is %s %s, want %v %s", ready.Status, ready.Reason, tt.ready, tt.reason)
			}
		})
	}
}

func conditionOf(t *testing.T, s corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	t.Helper()
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		t.Fatalf("there is no condition %s", kind)
	}
	return s.Conditions[i]
}

func TestNextStatusKeepsAndMoves(t *testing.T) {
	before, now := apiTime(time.Unix(1000, 0)), apiTime(time.Unix(2000, 0))
	pod := statusPod(corev1.RestartPolicyAlways, 1, "")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	pod.Status = corev1.PodStatus{
		QOSClass: corev1.PodQOSBurstable, StartTime: &before,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: before},
			{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: before},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: before},
		},
	}
	seen := observed{podIP: "10.0.0.2", hostIP: "10.0.0.1", regular: shape(t, "run"), generation: 3, now: now}
	s := nextStatus(pod, seen)
	if s.QOSClass != corev1.PodQOSBurstable || !s.StartTime.Equal(&before) || s.ObservedGeneration != 3 {
		t.Errorf("what others wrote is lost: %+v", s)
	}
	if c := conditionOf(t, s, corev1.PodScheduled); !c.LastTransitionTime.Equal(&before) {
		t.Error("PodScheduled was touched")
	}
	if c := conditionOf(t, s, corev1.ContainersReady); c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Equal(&now) {
		t.Errorf("ContainersReady is %+v, want true since now", c)
	}
	if c := conditionOf(t, s, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != reasonGates || !c.LastTransitionTime.Equal(&before) {
		t.Errorf("Ready is %+v, want false for its gate since before", c)
	}
	pod.Status = s
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
	s = nextStatus(pod, seen)
	if c := conditionOf(t, s, corev1.PodReady); c.Status != corev1.ConditionTrue {
		t.Errorf("Ready is %+v with its gate open", c)
	}

	deleted := metav1.Now()
	pod.Status, pod.DeletionTimestamp = s, &deleted
	s = nextStatus(pod, seen)
	if c := conditionOf(t, s, corev1.PodReady); c.Status != corev1.ConditionTrue || !s.ContainerStatuses[0].Ready {
		t.Errorf("a Pod that is being deleted and runs is not ready: %+v", c)
	}
	if !seen.regular[0].Ready {
		t.Error("the observation was changed")
	}
}

func TestNextStatusEndsOnce(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyNever, 1, "")
	pod.Status.Phase = corev1.PodFailed
	s := nextStatus(pod, observed{regular: shape(t, "exit:0"), stopping: true, ended: true, now: metav1.Now()})
	if s.Phase != corev1.PodFailed {
		t.Errorf("a failed Pod became %s", s.Phase)
	}

	pod.Status.Phase = corev1.PodRunning
	s = nextStatus(pod, observed{regular: shape(t, "exit:0"), stopping: true, ended: true, expired: true, now: metav1.Now()})
	if s.Phase != corev1.PodFailed || s.Reason != reasonDeadline {
		t.Errorf("after its deadline the Pod is %s %s", s.Phase, s.Reason)
	}
}

func TestEphemeralContainersAreRefused(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, 1, "")
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	s := nextStatus(pod, observed{regular: shape(t, "run"), now: metav1.Now()})
	if got := s.EphemeralContainerStatuses; len(got) != 1 || got[0].State.Waiting == nil || got[0].State.Waiting.Reason != reasonCreateError {
		t.Errorf("ephemeral statuses are %+v", got)
	}
}

// A patch must turn one status into the other, also where lists are merged by key: an address that changed would
// otherwise be there twice.
func TestStatusPatch(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, 1, "")
	pod.Status = nextStatus(pod, observed{podIP: "10.0.0.2", hostIP: "10.0.0.1", regular: shape(t, "wait"), now: apiTime(time.Unix(1000, 0))})
	if patch, err := statusPatch(pod, pod.Status); patch != nil || err != nil {
		t.Fatalf("the patch for no change is %s, %v", patch, err)
	}
	next := nextStatus(pod, observed{podIP: "10.0.0.9", hostIP: "10.0.0.1", regular: shape(t, "run"), now: apiTime(time.Unix(2000, 0))})
	patch := must.Get(statusPatch(pod, next))(t)
	if !strings.Contains(string(patch), `"uid":"u"`) {
		t.Errorf("the patch does not carry the UID: %s", patch)
	}
	original := must.Get(json.Marshal(pod))(t)
	merged := must.Get(strategicpatch.StrategicMergePatch(original, patch, corev1.Pod{}))(t)
	var got corev1.Pod
	must.Do(t, json.Unmarshal(merged, &got))
	if len(got.Status.PodIPs) != 1 || got.Status.PodIPs[0].IP != "10.0.0.9" {
		t.Errorf("podIPs are %v", got.Status.PodIPs)
	}
	if left, err := statusPatch(&got, next); left != nil || err != nil {
		t.Errorf("after the patch %s is still to do, %v", left, err)
	}
}
