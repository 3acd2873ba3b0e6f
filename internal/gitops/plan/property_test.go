package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// dice makes applications of few objects with few values each, so that they
// meet.
type dice struct{ *rand.Rand }

func (d dice) one(of ...string) string { return of[d.IntN(len(of))] }

func (d dice) flip(odds int) bool { return d.IntN(odds) == 0 }

func (d dice) line() string {
	line := d.one("ConfigMap", "Deployment.apps", "Job.batch", "Namespace", "ClusterRole.rbac.authorization.k8s.io", "Gadget.new.example",
		"Widget.example.com", "CustomResourceDefinition.apiextensions.k8s.io") + " " + d.one("a", "b", "c", "other/a", "shop", "forbidden")
	if d.flip(2) {
		line += " wave=" + d.one("-2", "-1", "1", "2", "x")
	}
	if d.flip(3) {
		line += " hook=" + d.one("PreSync", "Sync", "PostSync", "SyncFail", "PreSync,PostSync", "Skip", "PreDelete", "PostDelete,Sync", "Typo")
		line += " policy=" + d.one("HookSucceeded", "HookFailed", "BeforeHookCreation", "BeforeHookCreation,HookSucceeded", "Never")
	} else if d.flip(6) {
		line += " helm=" + d.one("pre-install", "post-upgrade", "test", "pre-delete", "crd-install")
	}
	if d.flip(3) {
		line += " options=" + d.one("Prune=false", "Prune=confirm", "Delete=false", "Delete=confirm", "PruneLast=true", "Replace=true",
			"Force=true", "SkipDryRunOnMissingResource=true")
	}
	if d.flip(6) {
		line += " defines=" + d.one("Gadget.new.example", "Gadget.new.example/Cluster")
	}
	return line
}

func (d dice) world(t testing.TB) *world {
	w := newWorld()
	w.input.Gate = gate{asked: map[tracking.Key]bool{}}
	for range d.IntN(8) {
		line := d.line()
		if d.flip(10) {
			line += " generate"
		}
		w.source.Objects = append(w.source.Objects, object(t, line, false))
	}
	for range d.IntN(8) {
		line := d.line() + " uid=" + d.one("1", "2", "3", "4")
		if d.flip(3) {
			line += " owner=" + d.one("other", "nobody", "argo")
		}
		if d.flip(8) {
			line += " owned"
		}
		made := object(t, line, true)
		w.input.Live[tracking.KeyOf(made)] = made
		if d.flip(3) {
			w.input.Synced[tracking.KeyOf(made)] = true
		}
	}
	options := &w.input.Options
	options.AllowPrune, options.AllowEmpty = !d.flip(3), d.flip(3)
	options.CreateNamespace, options.ManageNamespace = d.flip(3), d.flip(2)
	options.FailOnSharedResource, options.ApplyOutOfSyncOnly = d.flip(5), d.flip(5)
	options.SelfHeal, options.SkipHooks, options.PruneLast = d.flip(8), d.flip(8), d.flip(5)
	options.Prune = plan.Permission(d.one("", "", "false", "confirm"))
	if d.flip(6) {
		options.Selection = []plan.Selector{{Group: "*", Kind: d.one("ConfigMap", "Job"), Name: "*", Exclude: d.flip(2)}}
	}
	w.deletion = d.flip(5)
	return w
}

// each runs a test on many worlds. A failure names the seed.
func each(t *testing.T, count int, check func(t *testing.T, d dice, w *world)) {
	for seed := range uint64(count) {
		d := dice{rand.New(rand.NewPCG(seed, 7))}
		w := d.world(t)
		check(t, d, w)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, show(w.build(t)))
		}
	}
}

