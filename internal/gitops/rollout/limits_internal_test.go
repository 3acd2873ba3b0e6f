package rollout

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// passOf is a pass of a canary whose new ReplicaSet has Pods.
func passOf(replicas, available int32, canary v1alpha1.CanaryStrategy) *pass {
	set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}, Status: appsv1.ReplicaSetStatus{AvailableReplicas: available}}
	return &pass{spec: &v1alpha1.RolloutSpec{Replicas: &replicas, Strategy: v1alpha1.RolloutStrategy{Canary: &canary}}, newSet: set}
}

// TestThreshold: a step needs all Pods, or as many as replicaProgressThreshold has.
func TestThreshold(t *testing.T) {
	for _, test := range []struct {
		kind             string
		value, available int32
		want             bool
	}{
		{"", 0, 4, true}, {"", 0, 3, false},
		{v1alpha1.ProgressPercent, 50, 2, true}, {v1alpha1.ProgressPercent, 50, 1, false}, {v1alpha1.ProgressPercent, 51, 2, false},
		{v1alpha1.ProgressPods, 3, 3, true}, {v1alpha1.ProgressPods, 3, 2, false},
	} {
		canary := v1alpha1.CanaryStrategy{}
		if test.kind != "" {
			canary.ReplicaProgressThreshold = &v1alpha1.ReplicaProgressThreshold{Type: test.kind, Value: test.value}
		}
		if got := passOf(4, test.available, canary).isThresholdMet(4); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// TestMinPods: a ReplicaSet with Pods has minPodsPerReplicaSet, and never more than the
// Rollout wants.
func TestMinPods(t *testing.T) {
	for _, test := range []struct{ replicas, least, size, want int32 }{{4, 2, 1, 2}, {4, 2, 3, 3}, {4, 2, 0, 0}, {2, 5, 1, 2}} {
		if got := passOf(test.replicas, 0, v1alpha1.CanaryStrategy{MinPodsPerReplicaSet: &test.least}).atLeast(test.size); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}

// TestWindow: a rollback skips the steps if at most as many revisions are between as
// rollbackWindow has, without the one that it goes back to.
func TestWindow(t *testing.T) {
	var sets []*appsv1.ReplicaSet
	for i := range 4 {
		sets = append(sets, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(int64(100+i), 0))}})
	}
	for _, test := range []struct {
		target    int
		revisions int32
		want      bool
	}{{2, 1, true}, {1, 1, false}, {1, 2, true}, {0, 2, false}, {0, 3, true}, {3, 3, false}, {2, 0, false}} {
		p := passOf(1, 1, v1alpha1.CanaryStrategy{})
		p.all, p.stableSet, p.newSet = sets, sets[3], sets[test.target]
		p.spec.RollbackWindow = &v1alpha1.RollbackWindowSpec{Revisions: test.revisions}
		if got := p.isWithinWindow(); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// TestHistory: the oldest ReplicaSets without Pods above revisionHistoryLimit are deleted,
// and no others.
func TestHistory(t *testing.T) {
	for limit, want := range map[int32]string{0: "a b c", 1: "a b", 2: "a", 3: "", 4: ""} {
		p := passOf(1, 1, v1alpha1.CanaryStrategy{})
		p.spec.RevisionHistoryLimit = &limit
		for _, name := range []string{"a", "b", "c"} {
			p.others = append(p.others, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}})
		}
		p.deleteOld()
		var deleted []string
		for _, write := range p.decision.Writes {
			deleted = append(deleted, write.Name)
		}
		if got := strings.Join(deleted, " "); got != want {
			t.Errorf("limit %d deletes %q, want %q", limit, got, want)
		}
	}
}

// TestDeadline: an update without progress is aborted only if progressDeadlineAbort is set.
// Otherwise its condition reports it.
func TestDeadline(t *testing.T) {
	for _, aborts := range []bool{false, true} {
		text := strings.Replace(analysed, "STRATEGY", "canary: {steps: [{setWeight: 50}]}", 1)
		if aborts {
			text = strings.Replace(text, "replicas: 2", "replicas: 2\n  progressDeadlineAbort: true", 1)
		}
		seen := withSets(t, text, 0)
		for _, set := range seen.ReplicaSets {
			if set.Labels[labelHash] == seen.Rollout.Status.CurrentPodHash {
				set.Status.ReadyReplicas, set.Status.AvailableReplicas = 0, 0
			}
		}
		// The first pass sees the Pods, the second one that nothing has changed.
		seen.Rollout.Status = *Decide(seen).Status
		seen.Now = seen.Now.Add(defaultProgressDeadline*time.Second + time.Minute)
		status := Decide(seen).Status
		if status.Abort != aborts || status.Phase != v1alpha1.PhaseDegraded {
			t.Errorf("with progressDeadlineAbort %t: %+v", aborts, status)
		}
		progress := conditionOf(status, v1alpha1.ConditionProgressing)
		if want := map[bool]string{false: reasonTimedOut, true: reasonAborted}[aborts]; progress == nil || progress.Reason != want {
			t.Errorf("with progressDeadlineAbort %t: %+v, want %s", aborts, progress, want)
		}
	}
}
