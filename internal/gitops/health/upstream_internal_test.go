package health

import (
	"io/fs"
	"path"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
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
