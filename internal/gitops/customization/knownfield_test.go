package customization_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/must"
)

// TestKnownFields: values of a field with a known type are the same in every
// notation, in both spellings of the setting, and other values are not.
func TestKnownFields(t *testing.T) {
	together := read(t, map[string]string{"resource.customizations": `
example.com/Machine:
  knownTypeFields:
  - {field: spec.size, type: core/Quantity}
  - {field: spec.wait, type: meta/v1/Duration}
  - {field: spec.parts.resources, type: core/v1/ResourceRequirements}
  - {field: spec.limits, type: core/v1/ResourceList}
`})
	single := read(t, map[string]string{"resource.customizations.knownTypeFields.example.com_Machine": `
- {field: spec.size, type: core/Quantity}
- {field: spec.wait, type: meta/v1/Duration}
- {field: spec.parts.resources, type: core/v1/ResourceRequirements}
- {field: spec.limits, type: core/v1/ResourceList}
`})
	for name, settings := range map[string]*customization.Settings{"together": together, "single": single} {
		ignore := must.Get(plan.NewIgnore(nil, jq.New()))(t).WithKnownFields(settings.KnownFields)
		for _, tt := range []struct {
			kind, live, other string
			same              bool
		}{
			{"Machine", `size: "1"`, `size: 1000m`, true},
			{"Machine", `size: 1`, `size: 1000m`, true},
			{"Machine", `size: "1"`, `size: 1001m`, false},
			{"Machine", `size: big`, `size: large`, false},
			{"Machine", `wait: 60s`, `wait: 1m0s`, true},
			{"Machine", `wait: 60s`, `wait: 61s`, false},
			{"Machine", `limits: {cpu: 0.5}`, `limits: {cpu: 500m}`, true},
			{"Machine", `limits: {cpu: 0.5}`, `limits: {cpu: 500m, memory: 1}`, false},
			{"Machine", `parts: [{resources: {limits: {cpu: "2"}}}, {name: x}]`, `parts: [{resources: {limits: {cpu: 2000m}}}, {name: x}]`, true},
			{"Machine", `parts: [{resources: {limits: {cpu: "2"}}}, {name: x}]`, `parts: [{resources: {limits: {cpu: 2000m}}}, {name: y}]`, false},
			{"Machine", `other: "1"`, `other: 1000m`, false},
			{"Engine", `size: "1"`, `size: 1000m`, false},
		} {
			live, other := machine(t, tt.kind, tt.live), machine(t, tt.kind, tt.other)
			if ignore.Equalize(live, other); reflect.DeepEqual(live.Object, other.Object) != tt.same {
				t.Errorf("%s: %s and %s of a %s are %v and %v", name, tt.live, tt.other, tt.kind, live.Object, other.Object)
			}
		}
	}
	// An apply writes what Git has.
	live, other := machine(t, "Machine", `size: "1"`), machine(t, "Machine", `size: 1000m`)
	must.Get(plan.NewIgnore(nil, jq.New()))(t).WithKnownFields(single.KnownFields).Strip(live, other)
	if size, _, _ := unstructured.NestedString(other.Object, "spec", "size"); size != "1000m" {
		t.Errorf("it would be applied as %s", size)
	}
}

// machine is an object with fields of its spec in YAML.
func machine(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must.Do(t, yaml.Unmarshal([]byte("apiVersion: example.com/v1\nkind: "+kind+"\nmetadata: {name: a}\nspec: {"+spec+"}\n"), &object.Object))
	return object
}

// TestMalformedKnownFields: a field without a type that is known has no effect,
// and the key of a kind counts before the one for all.
func TestMalformedKnownFields(t *testing.T) {
	got := customization.Read(map[string]string{
		"resource.customizations":                             "Pod: {knownTypeFields: [{field: a, type: core/Quantity}, {field: b, type: core/Quantity}]}",
		"resource.customizations.knownTypeFields.Pod":         "[{field: c, type: core/Quantity}]",
		"resource.customizations.knownTypeFields.Secret":      "[{field: a, type: core/v1/Nothing}, {type: core/Quantity}]",
		"resource.customizations.knownTypeFields.ConfigMap":   "x",
		"resource.customizations.knownTypeFields.batch_Job":   "[]",
		"resource.customizations.useOpenLibs.apps_Widget":     "true",
		"resource.customizations.knownTypeFields.apps_Widget": "[{field: a, type: core/v1/PodSpec}, {field: b, type: core/v1/PodTemplateSpec}]",
	}, jq.New())
	if len(got.KnownFields) != 3 || len(got.Problems) != 3 {
		t.Errorf("fields %v, problems %q", got.KnownFields, got.Problems)
	}
}
