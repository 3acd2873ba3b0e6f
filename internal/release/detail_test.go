package release

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/v1alpha1"
)

// TestTimeOfADecision: a decision has the time since when it is so.
func TestTimeOfADecision(t *testing.T) {
	r := newRun(t, &Policy{Steps: defaultSteps()})
	judged := Judgement{Outcome: v1alpha1.DecisionWait, Reason: "TooFewRequests"}
	r.before = func(in *Input) { in.Known, in.Judged = true, judged }
	at := func() time.Time { return r.plan.Release.Status.Decision.At.Time }
	r.decide()
	r.decide()
	first := at()
	if r.decide(); !at().Equal(first) {
		t.Error("the same decision has another time")
	}
	judged.Reason = "SeemsWorse"
	if r.decide(); !at().After(first) {
		t.Error("another reason has the time of the last one")
	}
	second := at()
	judged.Outcome = v1alpha1.DecisionPass
	if r.decide(); !at().After(second) {
		t.Error("another outcome has the time of the last one")
	}
}

// TestPolicyOfASpec: steps that are not given are those of the strategy.
func TestPolicyOfASpec(t *testing.T) {
	given := []v1alpha1.ReleasePolicyStep{{Weight: 20, Requests: 7}}
	for name, c := range map[string]struct {
		spec v1alpha1.ReleasePolicySpec
		want []Step
	}{
		"empty":                 {v1alpha1.ReleasePolicySpec{}, defaultSteps()},
		"blue-green":            {v1alpha1.ReleasePolicySpec{Strategy: BlueGreen}, []Step{{Pause: true}}},
		"steps":                 {v1alpha1.ReleasePolicySpec{Steps: given}, []Step{{Weight: 20, Requests: 7}}},
		"blue-green with steps": {v1alpha1.ReleasePolicySpec{Strategy: BlueGreen, Steps: given}, []Step{{Weight: 20, Requests: 7}}},
	} {
		if got := FromSpec(&c.spec); !slices.Equal(got.Steps, c.want) || got.Full != (c.spec.Strategy == BlueGreen) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestNextRelease: a release after one that ended is written into the same object, and has
// nothing of its status.
func TestNextRelease(t *testing.T) {
	r := newRun(t, &Policy{Steps: defaultSteps()})
	r.in.Last = &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "5"}}
	r.in.Last.Status.Phase = v1alpha1.ReleaseRolledBack
	plan := Decide(&r.in)
	if !plan.Begins || plan.Release.ResourceVersion != "5" || plan.Release.Status.Phase != v1alpha1.ReleaseProgressing {
		t.Errorf("%+v", plan.Release)
	}
}

// TestBackWithoutARelease: without a Release or the ReplicaSet of the stable revision
// there is no share to take away.
func TestBackWithoutARelease(t *testing.T) {
	revision := &Revision{Hash: "old", UID: "uid-old", Ready: 4}
	release := &v1alpha1.Release{}
	for name, in := range map[string]*Input{
		"no Release": {Stable: revision}, "no ReplicaSet": {Last: release}, "neither": {},
	} {
		in.Policy, in.Mark, in.Change = &Policy{Steps: defaultSteps()}, Mark{Stable: "old"}, Back
		if plan := Decide(in); plan.Release != nil || plan.Overlay != nil || plan.RollBack != "" || plan.RequeueAt.IsZero() {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

// TestEndOfARelease: a Release stays for a minute after its end, and one that was rolled
// back for as long as the Application is held.
func TestEndOfARelease(t *testing.T) {
	finished := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		phase     string
		held      bool
		after     time.Duration
		stays     bool
		requeueIn time.Duration
	}{
		"succeeded, at once":     {v1alpha1.ReleaseSucceeded, false, 0, true, kept},
		"succeeded, a minute":    {v1alpha1.ReleaseSucceeded, false, kept, false, 0},
		"succeeded, held":        {v1alpha1.ReleaseSucceeded, true, kept, false, 0},
		"rolled back, held":      {v1alpha1.ReleaseRolledBack, true, time.Hour, true, heldTick},
		"rolled back, released":  {v1alpha1.ReleaseRolledBack, false, kept, false, 0},
		"rolled back, a bit ago": {v1alpha1.ReleaseRolledBack, false, kept - time.Second, true, time.Second},
	} {
		in := &Input{Now: finished.Add(c.after), IsHeld: c.held, IsRolledOut: true, Last: &v1alpha1.Release{}}
		in.Last.Status.Phase, in.Last.Status.FinishedAt = c.phase, &metav1.Time{Time: finished}
		plan := Decide(in)
		if stays := plan.Release != nil; stays != c.stays || stays && !plan.RequeueAt.Equal(in.Now.Add(c.requeueIn)) {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}