// The order is total and does not depend on that of the input.
func TestOrderIsDeterministic(t *testing.T) {
	each(t, 700, func(t *testing.T, d dice, w *world) {
		// Of objects with the same name the last counts, so there is one of each.
		slices.SortFunc(w.source.Objects, func(a, b *unstructured.Unstructured) int { return tracking.KeyOf(a).Compare(tracking.KeyOf(b)) })
		set := plan.Prepare(w.source)
		if len(set.Warnings) > 0 {
			return
		}
		want := steps(w.build(t))
		d.Shuffle(len(w.source.Objects), func(i, j int) {
			w.source.Objects[i], w.source.Objects[j] = w.source.Objects[j], w.source.Objects[i]
		})
		if got := steps(w.build(t)); got != want {
			t.Errorf("in another order:\n%s\nwant\n%s", got, want)
		}
		seen := map[plan.StepID]bool{}
		for _, step := range w.build(t).Steps() {
			if seen[step.StepID] {
				t.Errorf("%s is there twice", step.StepID)
			}
			seen[step.StepID] = true
		}
	})
}

func steps(p *plan.Plan) string {
	text := ""
	for _, phase := range p.Phases {
		for _, wave := range phase.Waves {
			for _, step := range wave.Steps {
				text += fmt.Sprintln(phase.Name, wave.Number, wave.Prune, wave.PruneLast, step.Action, step.Key)
			}
		}
	}
	return text
}

// Every desired object is in a step for each of its phases, or refused, or
// skipped with a reason, and never two of these.
func TestNothingIsLost(t *testing.T) {
	each(t, 700, func(t *testing.T, _ dice, w *world) {
		if w.deletion {
			return
		}
		set := plan.Prepare(w.source)
		p := w.build(t)
		count := map[tracking.Key]int{}
		for _, step := range p.Steps() {
			if step.Action != plan.Remove {
				count[step.Key]++
			}
		}
		told := map[tracking.Key]int{}
		for _, refusal := range p.Refusals[len(set.Refusals):] {
			told[tracking.Key(refusal.Object)]++
		}
		for _, skipped := range p.Skipped {
			told[skipped.Key]++
		}
		for _, desired := range set.Objects {
			want := 1
			if desired.Hook != nil {
				want = len(slices.DeleteFunc(slices.Clone(desired.Hook.Phases), func(p plan.PhaseName) bool {
					return p == plan.PreDelete || p == plan.PostDelete
				}))
			}
			steps, other := count[desired.Key], told[desired.Key]
			if (steps != want || other != 0) && (steps != 0 || other != 1) {
				t.Errorf("%s has %d steps and is refused or skipped %d times", desired.Key, steps, other)
			}
		}
	})
}

// Nothing that another Application owns, or that is not marked, is ever deleted,
// neither as a prune nor as an old hook. Everything that is touched was asked
// for.
func TestOthersAreSafe(t *testing.T) {
	each(t, 900, func(t *testing.T, _ dice, w *world) {
		p := w.build(t)
		for _, step := range p.Steps() {
			if !w.input.Gate.(gate).asked[step.Key] {
				t.Errorf("the gate was not asked for %s", step.StepID)
			}
			if step.Action == plan.Remove && (!tracker.Stamped(step.Live, shop) || len(step.Live.GetOwnerReferences()) > 0) {
				t.Errorf("%s is deleted, and is not ours", step.StepID)
			}
			if step.Hook == nil || step.Live == nil {
				continue
			}
			if owner, owned := tracker.OwnerOf(step.Live); owned && owner != shop {
				t.Errorf("%s is a hook, and is not ours", step.StepID)
			}
		}
		for _, refusal := range p.Refusals {
			if !w.deletion && !p.Blocked {
				t.Errorf("%v does not block", refusal)
			}
		}
	})
}

// A render without resources deletes nothing without AllowEmpty.
func TestEmptyNeverWipes(t *testing.T) {
	each(t, 900, func(t *testing.T, _ dice, w *world) {
		if w.deletion {
			return
		}
		w.input.Options.AllowEmpty = false
		w.source.Objects = slices.DeleteFunc(w.source.Objects, func(o *unstructured.Unstructured) bool {
			return o.GetAnnotations()["argocd.argoproj.io/hook"] == ""
		})
		set := plan.Prepare(w.source)
		if slices.ContainsFunc(set.Objects, func(d *plan.Desired) bool { return d.Hook == nil }) {
			return // something that is skipped is a resource
		}
		for _, step := range w.build(t).Steps() {
			if step.Action == plan.Remove {
				t.Errorf("%s would be deleted", step.StepID)
			}
		}
	})
}

