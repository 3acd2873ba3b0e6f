package rollout

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// withSets completes an observation with the ReplicaSet of its template and a stable one,
// all of whose Pods are available, at a step.
func withSets(t *testing.T, text string, step int32) Observed {
	t.Helper()
	seen := observed(t, text)
	rollout := seen.Rollout
	rollout.UID = "rollout"
	rollout.Annotations = map[string]string{annotationRevision: "2"}
	hash := templateHash(&rollout.Spec.Template, nil)
	for revision, name := range map[string]string{"1": "stable", "2": hash} {
		size := *rollout.Spec.Replicas
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Name: "demo-" + name, Labels: map[string]string{labelHash: name}, Annotations: map[string]string{annotationRevision: revision, annotationDesired: "2"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rollout, kindOf())}, CreationTimestamp: metav1.NewTime(seen.Now),
			},
			Spec:   appsv1.ReplicaSetSpec{Replicas: &size},
			Status: appsv1.ReplicaSetStatus{Replicas: size, ReadyReplicas: size, AvailableReplicas: size},
		}
		seen.ReplicaSets = append(seen.ReplicaSets, set)
	}
	rollout.Status = v1alpha1.RolloutStatus{
		CurrentPodHash: hash, StableRS: "stable", CurrentStepHash: stepsHash(&rollout.Spec), ObservedGeneration: "1",
		Conditions: []v1alpha1.RolloutCondition{{Type: v1alpha1.ConditionProgressing, Status: yes, Reason: reasonUpdated, LastUpdateTime: metav1.NewTime(seen.Now)}},
	}
	if rollout.Spec.Strategy.Canary != nil {
		rollout.Status.CurrentStepIndex = &step
	}
	seen.Templates = map[string]*v1alpha1.AnalysisTemplateSpec{"rate": {Metrics: []v1alpha1.Metric{{Name: "rate"}}}}
	return seen
}

const analysed = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: demo, namespace: shop, generation: 1}
spec:
  replicas: 2
  selector: {matchLabels: {app: demo}}
  template: {metadata: {labels: {app: demo}}, spec: {containers: [{name: demo, image: demo:1}]}}
  strategy: {STRATEGY}
