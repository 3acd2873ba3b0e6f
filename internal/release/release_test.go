package release

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/v1alpha1"
)

// run is a release in a cluster of four replicas, in which everything that is
// decided happens at once.
type run struct {
	t    *testing.T
	in   Input
	plan Plan
	// before is called with each Input, for what happens from outside.
	before func(*Input)
	shares []int32
}

func newRun(t *testing.T, policy *Policy) *run {
	return &run{t: t, in: Input{
		Now: time.Unix(1_800_000_000, 0), Name: "web", Policy: policy, Change: Changed, Replicas: 4, From: 7, IsRolledOut: true,
		Current: &Revision{Hash: "old", UID: "uid-old", Ready: 4}, ReadyTimeout: 10 * time.Minute,
	}}
}

// decide makes one decision and carries it out.
func (r *run) decide() {
	r.t.Helper()
	if r.before != nil {
		r.before(&r.in)
	}
	r.plan = Decide(&r.in)
	again := r.in
	if repeated := Decide(&again); fmt.Sprintf("%+v", repeated.Overlay) != fmt.Sprintf("%+v", r.plan.Overlay) || repeated.RollBack != r.plan.RollBack {
		r.t.Errorf("a decision is not repeated: %+v and %+v", r.plan, repeated)
	}
	r.in.Last, r.in.Action = r.plan.Release, ""
	if r.plan.Release != nil {
		weight := r.plan.Release.Spec.Revisions[1].Weight
		if sum := weight + r.plan.Release.Spec.Revisions[0].Weight; sum != 100 {
			r.t.Errorf("the shares are %d in sum", sum)
		}
		if len(r.shares) == 0 || r.shares[len(r.shares)-1] != weight {
			r.shares = append(r.shares, weight)
		}
	}
	switch {
	case r.plan.Begins: // the sync
		r.in.Mark, r.in.Stable, r.in.Change, r.in.IsRolledOut = r.plan.Overlay.Mark, r.in.Current, Unchanged, false
		r.in.Current = &Revision{Hash: "new", UID: "uid-new", Ready: (r.plan.Overlay.Percent*r.in.Replicas + 99) / 100}
	case r.plan.Apply && r.plan.Overlay != nil:
		r.in.Current.Ready = (r.plan.Overlay.Percent*r.in.Replicas + 99) / 100
	case r.plan.Apply:
		r.in.Mark, r.in.Stable, r.in.IsRolledOut = Mark{}, nil, true
	}
	r.in.Now = r.in.Now.Add(time.Second)
}

// until decides until a condition holds.
func (r *run) until(what string, holds func() bool) {
	r.t.Helper()
	for range 200 {
		if r.decide(); holds() {
			return
		}
	}
	message := ""
	if r.plan.Release != nil {
		message = r.plan.Release.Status.Message
	}
	r.t.Fatalf("%s does not happen: %q, %+v", what, message, r.plan)
}

func (r *run) ended() bool { return r.plan.Release == nil }

// TestPromotion: the share grows step by step, each with its Pods before it, and
// the Release is gone after the end.
func TestPromotion(t *testing.T) {
	r := newRun(t, &Policy{Steps: defaultSteps()})
	r.before = func(in *Input) {
		in.Known, in.Served, in.Judged = true, 1000, Judgement{Outcome: v1alpha1.DecisionPass}
		if canary := in.Last; canary != nil && in.Mark.Stable != "" {
			if needed := (canary.Spec.Revisions[1].Weight*in.Replicas + 99) / 100; in.Current.Ready < needed {
				t.Errorf("%d Pods serve %d %%", in.Current.Ready, canary.Spec.Revisions[1].Weight)
			}
		}
	}
	r.decide()
	if !r.plan.Begins || r.plan.Overlay.From != 7 || r.plan.Overlay.Stable != "old" {
		t.Fatalf("it begins with %+v", r.plan)
	}
	r.until("success", func() bool { return r.plan.Release != nil && r.plan.Release.Status.Phase == v1alpha1.ReleaseSucceeded })
	r.until("the end", r.ended)
	if got := fmt.Sprint(r.shares); got != "[0 5 25 50 100]" {
		t.Errorf("the shares were %s", got)
	}
}

