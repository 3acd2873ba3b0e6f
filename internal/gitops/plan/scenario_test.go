package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

// TestScenarios runs the files of testdata. Each has some of:
//
//	options  one a line
//	desired  one object a line
//	live     one object a line
//	synced   keys of objects that are as desired
//	plan     what is planned
//	talk     what Next returns, and what happens then: lines that begin with >
func TestScenarios(t *testing.T) {
	archives.Each(t, "testdata/*.txtar", runScenario)
}

func runScenario(t *testing.T, archive *txtar.Archive) {
	made := buildScenario(t, archives.Texts(archive))
	for i := range archive.Files {
		file := &archive.Files[i]
		var got string
		switch file.Name {
		case "plan":
			got = show(made)
		case "talk":
			got = talk(t, made, string(file.Data))
		case "options", "desired", "live", "synced":
			continue
		default:
			t.Fatalf("what is the section %q?", file.Name)
		}
		archives.Check(t, file, got)
	}
}

// world is what a scenario is about.
type world struct {
	source   plan.Source
	input    plan.Input
	deletion bool
}

func newWorld() *world {
	return &world{
		source: plan.Source{
			App: shop, Tracker: tracker, Namespace: "shop", Scope: scopeOf,
			Revision: "0123456789abcdef", Began: time.Unix(1700000000, 0),
		},
		input: plan.Input{
			Live: map[tracking.Key]*unstructured.Unstructured{}, Synced: map[tracking.Key]bool{}, Gate: gate{},
		},
	}
}

func (w *world) build(t testing.TB) *plan.Plan {
	t.Helper()
	build := plan.Build
	if w.deletion {
		build = plan.Deletion
	}
	return must.Get(build(plan.Prepare(w.source), w.input))(t)
}

func buildScenario(t *testing.T, sections map[string]string) *plan.Plan {
	w := newWorld()
	for _, line := range lines(sections["desired"]) {
		w.source.Objects = append(w.source.Objects, object(t, line, false))
	}
	for _, line := range lines(sections["live"]) {
		made := object(t, line, true)
		w.input.Live[tracking.KeyOf(made)] = made
	}
	for _, line := range lines(sections["synced"]) {
		w.input.Synced[parseKey(line)] = true
	}
	for _, line := range lines(sections["options"]) {
		w.option(t, line)
	}
	return w.build(t)
}

func (w *world) option(t *testing.T, line string) {
	name, value, _ := strings.Cut(line, " ")
	options := &w.input.Options
	set, ok := map[string]*bool{
		"prune": &options.AllowPrune, "allow-empty": &options.AllowEmpty, "create-namespace": &options.CreateNamespace,
		"manage-namespace": &options.ManageNamespace, "fail-on-shared": &options.FailOnSharedResource,
		"out-of-sync-only": &options.ApplyOutOfSyncOnly, "self-heal": &options.SelfHeal, "skip-hooks": &options.SkipHooks,
		"dry-run": &options.DryRun, "PruneLast": &options.PruneLast, "Replace": &options.Replace, "Force": &options.Force,
		"deletion": &w.deletion,
	}[name]
	switch {
	case ok:
		*set = true
	case name == "Prune":
		options.Prune = plan.Permission(value)
	case name == "Delete":
		options.Delete = plan.Permission(value)
	case name == "propagation":
		options.Propagation = metav1.DeletionPropagation(value)
	case name == "select":
		selector := must.Get(plan.ParseSelector(value))(t)
		options.Selection = append(options.Selection, selector)
	default:
		t.Fatalf("what is the option %q?", line)
	}
}

// talk asks Next, and again after each group of events.
func talk(t *testing.T, p *plan.Plan, script string) string {
	steps := map[string]*plan.Step{}
	for _, step := range p.Steps() {
		steps[step.StepID.String()] = step
	}
	state := plan.NewState(nil)
	var text strings.Builder
	say := func() { text.WriteString(showDecision(p.Next(state))) }
	say()
	events := false
	for line := range strings.SplitSeq(script, "\n") {
		event, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if events {
				say()
			}
			events = false
			continue
		}
		if !events {
			text.WriteString("\n")
		}
		events = true
		fmt.Fprintf(&text, "> %s\n", event)
		happen(t, state, steps, event)
	}
	return text.String()
}

func happen(t *testing.T, state *plan.State, steps map[string]*plan.Step, event string) {
	word, rest, _ := strings.Cut(event, " ")
	name, message, _ := strings.Cut(rest, ": ")
	step := steps[name]
	if step == nil && word != "confirm" && word != "terminate" {
		t.Fatalf("%q: there is no step %q", event, name)
	}
	switch word {
	case "start":
		state.Start(step.StepID)
	case "applied":
		state.Applied(step.StepID, message)
	case "deleted":
		state.Deleted(step.StepID, message)
	case "refused":
		state.Refused(step.StepID, message)
	case "clearing":
		state.Clearing(step.StepID)
	case "gone":
		state.Gone(step)
	case "ready":
		state.Observe(step, plan.NoHealth, message)
	case "Healthy", "Degraded", "Progressing", "Suspended", "Unknown":
		state.Observe(step, plan.Health(word), message)
	case "confirm":
		state.Confirmed = true
	case "terminate":
		state.Terminated = true
	default:
		t.Fatalf("what is the event %q?", event)
	}
}

func showDecision(decision plan.Decision) string {
	var text strings.Builder
	for _, step := range decision.Run {
		fmt.Fprintf(&text, "run %s\n", step.StepID)
	}
	for _, step := range decision.Clear {
		fmt.Fprintf(&text, "clear %s\n", step.StepID)
	}
	for _, wait := range decision.Waiting {
		fmt.Fprintf(&text, "wait for %s\n", wait.For)
	}
	if decision.Phase == plan.Running {
		fmt.Fprintf(&text, "= %s\n", decision.Phase)
	} else {
		fmt.Fprintf(&text, "= %s: %s\n", decision.Phase, decision.Message)
	}
	return text.String()
}
