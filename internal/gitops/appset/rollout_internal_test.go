package appset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// rolling is a set whose Applications have the labels step=1, step=2 … in the
// beginning of their names, and the states that the status has.
type rolling struct {
	set    *v1alpha1.ApplicationSet
	wanted map[string]*desired
	live   map[string]record
	now    time.Time
}

// newRolling has a step for each limit; an empty one is none.
func newRolling(names string, limits ...string) *rolling {
	r := &rolling{set: &v1alpha1.ApplicationSet{}, wanted: map[string]*desired{}, live: map[string]record{}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	strategy := &v1alpha1.RolloutStrategy{}
	for i, limit := range limits {
		step := v1alpha1.RolloutStep{MatchExpressions: []v1alpha1.RolloutExpression{{Key: "step", Operator: "In", Values: []string{fmt.Sprint(i + 1)}}}}
		if limit != "" {
			parsed := intstr.Parse(limit)
			step.MaxUpdate = &parsed
		}
		strategy.Steps = append(strategy.Steps, step)
	}
	r.set.Spec.Strategy = &v1alpha1.ApplicationSetStrategy{Type: "RollingSync", RollingSync: strategy}
	for name := range strings.SplitSeq(names, ",") {
		r.wanted[name] = &desired{name: name, body: []byte(`{"metadata": {"labels": {"step": "` + name[:1] + `"}}, "spec": {}}`)}
		r.live[name] = record{appState: appState{sync: v1alpha1.SyncOutOfSync, health: v1alpha1.Healthy, targets: "a", compared: true}}
	}
	return r
}

// change changes an Application.
func (r *rolling) change(name string, how func(*record)) {
	known := r.live[name]
	how(&known)
	r.live[name] = known
}

// evaluate returns the states, and the syncs that start, which run then.
func (r *rolling) evaluate() string {
	r.now = r.now.Add(time.Second)
	made := newRollout(r.set, r.wanted, r.live, r.now)
	made.run()
	r.set.Status.ApplicationStatus = made.list()
	var text []string
	for _, state := range r.set.Status.ApplicationStatus {
		text = append(text, state.Application+"="+state.Status)
	}
	syncs := made.syncs()
	for _, name := range syncs {
		r.change(name, func(known *record) { known.started, known.phase = r.now, v1alpha1.OperationRunning })
	}
	return strings.Join(text, " ") + " sync " + strings.Join(syncs, ",")
}

// synced ends syncs with success.
func (r *rolling) synced(names ...string) {
	for _, name := range names {
		r.change(name, func(known *record) {
			known.sync, known.health, known.phase = v1alpha1.SyncSynced, v1alpha1.Healthy, v1alpha1.OperationSucceeded
		})
	}
}

// expect evaluates and compares.
func (r *rolling) expect(t *testing.T, want string) {
	t.Helper()
	if got := r.evaluate(); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if again := r.evaluate(); !strings.HasPrefix(again, want[:strings.Index(want, " sync")]) && strings.HasSuffix(want, "sync ") {
		t.Fatalf("it changes without an event: %s, then %s", want, again)
	}
}

func TestRolloutSteps(t *testing.T) {
	r := newRolling("1a,1b,2a,2b,2c,9x", "", "1", "50%")
	r.expect(t, "1a=Pending 1b=Pending 2a=Waiting 2b=Waiting 2c=Waiting 9x=Waiting sync 1a,1b")
	r.synced("1a")
	r.expect(t, "1a=Healthy 1b=Progressing 2a=Waiting 2b=Waiting 2c=Waiting 9x=Waiting sync ")
	r.synced("1b")
	r.expect(t, "1a=Healthy 1b=Healthy 2a=Pending 2b=Waiting 2c=Waiting 9x=Waiting sync 2a")
	r.change("2a", func(known *record) {
		known.sync, known.health, known.phase = v1alpha1.SyncSynced, v1alpha1.Progressing, v1alpha1.OperationSucceeded
	})
	r.expect(t, "1a=Healthy 1b=Healthy 2a=Progressing 2b=Waiting 2c=Waiting 9x=Waiting sync ")
	r.change("2a", func(known *record) { known.health = v1alpha1.Healthy })
	r.expect(t, "1a=Healthy 1b=Healthy 2a=Healthy 2b=Pending 2c=Waiting 9x=Waiting sync 2b")
	r.synced("2b")
	r.expect(t, "1a=Healthy 1b=Healthy 2a=Healthy 2b=Healthy 2c=Pending 9x=Waiting sync 2c")
	r.synced("2c")
	r.expect(t, "1a=Healthy 1b=Healthy 2a=Healthy 2b=Healthy 2c=Healthy 9x=Waiting sync ")
	made := newRollout(r.set, r.wanted, r.live, r.now)
	if condition := made.condition(); condition.Status != "False" || condition.Reason != "ApplicationSetRolloutComplete" {
		t.Errorf("the condition is %+v", condition)
	}
	// A new commit begins again with the first step.
	for _, name := range slices.Collect(maps.Keys(r.live)) {
		r.change(name, func(known *record) { known.targets, known.sync = "b", v1alpha1.SyncOutOfSync })
	}
	r.expect(t, "1a=Pending 1b=Pending 2a=Waiting 2b=Waiting 2c=Waiting 9x=Waiting sync 1a,1b")
	made = newRollout(r.set, r.wanted, r.live, r.now)
	if condition := made.condition(); condition.Status != "True" || condition.Message != "ApplicationSet is performing rollout of step 1" {
		t.Errorf("the condition is %+v", condition)
	}
	if state := r.set.Status.ApplicationStatus; state[0].Step != "1" || state[5].Step != "-1" || fmt.Sprint(state[0].TargetRevisions) != "[b]" {
		t.Errorf("the states are %+v", state)
	}
}

// Nothing keeps a rollout from going on once its cause is gone.
func TestRolloutIsNeverStuck(t *testing.T) {
	t.Run("without changes", func(t *testing.T) {
		r := newRolling("1a,2a", "", "")
		r.synced("1a", "2a")
		r.expect(t, "1a=Healthy 2a=Healthy sync ")
	})
	t.Run("degraded, then healthy", func(t *testing.T) {
		r := newRolling("1a,2a", "", "")
		r.expect(t, "1a=Pending 2a=Waiting sync 1a")
		r.synced("1a")
		r.change("1a", func(known *record) { known.health = v1alpha1.Degraded })
		r.expect(t, "1a=Progressing 2a=Waiting sync ")
		r.change("1a", func(known *record) { known.health = v1alpha1.Healthy })
		r.expect(t, "1a=Healthy 2a=Pending sync 2a")
	})
	t.Run("degraded, then fixed by a commit", func(t *testing.T) {
		r := newRolling("1a,2a", "", "")
		r.expect(t, "1a=Pending 2a=Waiting sync 1a")
		r.synced("1a")
		r.change("1a", func(known *record) { known.health = v1alpha1.Degraded })
		r.expect(t, "1a=Progressing 2a=Waiting sync ")
		r.change("1a", func(known *record) { known.targets, known.sync = "b", v1alpha1.SyncOutOfSync })
		r.expect(t, "1a=Pending 2a=Waiting sync 1a")
	})
	t.Run("deleted", func(t *testing.T) {
		r := newRolling("1a,1b,2a", "", "")
		r.synced("1b")
		r.expect(t, "1a=Pending 1b=Healthy 2a=Waiting sync 1a")
		delete(r.live, "1a") // by a user, and it is still generated
		r.expect(t, "1b=Healthy 2a=Waiting sync ")
		r.live["1a"] = record{} // made again, and not compared yet
		r.expect(t, "1a=Waiting 1b=Healthy 2a=Waiting sync ")
		delete(r.live, "1a")
		delete(r.wanted, "1a")
		r.expect(t, "1b=Healthy 2a=Pending sync 2a")
	})
	t.Run("being deleted and not generated", func(t *testing.T) {
		r := newRolling("1a,2a", "", "")
		delete(r.wanted, "1a")
		r.change("1a", func(known *record) { known.deleting = true })
		r.expect(t, "1a=Waiting 2a=Pending sync 2a")
	})
	t.Run("by hand", func(t *testing.T) {
		r := newRolling("1a,2a", "0", "")
		r.expect(t, "1a=Waiting 2a=Waiting sync ")
		r.synced("1a")
		r.expect(t, "1a=Healthy 2a=Pending sync 2a")
	})
}

// Syncs of others, requests that are lost, and specs that change do not stop it
// either.
func TestRolloutGoesOn(t *testing.T) {
	t.Run("a sync in the same second before", func(t *testing.T) {
		r := newRolling("1a", "")
		r.change("1a", func(known *record) { known.started, known.phase = r.now.Add(time.Second), v1alpha1.OperationFailed })
		r.expect(t, "1a=Pending sync 1a")
	})
	t.Run("a sync that runs", func(t *testing.T) {
		r := newRolling("1a", "")
		r.change("1a", func(known *record) { known.started, known.phase = r.now, v1alpha1.OperationRunning })
		r.expect(t, "1a=Pending sync ")
		r.change("1a", func(known *record) { known.phase = v1alpha1.OperationFailed })
		r.expect(t, "1a=Pending sync 1a")
	})
	t.Run("a request that was removed", func(t *testing.T) {
		r := newRolling("1a", "")
		r.expect(t, "1a=Pending sync 1a")
		r.set.Status.ApplicationStatus[0].Status = stepPending
		r.change("1a", func(known *record) { known.started, known.phase = time.Time{}, "" })
		r.expect(t, "1a=Pending sync 1a")
	})
	t.Run("a spec that is refused, then fixed", func(t *testing.T) {
		r := newRolling("1a,2a", "", "")
		r.synced("1a")
		r.expect(t, "1a=Healthy 2a=Pending sync 2a")
		r.change("1a", func(known *record) { known.compared, known.sync, known.failing = false, v1alpha1.SyncUnknown, true })
		r.expect(t, "1a=Progressing 2a=Progressing sync ")
		r.change("1a", func(known *record) { known.compared, known.sync, known.failing = true, v1alpha1.SyncOutOfSync, false })
		r.expect(t, "1a=Pending 2a=Progressing sync 1a")
	})
	t.Run("a new spec is not compared yet", func(t *testing.T) {
		r := newRolling("1a,2a", "", "")
		r.synced("1a", "2a")
		r.expect(t, "1a=Healthy 2a=Healthy sync ")
		r.change("1a", func(known *record) { known.compared = false })
		r.expect(t, "1a=Waiting 2a=Healthy sync ")
		r.change("1a", func(known *record) { known.compared = true })
		r.expect(t, "1a=Healthy 2a=Healthy sync ")
	})
	t.Run("a sync window", func(t *testing.T) {
		r := newRolling("1a", "")
		r.expect(t, "1a=Pending sync 1a")
		r.change("1a", func(known *record) { known.phase, known.blocked = v1alpha1.OperationError, true })
		r.expect(t, "1a=Progressing sync ")
		made := newRollout(r.set, r.wanted, r.live, r.now)
		if made.until(time.Time{}) == 0 {
			t.Error("it is not evaluated again")
		}
		r.now = r.now.Add(windowRetry)
		r.expect(t, "1a=Pending sync 1a")
	})
}

func TestMaxUpdateAsDocumented(t *testing.T) {
	for limit, want := range map[string]int{"": 7, "3": 3, "0": 0, "100%": 7, "50%": 3, "10%": 1, "0%": 0, "9": 9} {
		var given *intstr.IntOrString
		if limit != "" {
			parsed := intstr.Parse(limit)
			given = &parsed
		}
		if got := maxUpdate(given, 7); got != want {
			t.Errorf("%q of 7 is %d, want %d", limit, got, want)
		}
	}
}

func TestStepSelection(t *testing.T) {
	expression := func(operator string, values ...string) v1alpha1.RolloutExpression {
		return v1alpha1.RolloutExpression{Key: "env", Operator: operator, Values: values}
	}
	for _, tt := range []struct {
		expressions []v1alpha1.RolloutExpression
		label       string
		want        bool
	}{
		{nil, "dev", true},
		{[]v1alpha1.RolloutExpression{expression("In", "qa", "dev")}, "dev", true},
		{[]v1alpha1.RolloutExpression{expression("In", "qa")}, "dev", false},
		{[]v1alpha1.RolloutExpression{expression("In", "")}, "", false},
		{[]v1alpha1.RolloutExpression{expression("NotIn", "qa")}, "dev", true},
		{[]v1alpha1.RolloutExpression{expression("NotIn", "dev", "qa")}, "dev", false},
		{[]v1alpha1.RolloutExpression{expression("NotIn", "dev")}, "", true},
		{[]v1alpha1.RolloutExpression{expression("In", "dev"), expression("NotIn", "dev")}, "dev", false},
	} {
		labels := map[string]string{}
		if tt.label != "" {
			labels["env"] = tt.label
		}
		if got := selects(v1alpha1.RolloutStep{MatchExpressions: tt.expressions}, labels); got != tt.want {
			t.Errorf("%v on %v: %t", tt.expressions, labels, got)
		}
	}
}
