package health

import (
	"io/fs"
	"path"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// upstreamCases is how many cases Argo CD's module has. A new version changes it.
const upstreamCases = 1127

// exceptions are cases whose result differs on purpose, with the reason.
var exceptions = map[string]string{
	"apiextensions.k8s.io/CustomResourceDefinition/testdata/crd-v1-terminating-timestamp-progressing.yaml": "Of checks the deletion before the rule, " +
		"as Argo CD's controller does",
}

// TestUpstreamCases runs the cases of Argo CD's module, as its own test does:
// without the check of the deletion, which comes before the rule. Scripts give
// its result word for word. Rules in Go give its status, with a message of ours.
func TestUpstreamCases(t *testing.T) {
	lists, err := fs.Glob(resource_customizations.Embedded, "*/*/health_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run, agreed, used := 0, 0, map[string]bool{}
	for _, list := range lists {
		var cases struct {
			Tests []struct {
				InputPath    string `json:"inputPath"`
				HealthStatus struct {
					Status  Code   `json:"status"`
					Message string `json:"message"`
				} `json:"healthStatus"`
			} `json:"tests"`
		}
		readUpstream(t, list, &cases)
		for _, one := range cases.Tests {
			run++
			name := path.Join(path.Dir(list), one.InputPath)
			input := &unstructured.Unstructured{}
			readUpstream(t, name, &input.Object)
			input.SetUID("") // cases are copies of one object with another status
			o := read(input)
			got := o.byRule(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), func(err error, _ func() *Status) *Status { return unknown("%s", err) })
			if got == nil {
				got = &Status{}
			}
			same := got.Code == one.HealthStatus.Status
			if ruleFor(o.kind.GroupKind()) == nil {
				same = same && got.Message == shortened(one.HealthStatus.Message)
			}
			switch reason := exceptions[name]; {
			case same:
				agreed++
			case reason != "":
				used[name] = true
			default:
				t.Errorf("%s\nis %s %q, want %s %q", name, got.Code, got.Message, one.HealthStatus.Status, one.HealthStatus.Message)
			}
		}
	}
	t.Logf("%d of %d cases of Argo CD have its result", agreed, run)
	if run != upstreamCases {
		t.Errorf("%d cases were run, want %d", run, upstreamCases)
	}
	for name := range exceptions {
		if !used[name] {
			t.Errorf("%s is no exception: it has Argo CD's result", name)
		}
	}
}

// The result of a script is kept for a version of an object: another version, an
// object without an identity, and a script that reads the clock are judged again.
func TestUpstreamResults(t *testing.T) {
	issuer := func(uid, version, apiVersion, status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cert-manager.io/" + apiVersion, "kind": "Issuer", "metadata": map[string]any{"name": "a", "uid": uid, "resourceVersion": version},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}},
		}}
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var rules *Rules
	for _, tt := range []struct {
		uid, version, apiVersion, status string
		want                             Code
	}{
		{"u1", "1", "v1", "True", v1alpha1.Healthy}, {"u1", "1", "v1", "False", v1alpha1.Healthy}, {"u1", "2", "v1", "False", v1alpha1.Degraded},
		{"u2", "1", "v1", "False", v1alpha1.Degraded}, {"u1", "1", "v1alpha2", "False", v1alpha1.Degraded},
		{"", "1", "v1", "True", v1alpha1.Healthy}, {"", "1", "v1", "False", v1alpha1.Degraded},
	} {
		if got := rules.Of(issuer(tt.uid, tt.version, tt.apiVersion, tt.status), now); got == nil || got.Code != tt.want {
			t.Errorf("%+v: it is %+v", tt, got)
		}
	}
	compiled, err := upstream().find(schema.GroupKind{Group: "apps.kruise.io", Kind: "AdvancedCronJob"}).compile()
	if err != nil || !compiled.timed {
		t.Errorf("a rule that reads the clock is kept: %+v, %v", compiled, err)
	}
}

// readUpstream reads a file of Argo CD's module.
func readUpstream(t *testing.T, name string, into any) {
	t.Helper()
	content, err := fs.ReadFile(resource_customizations.Embedded, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(name, err)
	}
}
