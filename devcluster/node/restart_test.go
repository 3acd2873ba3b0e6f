package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestRestartDelay(t *testing.T) {
	var d restartDelay
	for i, step := range []struct{ ran, want time.Duration }{
		{0, 1 * time.Second},
		{time.Second, 2 * time.Second},
		{time.Minute, 4 * time.Second},
		{0, 8 * time.Second},
		{0, 16 * time.Second},
		{0, 32 * time.Second},
		{0, 60 * time.Second},
		{0, 60 * time.Second},
		{10*time.Minute - 1, 60 * time.Second},
		{10 * time.Minute, 1 * time.Second},
		{0, 2 * time.Second},
	} {
		if got := d.next(step.ran); got != step.want {
			t.Errorf("step %d: after a run of %s the delay is %s, want %s", i, step.ran, got, step.want)
		}
	}
}

func TestRestartsAfter(t *testing.T) {
	own := func(p corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) corev1.Container {
		return corev1.Container{RestartPolicy: &p, RestartPolicyRules: rules}
	}
	rule := func(op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, tt := range []struct {
		name       string
		pod        corev1.RestartPolicy
		container  corev1.Container
		kind       containerKind
		on0, on3   bool
		alsoOn7Too bool
	}{
		{"always", corev1.RestartPolicyAlways, corev1.Container{}, regularContainer, true, true, true},
		{"on failure", corev1.RestartPolicyOnFailure, corev1.Container{}, regularContainer, false, true, true},
		{"never", corev1.RestartPolicyNever, corev1.Container{}, regularContainer, false, false, false},
		{"init always", corev1.RestartPolicyAlways, corev1.Container{}, initContainer, false, true, true},
		{"init never", corev1.RestartPolicyNever, corev1.Container{}, initContainer, false, false, false},
		{"sidecar", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyAlways), sidecarContainer, true, true, true},
		{"own never", corev1.RestartPolicyAlways, own(corev1.ContainerRestartPolicyNever), regularContainer, false, false, false},
		{"own always", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyAlways), regularContainer, true, true, true},
		{"rule", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyNever, rule(in, 3)), regularContainer, false, true, false},
		{"other rule", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyNever, rule(notIn, 0, 3)), regularContainer, false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := &corev1.PodSpec{RestartPolicy: tt.pod}
			for code, want := range map[int32]bool{0: tt.on0, 3: tt.on3, 7: tt.alsoOn7Too} {
				if got := restartsAfter(spec, &tt.container, tt.kind, code); got != want {
					t.Errorf("after exit code %d it restarts: %v, want %v", code, got, want)
				}
			}
		})
	}
}

func TestResume(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: apiTime(now.Add(-time.Hour))}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	type result struct {
		next       int32
		settled    bool
		state      string // waiting or terminated
		code, last int32  // exit codes; -1 for none
	}
	for _, tt := range []struct {
		name   string
		old    *corev1.ContainerStatus
		policy corev1.RestartPolicy
		want   result
	}{
		{"new", nil, corev1.RestartPolicyAlways, result{0, false, "waiting", -1, -1}},
		{"never started", &corev1.ContainerStatus{State: waiting(reasonCreating)}, corev1.RestartPolicyAlways, result{0, false, "waiting", -1, -1}},
		{"refused", &corev1.ContainerStatus{State: waiting(reasonImage)}, corev1.RestartPolicyAlways, result{0, false, "waiting", -1, -1}},
		{"was running", &corev1.ContainerStatus{State: runs, Ready: true}, corev1.RestartPolicyAlways, result{1, false, "waiting", -1, 137}},
		{"was running again", &corev1.ContainerStatus{State: runs, RestartCount: 4, LastTerminationState: ended(1)}, corev1.RestartPolicyAlways, result{5, false, "waiting", -1, 137}},
		{"was running on failure", &corev1.ContainerStatus{State: runs}, corev1.RestartPolicyOnFailure, result{1, false, "waiting", -1, 137}},
		{"was running once", &corev1.ContainerStatus{State: runs}, corev1.RestartPolicyNever, result{0, true, "terminated", 137, -1}},
		{"back-off", &corev1.ContainerStatus{State: waiting(reasonBackOff), RestartCount: 2, LastTerminationState: ended(3)}, corev1.RestartPolicyAlways, result{3, false, "waiting", -1, 3}},
		{"completed", &corev1.ContainerStatus{State: ended(0), RestartCount: 1}, corev1.RestartPolicyOnFailure, result{1, true, "terminated", 0, -1}},
		{"failed", &corev1.ContainerStatus{State: ended(3)}, corev1.RestartPolicyOnFailure, result{1, false, "waiting", -1, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := &corev1.Container{Name: "main", Image: "container"}
			r := resume(spec, tt.old, now, func(code int32) bool {
				return restartsAfter(&corev1.PodSpec{RestartPolicy: tt.policy}, spec, regularContainer, code)
			})
			got := result{next: r.next, settled: r.settled, state: "waiting", code: -1, last: -1}
			if s := r.status.State.Terminated; s != nil {
				got.state, got.code = "terminated", s.ExitCode
			}
			if s := r.status.LastTerminationState.Terminated; s != nil {
				got.last = s.ExitCode
			}
			if got != tt.want {
				t.Errorf("resumed as %+v, want %+v", got, tt.want)
			}
			if r.status.Ready || isTrue(r.status.Started) {
				t.Error("a container that does not run is ready or started")
			}
		})
	}
}