// TestWaiting: without requests, or without counts, a step does not end.
func TestWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*Input)
		want string
	}{
		"requests": {func(in *Input) { in.Known, in.Served = true, 20 }, "canary 5 %, waiting for 80 requests"},
		"counts":   {func(*Input) {}, "canary 5 %, waiting for counts of an edge"},
		"judge": {func(in *Input) {
			in.Known, in.Served, in.Judged = true, 500, Judgement{Outcome: v1alpha1.DecisionWait, Message: "seems worse"}
		}, "canary 5 %, seems worse"},
		"pods": {func(in *Input) {
			if in.Mark.Stable != "" {
				in.Current.Ready = 0
			}
		}, "canary 0 %, waiting for 1 Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, &Policy{Steps: defaultSteps()})
			r.before = c.set
			for range 60 {
				r.decide()
			}
			if got := r.plan.Release.Status.Message; got != c.want {
				t.Errorf("the message is %q, want %q", got, c.want)
			}
		})
	}
}

// TestLostPods: the time of a step begins again after Pods were missing.
func TestLostPods(t *testing.T) {
	r := newRun(t, &Policy{Steps: defaultSteps()})
	r.before = func(in *Input) {
		in.Known, in.Served, in.Judged = true, 1000, Judgement{Outcome: v1alpha1.DecisionPass}
		if in.Mark.Stable != "" {
			in.Current.Ready = min(1, int32(in.Now.Unix()%8)) // for 7 of 8 seconds
		}
	}
	for range 60 {
		r.decide()
	}
	if got := fmt.Sprint(r.shares); got != "[0 5]" {
		t.Errorf("the shares were %s", got)
	}
}

// TestRollBack: the judge, Pods that do not become ready and a user take all
// requests away from the canary. That stays so until the sync.
func TestRollBack(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*Input)
		want string
	}{
		"judge": {func(in *Input) {
			in.Known, in.Judged = true, Judgement{Outcome: v1alpha1.DecisionFail, Message: "4 % errors"}
		}, "4 % errors"},
		"user":     {func(in *Input) { in.Action = v1alpha1.ReleaseAbort }, "a user aborted"},
		"silence":  {func(in *Input) { in.Known, in.Unanswered = true, 40 }, "no response to 40 requests"},
		"restarts": {func(in *Input) { in.Restarts = 3 }, "ended 3 times"},
		"pods": {func(in *Input) {
			if in.Mark.Stable != "" {
				in.Current.Ready, in.Now = 0, in.Now.Add(time.Minute)
			}
		}, "lacks 1 ready Pod for"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, &Policy{Steps: defaultSteps()})
			r.before = c.set
			r.until("the rollback", func() bool { return r.plan.RollBack != "" })
			if !strings.Contains(r.plan.RollBack, c.want) || r.plan.Release.Spec.Revisions[1].Weight != 0 || r.plan.Overlay == nil {
				t.Errorf("it goes back with %+v", r.plan)
			}
			r.before = nil
			if r.decide(); !strings.Contains(r.plan.RollBack, c.want) {
				t.Error("it is not repeated after a restart")
			}
			r.in.Change = Back
			if r.decide(); r.plan.Overlay != nil || r.plan.RollBack != "" || r.plan.Release.Status.Phase != v1alpha1.ReleaseRolledBack {
				t.Errorf("the way back is %+v", r.plan)
			}
			r.in.Mark, r.in.Change, r.in.IsRolledOut = Mark{}, Unchanged, false
			r.decide()
			r.in.IsRolledOut = true
			if r.decide(); r.plan.Release.Status.FinishedAt == nil || !strings.Contains(r.plan.Release.Status.Message, c.want) || r.plan.Release.Status.Phase != v1alpha1.ReleaseRolledBack {
				t.Errorf("it ends as %+v", r.plan.Release.Status)
			}
			r.until("the end", r.ended)
		})
	}
}

// TestRetryBeforeTheWayBack: a revision that is tried again before the Deployment
// went back begins at the first step, and is not rolled back for the first trial.
func TestRetryBeforeTheWayBack(t *testing.T) {
	for name, change := range map[string]Change{"held": Back, "not held yet": Unchanged} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, &Policy{Steps: defaultSteps()})
			fails := func(in *Input) {
				in.Known, in.Judged = true, Judgement{Outcome: v1alpha1.DecisionFail, Message: "4 % errors"}
			}
			r.before = fails
			r.until("the rollback", func() bool { return r.plan.RollBack != "" })
			first := r.plan.Release.Status.StartedAt
			r.in.Change, r.in.Action = change, v1alpha1.ReleaseRetry
			if r.decide(); r.plan.RollBack != "" || r.plan.Release.Status.Phase != v1alpha1.ReleaseProgressing || !first.Before(r.plan.Release.Status.StartedAt) {
				t.Fatalf("it is tried again by %+v", r.plan)
			}
			// The hold is lifted, and the new trial has a judge of its own.
			r.in.Change = Unchanged
			r.before = func(in *Input) {
				in.Known, in.Served, in.Judged = true, 1000, Judgement{Outcome: v1alpha1.DecisionPass}
			}
			r.until("the promotion", func() bool { return r.plan.Release != nil && r.plan.Release.Status.Phase == v1alpha1.ReleaseSucceeded })
		})
	}
}