// However things go, an operation ends; no step runs twice; nothing runs before
// what is in front of it was tried; nothing is pruned unless everything was
// applied; and nothing runs after a failure but SyncFail hooks.
func TestOperationsEnd(t *testing.T) {
	ends := map[plan.Progress]int{}
	each(t, 1500, func(t *testing.T, d dice, w *world) {
		p := w.build(t)
		ends[(&actor{t: t, d: d, plan: p, state: plan.NewState(nil), ran: map[plan.StepID]bool{}}).play()]++
	})
	if ends[plan.Succeeded] < 100 || ends[plan.Failed] < 100 {
		t.Errorf("the worlds are not of both kinds: %v", ends)
	}
}

// actor carries out a plan, in a world where anything can fail.
type actor struct {
	t     *testing.T
	d     dice
	plan  *plan.Plan
	state *plan.State
	ran   map[plan.StepID]bool
}

func (a *actor) play() plan.Progress {
	trouble := a.d.flip(2)
	for range 1000 {
		decision := a.plan.Next(a.state)
		if decision.Phase != plan.Running {
			if len(decision.Run)+len(decision.Waiting) > 0 {
				a.t.Errorf("it is over, and goes on: %+v", decision)
			}
			return decision.Phase
		}
		if len(decision.Run)+len(decision.Clear)+len(decision.Waiting) == 0 {
			a.t.Errorf("it stands still")
			return decision.Phase
		}
		for _, step := range decision.Clear {
			a.state.Clearing(step.StepID)
		}
		for _, step := range decision.Run {
			a.run(step, trouble)
		}
		if len(decision.Waiting) > 0 {
			a.happen(decision.Waiting[a.d.IntN(len(decision.Waiting))].Step, trouble)
		}
	}
	a.t.Error("it does not end")
	return plan.Running
}

func (a *actor) run(step *plan.Step, trouble bool) {
	if a.ran[step.StepID] {
		a.t.Errorf("%s runs twice", step.StepID)
	}
	a.ran[step.StepID] = true
	for _, other := range a.plan.Steps() {
		if other.StepID == step.StepID {
			break
		}
		mark := a.state.Mark(other.StepID)
		tried := mark.Progress != plan.Pending && mark.Progress != plan.Started
		together := other.Key.Kind == step.Key.Kind || step.Action == plan.Remove && other.Action == plan.Remove
		if !tried && !together && step.Phase != plan.SyncFail {
			a.t.Errorf("%s runs before %s was tried", step.StepID, other.StepID)
		}
		if step.Action == plan.Remove && other.Action != plan.Remove && mark.Result != plan.ResultSynced {
			a.t.Errorf("%s is pruned, and %s was not applied", step.StepID, other.StepID)
		}
	}
	switch {
	case a.d.flip(4):
		a.state.Start(step.StepID)
	case trouble && a.d.flip(6):
		a.state.Refused(step.StepID, "no")
	case step.Action == plan.Remove:
		a.state.Deleted(step.StepID, "")
	default:
		a.state.Applied(step.StepID, "")
	}
}

// happen lets something happen to a step that is waited for.
func (a *actor) happen(step *plan.Step, trouble bool) {
	a.state.Confirmed = true
	mark := a.state.Mark(step.StepID)
	switch {
	case mark.Progress == plan.Pending && mark.Clearing:
		a.state.Gone(step)
	case mark.Progress == plan.Pending: // it waits for a definition
		for _, other := range a.plan.Steps() {
			if other.Key.Kind == "CustomResourceDefinition" {
				a.state.Observe(other, plan.Healthy, "")
			}
		}
	case mark.Progress == plan.Started && step.Action == plan.Remove:
		a.state.Deleted(step.StepID, "")
	case mark.Progress == plan.Started:
		a.state.Applied(step.StepID, "")
	case step.Action == plan.Remove:
		a.state.Gone(step)
	case trouble && a.d.flip(4):
		a.state.Observe(step, plan.Degraded, "broken")
	default:
		a.state.Observe(step, plan.Health(a.d.one("", "Healthy", "Progressing")), "")
	}
}
