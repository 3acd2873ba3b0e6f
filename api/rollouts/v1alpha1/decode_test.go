package v1alpha1

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/declare"
)

// read returns the fields of an object.
func read(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

const canary = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: demo, namespace: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {labels: {app: demo}}
    spec: {containers: [{name: demo, image: demo:1}]}
  strategy:
    canary:
      maxSurge: 25%
      maxUnavailable: 0
      stableService: stable
      canaryService: canary
      trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: web}}}
      analysis: {startingStep: 2, templates: [{templateName: rate}]}
      steps: [{setWeight: 20}, {pause: {duration: 1m}}, {pause: {}}]
status: {currentStepIndex: 1, pauseConditions: [{reason: CanaryPauseStep, startTime: "2026-01-02T03:04:05Z"}], nonsense: 1}
`

func TestDecode(t *testing.T) {
	rollout, refused, err := Decode(read(t, canary))
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	strategy := rollout.Spec.Strategy.Canary
	if *rollout.Spec.Replicas != 5 || rollout.Spec.Template.Spec.Containers[0].Image != "demo:1" || rollout.Spec.Selector.MatchLabels["app"] != "demo" {
		t.Errorf("%+v", rollout.Spec)
	}
	if strategy.MaxSurge.StrVal != "25%" || strategy.MaxUnavailable.IntVal != 0 || strategy.TrafficRouting.Plugins.GatewayAPI.HTTPRoute != "web" {
		t.Errorf("%+v", strategy)
	}
	if *strategy.Analysis.StartingStep != 2 || strategy.Analysis.Templates[0].TemplateName != "rate" {
		t.Errorf("%+v", strategy.Analysis)
	}
	if strategy.Steps[1].Pause.Seconds() != 60 || strategy.Steps[2].Pause.Seconds() != 0 {
		t.Errorf("%+v", strategy.Steps)
	}
	if *rollout.Status.CurrentStepIndex != 1 || rollout.Status.PauseConditions[0].Reason != PauseCanaryStep {
		t.Errorf("%+v", rollout.Status)
	}
}

// TestRefused: what is not done is refused by the name of its field.
func TestRefused(t *testing.T) {
	for change, want := range map[string]string{
		"{setWeight: 20}>{experiment: {templates: [{name: a, specRef: stable}]}}":                    "spec.strategy.canary.steps[0].experiment",
		"{setWeight: 20}>{plugin: {name: x}}":                                                        "spec.strategy.canary.steps[0].plugin",
		"plugins: {argoproj-labs/gatewayAPI: {httpRoute: web}}>istio: {virtualService: {name: a}}":   "spec.strategy.canary.trafficRouting.istio",
		"argoproj-labs/gatewayAPI>argoproj-labs/other":                                               "spec.strategy.canary.trafficRouting.plugins.argoproj-labs/other",
		"maxSurge: 25%>antiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: {weight: 1}}": "spec.strategy.canary.antiAffinity",
		"replicas: 5>replicaz: 5": "spec.replicaz",
		"replicas: 5>replicas: x": "spec.replicas",
	} {
		old, replacement, _ := strings.Cut(change, ">")
		_, refused, err := Decode(read(t, strings.Replace(canary, old, replacement, 1)))
		if err != nil || len(refused) != 1 || refused[0].Field != want {
			t.Errorf("%s: %v, %v", change, refused, err)
		}
	}
	if _, _, err := Decode(read(t, strings.Replace(canary, "kind: Rollout", "kind: Deployment", 1))); err == nil {
		t.Error("a Deployment was decoded")
	}
}

// TestDeclarations: every field has a description, and a refused one its type.
func TestDeclarations(t *testing.T) {
	// These are parts of templates, too, which are plain JSON.
	shared := map[reflect.Type]bool{
		reflect.TypeFor[AnalysisTemplateRef](): true, reflect.TypeFor[FieldRef](): true, reflect.TypeFor[DryRun](): true, reflect.TypeFor[MeasurementRetention](): true,
	}
	var seen []reflect.Type
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			if slices.Contains(seen, of) || !strings.HasSuffix(of.PkgPath(), "api/rollouts/v1alpha1") {
				return
			}
			seen = append(seen, of)
			if shared[of] {
				return
			}
			for _, field := range declare.Fields(of) {
				if !strings.HasSuffix(field.Description, ".") {
					t.Errorf("%s.%s has no description that is a sentence", of.Name(), field.Name)
				}
				if unsupported := field.Type == reflect.TypeFor[*Unsupported](); unsupported != (field.Refused != "") {
					t.Errorf("%s.%s: what is not supported has a reason and the type Unsupported", of.Name(), field.Name)
				}
				walk(field.Type)
			}
		}
	}
	walk(reflect.TypeFor[RolloutSpec]())
	walk(reflect.TypeFor[RolloutStatus]())
	if len(seen) < 30 {
		t.Errorf("only %d structs", len(seen))
	}
}

// FuzzDecode: no object makes it panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(canary))
	f.Fuzz(func(t *testing.T, text []byte) {
		var object map[string]any
		if yaml.Unmarshal(text, &object) == nil {
			_, _, _ = Decode(object)
		}
	})
}
