package operation_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

// story is one random operation in memory.
type story struct {
	*memory
	rendered []*unstructured.Unstructured
	options  plan.Options
	deletion bool
	// newKinds: the cluster does not have the kinds yet.
	newKinds bool
	began    time.Time
}

func newStory(t testing.TB, seed uint64) *story {
	dice := rand.New(rand.NewPCG(seed, 11))
	s := &story{memory: newMemory(t, dice), rendered: render(dice), deletion: dice.IntN(6) == 0}
	s.began = s.now
	// What was there before: another render, applied and done.
	s.options = plan.Options{AllowPrune: true, AllowEmpty: true}
	for _, object := range render(dice) {
		set := s.prepare([]*unstructured.Unstructured{object})
		for _, desired := range set.Objects {
			step := &plan.Step{StepID: plan.StepID{Phase: plan.Sync, Key: desired.Key}, Object: desired.Object}
			must.Get(s.Apply(t.Context(), step, applyForReal()))(t)
		}
	}
	if dice.IntN(2) == 0 {
		s.trouble = 4 + dice.IntN(8)
	}
	for range 6 {
		s.tick() // some of it has finished, or failed
	}
	clear(s.applied)
	s.most = 0
	return s
}

func (s *story) prepare(objects []*unstructured.Unstructured) *plan.Set {
	return plan.Prepare(plan.Source{
		App: tracking.App{Namespace: "argocd", Name: "shop"}, Tracker: tracking.Tracker{ControlNamespace: "argocd"},
		Namespace: "shop", Began: s.began, Objects: objects,
		Scope: func(schema.GroupKind) plan.Scope {
			if s.newKinds {
				return plan.UnknownScope
			}
			return plan.NamespaceScope
		},
	})
}

func (s *story) plan() *plan.Plan {
	build := plan.Build
	if s.deletion {
		build = plan.Deletion
	}
	return must.Get(build(s.prepare(s.rendered), plan.Input{Live: maps.Clone(s.objects), Gate: openGate{}, Options: s.options}))(s.t)
}

func (s *story) run(p *plan.Plan, marks map[plan.StepID]plan.Mark, parallel int) *operation.Run {
	run := operation.New(operation.Input{
		Plan: p, State: plan.NewState(marks), Live: memoryLive{}, Applier: s, Began: s.began, Parallel: parallel,
		Now: func() time.Time { return s.now },
	})
	run.LookAt(s.find(s.objects), s.find(s.last))
	run.Confirm()
	return run
}

// However things go, and however often the process restarts, an operation
// ends, no step is done twice, nothing is deleted twice, and no more requests
// than allowed are under way.
func TestOperationsEnd(t *testing.T) {
	phases := map[v1alpha1.OperationPhase]int{}
	restarts := 0
	for seed := range uint64(600) {
		s := newStory(t, seed)
		parallel := 1 + s.dice.IntN(4)
		outcome := operation.Outcome{Phase: v1alpha1.OperationRunning}
		run := s.run(s.plan(), nil, parallel)
		for range 500 {
			if outcome = run.Advance(context.Background()); outcome.Phase.Completed() {
				break
			}
			if s.dice.IntN(4) == 0 {
				restarts++
				run = s.run(s.plan(), operation.Marks(run.Results()), parallel)
			}
			s.now = s.now.Add(time.Second)
			s.tick()
		}
		phases[outcome.Phase]++
		s.check(parallel, outcome)
		s.checkMessage(outcome, run.Results())
		if t.Failed() {
			t.Fatalf("seed %d: %+v\n%+v", seed, outcome, run.Results())
		}
	}
	if phases[v1alpha1.OperationSucceeded] < 100 || phases[v1alpha1.OperationFailed] < 50 || restarts < 100 {
		t.Errorf("the stories are not of all kinds: %v, %d restarts", phases, restarts)
	}
}

func (s *story) check(parallel int, outcome operation.Outcome) {
	if !outcome.Phase.Completed() {
		s.t.Errorf("it does not end")
	}
	if !outcome.Again.IsZero() || len(outcome.Waiting) > 0 {
		s.t.Errorf("it has ended and waits")
	}
	if s.most > parallel {
		s.t.Errorf("%d requests at a time, %d are allowed", s.most, parallel)
	}
	for id, times := range s.applied {
		if times > 1 {
			s.t.Errorf("%s was applied %d times", id, times)
		}
	}
	for uid, times := range s.deleted {
		if times > 1 {
			s.t.Errorf("%s was deleted %d times", uid, times)
		}
	}
	for uid, times := range s.cleared {
		if times > 1 {
			s.t.Errorf("%s was cleared %d times", uid, times)
		}
	}
}

// checkMessage: an operation that succeeded has no object that failed, in its
// message or its results, and one that failed names at least one.
func (s *story) checkMessage(outcome operation.Outcome, results []v1alpha1.ResourceResult) {
	failed := slices.ContainsFunc(results, func(result v1alpha1.ResourceResult) bool {
		return result.HookPhase == v1alpha1.OperationFailed || result.HookPhase == v1alpha1.OperationError
	})
	if succeeded := outcome.Phase == v1alpha1.OperationSucceeded; succeeded == failed || succeeded && strings.Contains(outcome.Message, "failed") {
		s.t.Errorf("the operation is %s (%s), and an object failed: %t", outcome.Phase, outcome.Message, failed)
	}
}

// What is kept of any state leads to the same decisions.
func TestResultsKeepEverything(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(600) {
		s := newStory(t, seed)
		p := s.plan()
		run := s.run(p, nil, 4)
		for range 30 {
			outcome := run.Advance(context.Background())
			// NewState forgets by design what a restart forgets.
			want := decide(p.Next(plan.NewState(run.State.Marks())))
			got := decide(p.Next(plan.NewState(operation.Marks(run.Results()))))
			if got != want {
				t.Fatalf("seed %d: with what was kept it is\n%s\nwant\n%s", seed, got, want)
			}
			for _, result := range run.Results() {
				seen[fmt.Sprintf("%t %s %s", result.HookType != "", result.Status, result.HookPhase)] = true
			}
			if outcome.Phase.Completed() {
				break
			}
			s.now = s.now.Add(time.Second)
			s.tick()
		}
	}
	for _, kind := range []string{
		"true  ", "true  Running", "true  Succeeded", "true  Failed", "true  Error", "false Synced Running", "false Synced Succeeded",
		"false Synced Failed", "false SyncFailed Failed", "false Pruned Running", "false Pruned Succeeded",
	} {
		if !seen[kind] {
			t.Errorf("no story had a result that is %q", kind)
		}
	}
}

// decide is a decision without what is only for people.
func decide(decision plan.Decision) string {
	text := string(decision.Phase)
	for _, step := range decision.Run {
		text += "\nrun " + step.StepID.String()
	}
	for _, step := range decision.Clear {
		text += "\nclear " + step.StepID.String()
	}
	for _, wait := range decision.Waiting {
		text += "\nwait " + wait.Step.StepID.String()
	}
	return text
}