`

// created returns the AnalysisRun that a decision creates; nil if it creates none.
func created(decision Decision) *v1alpha1.AnalysisRun {
	for _, write := range decision.Writes {
		if run, ok := write.Create.(*v1alpha1.AnalysisRun); ok {
			return run
		}
	}
	return nil
}

// TestStepAnalysis: a step makes an AnalysisRun once, waits for it, and its result
// continues, aborts or pauses the update.
func TestStepAnalysis(t *testing.T) {
	text := strings.Replace(analysed, "STRATEGY", "canary: {steps: [{analysis: {templates: [{templateName: rate}]}}, {pause: {}}]}", 1)
	first := Decide(withSets(t, text, 0))
	run := created(first)
	if run == nil || run.Labels[labelType] != typeStep || run.Labels[labelStep] != "0" || run.Annotations[annotationRevision] != "2" || !strings.HasSuffix(run.Name, "-2-0") {
		t.Fatalf("the AnalysisRun is %+v", run)
	}
	named := first.Status.Canary.CurrentStepAnalysisRunStatus
	if named == nil || named.Name != run.Name || *first.Status.CurrentStepIndex != 0 {
		t.Errorf("the status is %+v", first.Status)
	}
	for phase, want := range map[v1alpha1.AnalysisPhase]func(*v1alpha1.RolloutStatus) bool{
		v1alpha1.AnalysisPhaseRunning:    func(s *v1alpha1.RolloutStatus) bool { return *s.CurrentStepIndex == 0 && !s.Abort },
		v1alpha1.AnalysisPhaseSuccessful: func(s *v1alpha1.RolloutStatus) bool { return *s.CurrentStepIndex == 1 && !s.Abort },
		v1alpha1.AnalysisPhaseFailed: func(s *v1alpha1.RolloutStatus) bool {
			return s.Abort && s.Phase == v1alpha1.PhaseDegraded && strings.Contains(s.Message, "Step-based analysis phase error/failed: too many")
		},
		v1alpha1.AnalysisPhaseInconclusive: func(s *v1alpha1.RolloutStatus) bool {
			return len(s.PauseConditions) == 1 && s.PauseConditions[0].Reason == v1alpha1.PauseInconclusiveAnalysis && s.ControllerPause
		},
	} {
		seen := withSets(t, text, 0)
		seen.Rollout.Status.Canary.CurrentStepAnalysisRunStatus = named
		seen.Runs = []Run{{Name: run.Name, Labels: run.Labels, Phase: phase, Message: "too many"}}
		decision := Decide(seen)
		if created(decision) != nil || !want(decision.Status) {
			t.Errorf("%s: %+v", phase, decision.Status)
		}
	}
	// A pass that was cut off after the creation takes the run.
	seen := withSets(t, text, 0)
	seen.Runs = []Run{{Name: run.Name, Labels: run.Labels}}
	if again := Decide(seen); created(again) != nil || again.Status.Canary.CurrentStepAnalysisRunStatus.Name != run.Name {
		t.Errorf("the run is made again: %+v", again.Writes)
	}
}

// TestBackgroundAnalysis: it begins at startingStep, and is ended with the update.
func TestBackgroundAnalysis(t *testing.T) {
	text := strings.Replace(analysed, "STRATEGY", "canary: {analysis: {startingStep: 1, templates: [{templateName: rate}]}, steps: [{pause: {}}, {pause: {}}]}", 1)
	if run := created(Decide(withSets(t, text, 0))); run != nil {
		t.Errorf("it begins before its step: %s", run.Name)
	}
	run := created(Decide(withSets(t, text, 1)))
	if run == nil || run.Labels[labelType] != typeBackground {
		t.Fatalf("the AnalysisRun is %+v", run)
	}
	seen := withSets(t, text, 1)
	seen.Rollout.Status.Abort = true
	seen.Rollout.Status.Canary.CurrentBackgroundAnalysisRunStatus = &v1alpha1.RolloutAnalysisRunStatus{Name: run.Name}
	seen.Runs = []Run{{Name: run.Name, Labels: run.Labels, Phase: v1alpha1.AnalysisPhaseRunning}}
	terminated := false
	for _, write := range Decide(seen).Writes {
		if spec, ok := write.Patch["spec"].(map[string]any); ok && write.Name == run.Name && spec["terminate"] == true {
			terminated = true
		}
	}
	if !terminated {
		t.Error("an abort does not end it")
	}
}

// TestPrePromotionAnalysis: the active Service is switched after a successful analysis
// only, and a failed one aborts.
func TestPrePromotionAnalysis(t *testing.T) {
	text := strings.Replace(analysed, "STRATEGY", "blueGreen: {activeService: active, prePromotionAnalysis: {templates: [{templateName: rate}]}}", 1)
	scene := func(phase v1alpha1.AnalysisPhase, name string) Decision {
		seen := withSets(t, text, 0)
		seen.Rollout.Status.BlueGreen.ActiveSelector = "stable"
		seen.Services = map[string]*corev1.Service{"active": {
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationManagedBy: "demo"}}, Spec: corev1.ServiceSpec{Selector: map[string]string{labelHash: "stable"}},
		}}
		if name != "" {
			seen.Rollout.Status.BlueGreen.PrePromotionAnalysisRunStatus = &v1alpha1.RolloutAnalysisRunStatus{Name: name}
			seen.Runs = []Run{{Name: name, Labels: map[string]string{labelHash: seen.Rollout.Status.CurrentPodHash}, Phase: phase}}
		}
		return Decide(seen)
	}
	first := scene("", "")
	run := created(first)
	if run == nil || run.Labels[labelType] != typePre || first.Status.BlueGreen.ActiveSelector != "stable" {
		t.Fatalf("%+v", first.Status)
	}
	if waiting := scene(v1alpha1.AnalysisPhaseRunning, run.Name); waiting.Status.BlueGreen.ActiveSelector != "stable" || created(waiting) != nil {
		t.Errorf("%+v", waiting.Status.BlueGreen)
	}
	if passed := scene(v1alpha1.AnalysisPhaseSuccessful, run.Name); passed.Status.BlueGreen.ActiveSelector == "stable" || passed.Status.StableRS == "stable" {
		t.Errorf("%+v", passed.Status)
	}
	if failed := scene(v1alpha1.AnalysisPhaseFailed, run.Name); !failed.Status.Abort || failed.Status.BlueGreen.ActiveSelector != "stable" {
		t.Errorf("%+v", failed.Status)
	}
}

// TestArguments: values, hashes and fields of the Rollout.
func TestArguments(t *testing.T) {
	seen := withSets(t, strings.Replace(analysed, "STRATEGY", "canary: {}", 1), 0)
	seen.Rollout.Labels = map[string]string{"region": "north"}
	p := newPass(seen)
	p.findReplicaSets()
	field := func(path string) *v1alpha1.ArgumentValueFrom {
		return &v1alpha1.ArgumentValueFrom{FieldRef: &v1alpha1.FieldRef{FieldPath: path}}
	}
	got, err := p.arguments([]v1alpha1.AnalysisRunArgument{
		{Name: "a", Value: "given"}, {Name: "b", ValueFrom: &v1alpha1.ArgumentValueFrom{PodTemplateHashValue: v1alpha1.HashStable}},
		{Name: "c", ValueFrom: field("metadata.labels['region']")}, {Name: "d", ValueFrom: field("metadata.namespace")},
		{Name: "e", ValueFrom: field("spec.template.spec.containers[0].image")}, {Name: "f", ValueFrom: field("spec.replicas")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"given", "stable", "north", "shop", "demo:1", "2"} {
		if *got[i].Value != want {
			t.Errorf("%s is %q, want %q", got[i].Name, *got[i].Value, want)
		}
	}
	if _, err := p.arguments([]v1alpha1.AnalysisRunArgument{{Name: "a", ValueFrom: field("spec.absent.field")}}); err == nil {
		t.Error("a field that does not exist has a value")
	}
}
