package customization_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/must"
)

// read reads settings without problems.
func read(t *testing.T, data map[string]string) *customization.Settings {
	t.Helper()
	got := customization.Read(data, jq.New())
	if len(got.Problems) > 0 {
		t.Fatal(got.Problems)
	}
	return got
}

// TestSpellings: both spellings of Argo CD mean the same, and the key of a kind
// counts before the one for all.
func TestSpellings(t *testing.T) {
	together := read(t, map[string]string{"resource.customizations": `
cert-manager.io/Certificate:
  health.lua: return {status = "Healthy"}
  health.lua.useOpenLibs: true
ConfigMap:
  ignoreDifferences: |
    jsonPointers: [/data/a]
  actions: |
    discovery.lua: return {fill = {}}
    mergeBuiltinActions: true
    definitions: [{name: fill, action.lua: return obj}]
"*/*":
  ignoreDifferences: |
    managedFieldsManagers: [operator]
`})
	single := read(t, map[string]string{
		"resource.customizations.health.cert-manager.io_Certificate":      `return {status = "Healthy"}`,
		"resource.customizations.useOpenLibs.cert-manager.io_Certificate": "true",
		"resource.customizations.ignoreDifferences.ConfigMap":             "jsonPointers: [/data/a]",
		"resource.customizations.ignoreDifferences.all":                   "managedFieldsManagers: [operator]",
		"resource.customizations.actions.ConfigMap":                       "{discovery.lua: 'return {fill = {}}', mergeBuiltinActions: true, definitions: [{name: fill, action.lua: return obj}]}",
	})
	wantHealth := map[string]string{"cert-manager.io/Certificate": `return {status = "Healthy"}`}
	all := v1alpha1.ResourceIgnoreDifferences{Group: "*", Kind: "*", ManagedFieldsManagers: []string{"operator"}}
	one := v1alpha1.ResourceIgnoreDifferences{Kind: "ConfigMap", JSONPointers: []string{"/data/a"}}
	for name, got := range map[string]*customization.Settings{"together": together, "single": single} {
		if !reflect.DeepEqual(got.Health, wantHealth) {
			t.Errorf("%s: the health rules are %v", name, got.Health)
		}
		actions := got.Actions["ConfigMap"]
		if actions.Discovery != "return {fill = {}}" || !actions.MergeBuiltin || actions.Script("fill") != "return obj" || actions.Script("drain") != "" {
			t.Errorf("%s: the actions are %+v", name, got.Actions)
		}
		if len(got.IgnoreDifferences) != 2 || !contains(got, all) || !contains(got, one) {
			t.Errorf("%s: the rules of differences are %v", name, got.IgnoreDifferences)
		}
	}
	both := read(t, map[string]string{
		"resource.customizations":                             "ConfigMap: {health.lua: a, ignoreDifferences: '{jsonPointers: [/data/b]}'}",
		"resource.customizations.health.ConfigMap":            "b",
		"resource.customizations.ignoreDifferences.ConfigMap": "jsonPointers: [/data/a]",
		"resource.customizations.ignoreDifferences.Secret":    "jsonPointers: [/data/a]",
	})
	if both.Health["ConfigMap"] != "b" || len(both.IgnoreDifferences) != 2 || !contains(both, one) {
		t.Errorf("together they are %v, %v", both.Health, both.IgnoreDifferences)
	}
}

func contains(settings *customization.Settings, rule v1alpha1.ResourceIgnoreDifferences) bool {
	for _, one := range settings.IgnoreDifferences {
		if reflect.DeepEqual(one, rule) {
			return true
		}
	}
	return false
}