// TestAnotherCommit: the next revision becomes the canary, from the first step.
func TestAnotherCommit(t *testing.T) {
	r := newRun(t, &Policy{Steps: defaultSteps()})
	r.before = func(in *Input) {
		in.Known, in.Served, in.Judged = true, 1000, Judgement{Outcome: v1alpha1.DecisionPass}
	}
	r.until("25 %", func() bool { return r.plan.Release.Spec.Revisions[1].Weight == 25 })
	r.in.Change = Changed
	r.decide()
	if r.plan.Apply || r.plan.Overlay.Stable != "old" || r.plan.Release.Spec.Revisions[1].Weight != 0 {
		t.Fatalf("before the sync: %+v", r.plan)
	}
	r.in.Change, r.in.Current = Unchanged, &Revision{Hash: "newer", UID: "uid-newer", Ready: 1}
	r.decide()
	if status := r.plan.Release.Status; status.Step != 1 || r.plan.Release.Spec.Revisions[1].Hash != "newer" || r.plan.Release.Spec.Revisions[0].Hash != "old" {
		t.Errorf("after the sync: %+v", r.plan.Release)
	}
	r.until("success", func() bool { return r.plan.Release.Status.Phase == v1alpha1.ReleaseSucceeded })
}

// TestBlueGreen: all Pods run before the first request, and a user promotes.
func TestBlueGreen(t *testing.T) {
	policy, _ := Default(BlueGreen)
	r := newRun(t, policy)
	r.until("the pause", func() bool { return r.plan.Release.Status.Phase == v1alpha1.ReleasePaused })
	if r.in.Current.Ready != 4 || r.plan.Release.Spec.Revisions[1].Weight != 0 {
		t.Errorf("%d Pods run at the pause", r.in.Current.Ready)
	}
	r.in.Action = v1alpha1.ReleasePromote
	r.until("success", func() bool { return r.plan.Release.Status.Phase == v1alpha1.ReleaseSucceeded })
	if got := fmt.Sprint(r.shares); got != "[0 100]" {
		t.Errorf("the shares were %s", got)
	}
}

// TestNothingToRelease: the first deploy, a broken Deployment and a change beside
// the template are plain syncs.
func TestNothingToRelease(t *testing.T) {
	for name, set := range map[string]func(*Input){
		"no revision": func(in *Input) { in.Current = nil },
		"no Pods":     func(in *Input) { in.Current.Ready = 0 },
		"no change":   func(in *Input) { in.Change = Unchanged },
		"no policy":   func(in *Input) { in.Policy = nil },
	} {
		r := newRun(t, &Policy{Steps: defaultSteps()})
		set(&r.in)
		if plan := Decide(&r.in); plan.Overlay != nil || plan.Release != nil || plan.Begins {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

// TestOverlay: the mark is read as it was written, and the fields keep the old
// Pods.
func TestOverlay(t *testing.T) {
	deployment := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"replicas": int64(3)}}}
	if mark := MarkOf(deployment); mark.Stable != "" || mark.From != -1 {
		t.Errorf("a plain Deployment has the mark %+v", mark)
	}
	overlay := &Overlay{Mark: Mark{Stable: "abc", From: 3}, Percent: 25}
	if err := overlay.Apply(deployment); err != nil {
		t.Fatal(err)
	}
	if mark := MarkOf(deployment); mark != overlay.Mark {
		t.Errorf("the mark is %+v", mark)
	}
	// A comparison with Git shows nothing of it, and a Deployment without a release is left
	// alone.
	plain := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"replicas": int64(3)}}}
	if KeepOverlay(plain, plain.DeepCopy()); MarkOf(plain).Stable != "" {
		t.Error("a plain Deployment has an overlay")
	}
	if KeepOverlay(plain, deployment); fmt.Sprint(plain.Object) != fmt.Sprint(deployment.Object) {
		t.Errorf("%v is compared with %v", plain.Object, deployment.Object)
	}
	surge, _, _ := unstructured.NestedString(deployment.Object, "spec", "strategy", "rollingUpdate", "maxSurge")
	replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	if surge != "25%" || replicas != 3 {
		t.Errorf("the spec is %+v", deployment.Object["spec"])
	}
}

// TestCount: numbers in messages have their noun, and commas between thousands.
func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 requests", 1: "1 request", 2: "2 requests", 1500: "1,500 requests"} {
		if got := count(n, "request"); got != want {
			t.Errorf("count(%d) is %q, want %q", n, got, want)
		}
	}
}
