package health_test

import (
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/health"
)

// TestRollout: the controller's phase is the health, and text counts as a
// generation.
func TestRollout(t *testing.T) {
	check(t, "argoproj.io/v1alpha1", "Rollout", []row{
		{`spec: {}`, progressing, "seen by its controller"},
		{`{metadata: {generation: 4}, status: {observedGeneration: "3", phase: Healthy}}`, progressing, "seen by the controller"},
		{`{metadata: {generation: 4}, status: {observedGeneration: 3, phase: Healthy}}`, progressing, "seen by the controller"},
		{`{metadata: {generation: 4}, status: {observedGeneration: "4", phase: Healthy, conditions: [{type: Available, status: "False"}]}}`, healthy, ""},
		{`status: {observedGeneration: "4", phase: Progressing, message: more replicas need to be updated}`, progressing, "more replicas"},
		{`status: {observedGeneration: "4", phase: Paused, message: CanaryPauseStep}`, suspended, "CanaryPauseStep"},
		{`{spec: {paused: true}, status: {observedGeneration: "4", phase: Paused, pauseConditions: [{reason: BlueGreenPause}], message: manually paused}}`, suspended, "manually paused"},
		{`status: {observedGeneration: "4", phase: Degraded, abort: true, message: "RolloutAborted: Rollout aborted update to revision 2", conditions: [{type: Available, status: "True"}]}`, degraded, "aborted update"},
		// An abort is in the status before the phase follows.
		{`status: {observedGeneration: "4", phase: Progressing, abort: true, message: waiting}`, degraded, "Rollout is aborted: waiting"},
		{`status: {observedGeneration: "4", phase: Paused, abort: true}`, degraded, "Rollout is aborted"},
		{`status: {observedGeneration: "4", phase: Progressing, abort: true, conditions: [{type: Progressing, reason: RolloutAborted, message: aborted revision 3}]}`, degraded, "aborted revision 3"},
		{`status: {observedGeneration: "4", phase: Healthy, abort: true}`, healthy, ""},
		{`status: {observedGeneration: "4", phase: Splendid, message: hm}`, unknown, `"Splendid": hm`},
		// The workload that it refers to has a generation of its own.
		{`{metadata: {annotations: {rollout.argoproj.io/workload-generation: "2"}}, spec: {workloadRef: {name: a}}, status: {phase: Healthy, observedGeneration: "1", workloadObservedGeneration: "1"}}`, progressing, "seen by the controller"},
		{`{metadata: {annotations: {rollout.argoproj.io/workload-generation: "2"}}, spec: {workloadRef: {name: a}}, status: {phase: Healthy, observedGeneration: "1", workloadObservedGeneration: "2"}}`, healthy, ""},
		{`{metadata: {annotations: {rollout.argoproj.io/workload-generation: "2"}}, spec: {workloadRef: {name: a}}, status: {phase: Healthy, observedGeneration: "1"}}`, healthy, ""},
		{`{spec: {workloadRef: {name: a}}, status: {phase: Healthy, observedGeneration: "1", workloadObservedGeneration: "-1"}}`, healthy, ""},
		{`{metadata: {annotations: {rollout.argoproj.io/workload-generation: "2"}}, status: {phase: Healthy, observedGeneration: "1", workloadObservedGeneration: "1"}}`, healthy, ""},
	})
	// A Rollout of another group has no such rule.
	check(t, "example.com/v1", "Rollout", []row{{`status: {phase: Degraded}`, none, ""}})
}

// TestRolloutWithoutPhase: what the controller wrote before version 1.0.
func TestRolloutWithoutPhase(t *testing.T) {
	check(t, "argoproj.io/v1alpha1", "Rollout", []row{
		{`status: {observedGeneration: "7d9f8c", conditions: [{type: InvalidSpec, status: "True", message: no selector}]}`, degraded, "no selector"},
		{`status: {observedGeneration: "7d9f8c", conditions: [{type: Progressing, reason: RolloutAborted, message: aborted}]}`, degraded, "aborted"},
		{`status: {observedGeneration: "7d9f8c", conditions: [{type: Progressing, reason: ProgressDeadlineExceeded, message: late}]}`, degraded, "late"},
		{`status: {observedGeneration: "7d9f8c", conditions: [{type: Available, reason: RolloutAborted}], replicas: 1, updatedReplicas: 1, availableReplicas: 1}`, healthy, ""},
		{`status: {abort: true}`, degraded, "Rollout is aborted"},
		{`{spec: {paused: true}, status: {replicas: 1}}`, suspended, "paused"},
		{`status: {pauseConditions: [{reason: CanaryPauseStep}]}`, suspended, "paused"},
		{`{spec: {replicas: 3}, status: {updatedReplicas: 2, replicas: 3, availableReplicas: 2}}`, progressing, "2 of 3 replicas are updated"},
		{`status: {updatedReplicas: 0}`, progressing, "0 of 1 replicas are updated"},
		{`{spec: {replicas: 3}, status: {updatedReplicas: 3, replicas: 5, availableReplicas: 3}}`, progressing, "2 old replicas"},
		{`{spec: {replicas: 3}, status: {updatedReplicas: 3, replicas: 3, availableReplicas: 1}}`, progressing, "1 of 3 updated replicas"},
		{`{spec: {replicas: 1}, status: {updatedReplicas: 1, replicas: 1, availableReplicas: 1, currentPodHash: b, stableRS: a}}`, progressing, "steps"},
		{`{spec: {replicas: 1}, status: {updatedReplicas: 1, replicas: 1, availableReplicas: 1, currentPodHash: b, stableRS: b}}`, healthy, ""},
		{`{spec: {replicas: 1}, status: {updatedReplicas: 1, replicas: 1, availableReplicas: 1, currentPodHash: b, canary: {stableRS: b}}}`, healthy, ""},
		{`{spec: {replicas: 1, strategy: {blueGreen: {}}}, status: {updatedReplicas: 1, replicas: 2, availableReplicas: 1, currentPodHash: b, blueGreen: {activeSelector: a}}}`, progressing, "active Service"},
		{`{spec: {replicas: 1, strategy: {blueGreen: {}}}, status: {updatedReplicas: 1, replicas: 2, availableReplicas: 1, currentPodHash: b, blueGreen: {activeSelector: b}}}`, healthy, ""},
	})
}

// TestRolloutDeadline: the controller sees to the deadline of a Rollout. Only
// without one, which never writes a status, the wait ends here.
func TestRolloutDeadline(t *testing.T) {
	alone := parse(t, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: a}}`)
	if limit, limited := health.Deadline(alone); !limited || limit != 10*time.Minute {
		t.Errorf("without a controller the deadline is %s, %t", limit, limited)
	}
	driven := parse(t, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: a}, status: {phase: Progressing}}`)
	if limit, limited := health.Deadline(driven); limited {
		t.Errorf("with a controller the deadline is %s", limit)
	}
	if limit, limited := health.Deadline(parse(t, `{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: a}}`)); limited {
		t.Errorf("the deadline of a Workflow is %s", limit)
	}
}