// TestProblems: what is malformed has no effect, and the rest has.
func TestProblems(t *testing.T) {
	got := customization.Read(map[string]string{
		"resource.customizations":                             "{",
		"resource.customizations.health.Pod":                  "x",
		"resource.customizations.wealth.Pod":                  "x",
		"resource.customizations.ignoreDifferences.Secret":    "jqPathExpressions: ['.a[']",
		"resource.customizations.ignoreDifferences.ConfigMap": "jsonPointers: [/data]",
		"resource.exclusions":                                 "[{apiGroups: ['[']}]",
		"resource.inclusions":                                 "x",
		"resource.compareoptions":                             "x",
	}, jq.New())
	if got.Health["Pod"] != "x" || len(got.IgnoreDifferences) != 1 {
		t.Errorf("the others are %v, %v", got.Health, got.IgnoreDifferences)
	}
	for _, want := range []string{
		"resource.customizations: ", "resource.customizations.wealth.Pod: ", "resource.customizations.ignoreDifferences.Secret: ",
		"resource.exclusions: ", "resource.inclusions: ", "resource.compareoptions: ",
	} {
		if !strings.Contains("\n"+strings.Join(got.Problems, "\n"), "\n"+want) {
			t.Errorf("no problem begins with %s: %q", want, got.Problems)
		}
	}
	unused := customization.Read(map[string]string{
		"resource.customizations": "batch/Job: {actions: '[', ignoreResourceUpdates: x, knownTypeFields: [{field: a, type: core/v1/Nothing}]}",
	}, jq.New())
	if len(unused.Problems) != 3 {
		t.Errorf("without an effect are %q", unused.Problems)
	}
}

// TestAggregatedRoles: the rules of a ClusterRole that a controller fills do not
// count.
func TestAggregatedRoles(t *testing.T) {
	settings := read(t, map[string]string{"resource.compareoptions": "ignoreAggregatedRoles: true\nignoreResourceStatusField: all\n"})
	ignore := must.Get(plan.NewIgnore(settings.IgnoreDifferences, jq.New()))(t)
	for given, want := range map[string]bool{
		`{"aggregationRule": {}, "rules": [{"verbs": ["get"]}]}`: false,
		`{"rules": [{"verbs": ["get"]}]}`:                        true,
	} {
		live, other := role(t, given), role(t, given)
		ignore.Strip(live, other)
		for _, stripped := range []*unstructured.Unstructured{live, other} {
			if _, left := stripped.Object["rules"]; left != want {
				t.Errorf("of %s is left %v", given, stripped.Object)
			}
		}
	}
	if none := read(t, map[string]string{"resource.compareoptions": "ignoreAggregatedRoles: false"}); len(none.IgnoreDifferences) > 0 {
		t.Errorf("there are rules: %v", none.IgnoreDifferences)
	}
}

// role is a ClusterRole with some fields.
func role(t *testing.T, fields string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must.Do(t, json.Unmarshal([]byte(fields), &object.Object))
	object.SetAPIVersion("rbac.authorization.k8s.io/v1")
	object.SetKind("ClusterRole")
	return object
}

// TestExcludes: Argo CD's table of inclusions and exclusions.
func TestExcludes(t *testing.T) {
	settings := read(t, map[string]string{
		"resource.exclusions": `
- apiGroups: ["*.example.com"]
  kinds: ["*"]
- apiGroups: [""]
  kinds: [Event]
- kinds: [Lease]
  clusters: ["https://far*"]
`,
		"resource.inclusions": `
- apiGroups: ["*"]
  kinds: [Deployment, Event]
  clusters: [https://one]
`})
	for _, row := range []struct {
		group, kind, server string
		want                bool
	}{
		{"shop.example.com", "Order", "https://home", true},
		{"example.org", "Order", "https://home", false},
		{"", "Event", "https://home", true},
		{"events.k8s.io", "Event", "https://home", false},
		{"coordination.k8s.io", "Lease", "https://far-away", true},
		{"coordination.k8s.io", "Lease", "https://home", false},
		{"apps", "Deployment", "https://one", false},
		{"apps", "StatefulSet", "https://one", true},
		{"", "Event", "https://one", true},
		{"apps", "StatefulSet", "https://home", false},
	} {
		if got := settings.Excludes(schema.GroupKind{Group: row.group, Kind: row.kind}, row.server); got != row.want {
			t.Errorf("%s/%s at %s: %t", row.group, row.kind, row.server, got)
		}
	}
	if (&customization.Settings{}).Excludes(schema.GroupKind{Kind: "Pod"}, "") {
		t.Error("a kind is excluded without settings")
	}
}
