package inspect_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/must"
)

// object reads a manifest; nil for nothing.
func object(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	if manifest == "" {
		return nil
	}
	content := map[string]any{}
	must.Do(t, yaml.Unmarshal([]byte(manifest), &content))
	return &unstructured.Unstructured{Object: content}
}

// text is an object for comparison.
func text(t testing.TB, object *unstructured.Unstructured) string {
	t.Helper()
	if object == nil {
		return ""
	}
	content := must.Get(yaml.Marshal(object.Object))(t)
	return string(content)
}

const secretHead = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\n"

// TestMaskedPair: what can be seen of two states of an object.
func TestMaskedPair(t *testing.T) {
	for _, c := range []struct {
		name, before, after   string
		wantBefore, wantAfter string
	}{
		{name: "no Secret stays as it is", before: "kind: ConfigMap\ndata: {a: b}\n", wantBefore: "data:\n  a: b\n"},
		{
			name:   "a value that changes",
			before: secretHead + "data: {a: b25l, b: dHdv}\n", after: secretHead + "data: {a: b25l, b: dGhyZWU=}\n",
			wantBefore: "data:\n  a: '[redacted]'\n  b: '[redacted]'\n", wantAfter: "data:\n  a: '[redacted]'\n  b: '[redacted] (another value)'\n",
		},
		{
			name:   "a value that comes and one that goes",
			before: secretHead + "data: {a: b25l}\n", after: secretHead + "data: {b: b25l}\n",
			wantBefore: "data:\n  a: '[redacted]'\n", wantAfter: "data:\n  b: '[redacted]'\n",
		},
		{
			name:   "clear text in Git is compared with what is stored",
			before: secretHead + "data: {a: b25l, b: dHdv}\n", after: secretHead + "stringData: {a: one, b: other}\n",
			wantBefore: "data:\n  a: '[redacted]'\n  b: '[redacted]'\n", wantAfter: "data:\n  a: '[redacted]'\n  b: '[redacted] (another value)'\n",
		},
		{name: "clear text alone", after: secretHead + "stringData: {a: one}\n", wantAfter: "stringData:\n  a: '[redacted]'\n"},
		{name: "what is no map", before: secretHead + "data: one\nstringData: [one]\n", wantBefore: "kind: Secret\n"},
		{name: "values that cannot be compared", before: secretHead + "data: {a: [one]}\n", after: secretHead + "data: {a: [one]}\n",
			wantBefore: "a: '[redacted]'\n", wantAfter: "a: '[redacted] (another value)'\n"},
		{
			name:       "the copy of kubectl",
			before:     "apiVersion: v1\nkind: Secret\nmetadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: 'one', other: x}}\n",
			wantBefore: "annotations:\n    other: '[redacted]'\n",
		},
		{
			name:       "copies that other tools keep",
			before:     "apiVersion: v1\nkind: Secret\nmetadata: {annotations: {argocd.argoproj.io/sync-wave: '1', copy: one, same: one}}\n",
			after:      "apiVersion: v1\nkind: Secret\nmetadata: {annotations: {argocd.argoproj.io/sync-wave: '2', copy: one more, same: one, new: one}}\n",
			wantBefore: "annotations:\n    argocd.argoproj.io/sync-wave: \"1\"\n    copy: '[redacted]'\n    same: '[redacted]'\n",
			wantAfter:  "annotations:\n    argocd.argoproj.io/sync-wave: \"2\"\n    copy: '[redacted] (another value)'\n    new: '[redacted]'\n    same: '[redacted]'\n",
		},
		{name: "annotations that are no map", before: "apiVersion: v1\nkind: Secret\nmetadata: {annotations: one}\n", wantBefore: "metadata: {}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := object(t, c.before), object(t, c.after)
			before, after := inspect.MaskedPair(first, second)
			if got := text(t, before); !strings.Contains(got, c.wantBefore) || (before == nil) != (first == nil) {
				t.Errorf("before is\n%s", got)
			}
			if got := text(t, after); !strings.Contains(got, c.wantAfter) || (after == nil) != (second == nil) {
				t.Errorf("after is\n%s", got)
			}
			if both := text(t, before) + text(t, after); strings.Contains(both, "Secret") && (strings.Contains(both, "one") || strings.Contains(both, "b25l")) {
				t.Errorf("a value is shown:\n%s", both)
			}
			if text(t, first) != text(t, object(t, c.before)) {
				t.Error("the object itself was changed")
			}
		})
	}
}

// TestShownApplication: credentials in addresses are not shown, wherever they are.
func TestShownApplication(t *testing.T) {
	app, err := inspect.Decode(object(t, `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd, managedFields: [{manager: kubectl}]}
spec:
  source: {repoURL: "https://ada:canary@git.example/shop.git", path: .}
  destination: {namespace: shop}
operation: {sync: {sources: [{repoURL: "https://canary@git.example/shop.git"}, {repoURL: "https://canary:x-oauth-basic@git.example/a"}]}}
status:
  history: [{id: 0, deployedAt: "2030-01-01T00:00:00Z", source: {repoURL: "https://ada:canary@git.example/shop.git"}}]
  sync: {comparedTo: {sources: [{repoURL: "https://git.example/b?private_token=canary"}, {repoURL: "canary:x-oauth-basic@git.example/c"}, {repoURL: "git@git.example:d.git"}]}}
`))
	must.Do(t, err)
	shown := text(t, inspect.ShownApplication(app))
	if strings.Contains(shown, "canary") || strings.Contains(shown, "ada:") || strings.Contains(shown, "managedFields") {
		t.Errorf("it is shown as\n%s", shown)
	}
	for _, want := range []string{"https://git.example/shop.git", "https://git.example/a", "https://git.example/b", "git@git.example:d.git"} {
		if !strings.Contains(shown, "repoURL: "+want+"\n") {
			t.Errorf("%s is missing in\n%s", want, shown)
		}
	}
}

// FuzzMasked: whatever a Secret is, its values are not in what is shown.
func FuzzMasked(f *testing.F) {
	f.Add([]byte(`{"data":{"a":"canary"}}`), []byte(`{"stringData":{"a":"canary"}}`))
	f.Add([]byte(`{"data":"canary","metadata":{"annotations":["canary"]}}`), []byte(`{}`))
	f.Add([]byte(`{"data":{"a":{"b":["canary"]}}}`), []byte(`{"data":null}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var states []*unstructured.Unstructured
		for _, raw := range [][]byte{first, second} {
			content := map[string]any{}
			if json.Unmarshal(raw, &content) != nil || content == nil {
				return
			}
			kept := map[string]any{"apiVersion": "v1", "kind": "Secret"}
			for _, field := range []string{"data", "stringData"} {
				if value, ok := content[field]; ok {
					kept[field] = value
				}
			}
			states = append(states, &unstructured.Unstructured{Object: kept})
		}
		before, after := inspect.MaskedPair(states[0], states[1])
		alone, _ := inspect.MaskedPair(states[0], nil)
		for _, shown := range []*unstructured.Unstructured{before, after, alone} {
			for _, field := range []string{"data", "stringData"} {
				values, _ := shown.Object[field].(map[string]any)
				for key, value := range values {
					if value != "[redacted]" && value != "[redacted] (another value)" {
						t.Errorf("%s of %s shows %v", key, field, value)
					}
				}
				if _, other := shown.Object[field].(string); other {
					t.Errorf("%s is shown", field)
				}
			}
		}
	})
}
