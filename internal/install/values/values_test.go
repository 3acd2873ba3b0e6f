package values_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/must"
)

func charts() []values.Catalogue { return []values.Catalogue{values.Runtime(), values.Platform()} }

// TestDeclarations: keys are there once, everything is explained, and rules can be
// kept by their own defaults.
func TestDeclarations(t *testing.T) {
	for _, chart := range charts() {
		seen := map[string]bool{}
		for _, value := range chart.Values {
			if seen[value.Key] || value.Alias != "" && seen[value.Alias] {
				t.Errorf("%s is there twice", value.Key)
			}
			seen[value.Key], seen[value.Alias] = true, true
			if !strings.HasSuffix(value.About, ".") {
				t.Errorf("%s: %q is no sentence", value.Key, value.About)
			}
			if value.Kind == values.Count && value.Rule.Most == 0 {
				t.Errorf("%s has no bounds", value.Key)
			}
		}
		if problems := values.New(chart, chart.Defaults()).Check(); len(problems) > 0 {
			t.Errorf("%s: the defaults are wrong: %v", chart.Chart, problems)
		}
	}
}

// TestFileIsTheDefaults: R55: values.yaml has every default, and nothing else.
func TestFileIsTheDefaults(t *testing.T) {
	for _, chart := range charts() {
		text, err := chart.File()
		must.Do(t, err)
		got := map[string]any{}
		must.Do(t, yaml.UnmarshalStrict(text, &got))
		// Unset groups are empty in the file.
		if unset, ok := got["tunnel-client"].(map[string]any); ok && len(unset) == 0 {
			delete(got, "tunnel-client")
		}
		want := map[string]any{}
		encoded, err := json.Marshal(chart.Defaults())
		must.Do(t, err)
		must.Do(t, json.Unmarshal(encoded, &want))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the file has\n%v\nthe defaults are\n%v", chart.Chart, got, want)
		}
	}
}

// TestSchemaAgrees: what the schema refuses the reader refuses, and the other way
// round.
func TestSchemaAgrees(t *testing.T) {
	chart := values.Runtime()
	schema, err := chart.Schema()
	must.Do(t, err)
	for _, text := range []string{
		"{}", "global: {}", "global: {anything: {of: others}}", "global: {runtime: {name: prod}}", "global: {runtime: {name: Prod}}", "global: {runtime: {name: ''}}",
		"global: {runtime: {other: 1}}", "global: {codefresh: {accountId: '5f1e2d3c4b5a69788796a5b4'}}", "global: {codefresh: {accountId: x}}", "global: {codefresh: {other: x}}",
		"tunnel-client: {enabled: false}", "tunnel-client: {enabled: 'no'}", "tunnel-client: {}", "agent: {replicas: 2}", "agent: {replicas: 2.5}", "agent: {replicas: '2'}", "agent: {replicas: 11}",
		"global: {runtime: {ingress: {hosts: [a]}}}", "global: {runtime: {ingress: {hosts: a}}}", "global: {runtime: {ingress: {hosts: [1]}}}", "global: {runtime: {ingress: {tls: [1]}}}",
		"global: {runtime: {ingress: {tls: [{hosts: [a]}]}}}", "global: {runtime: {ingress: {annotations: {a: b}}}}", "global: {runtime: {ingress: {annotations: {a: 1}}}}",
		"global: {runtime: {ingress: {protocol: ftp}}}", "global: {runtime: {ingress: true}}", "argo-cd: {any: thing}", "argo-cd: text", "edge: {resources: {limits: {cpu: 1}}}", "edge: {resources: 5}", "unknown: 1",
		"image: {digest: 'sha256:0'}", "agent: {cache: {sizeLimit: 8Gi}}", "agent: {cache: {sizeLimit: lots}}", "global: {platform: {url: 'https://a.example.com'}}", "global: {platform: {url: 'https://a@b'}}",
	} {
		given := map[string]any{}
		must.Do(t, yaml.Unmarshal([]byte(text), &given))
		refused := util.ValidateAgainstSingleSchema(given, schema)
		problems := slices.DeleteFunc(values.New(chart, given).Check(), func(f finding.Finding) bool { return f.Severity == finding.Warning })
		if (refused == nil) != (len(problems) == 0) {
			t.Errorf("%s: the schema says %v, the reader %v", text, refused, problems)
		}
	}
}

// TestAlias: an alias is read, the own key goes first, and defaults do not count.
func TestAlias(t *testing.T) {
	read := func(text string) values.Document {
		document, problems := values.Read(values.Runtime(), strings.NewReader(text))
		if len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
		}
		return document
	}
	for text, want := range map[string]string{
		"global: {codefresh: {userToken: {secretKeyRef: {key: mine}}}}": "mine",
		// As a hook sees it: with the defaults beside it.
		"global: {codefresh: {userToken: {secretKeyRef: {key: mine}}}, platform: {userToken: {secretKeyRef: {key: token}}}}": "mine",
		"global: {platform: {userToken: {secretKeyRef: {key: mine}}}}":                                                       "mine",
		"{}": "token",
	} {
		if got := read(text).Text(values.KeyTokenRefKey); got != want {
			t.Errorf("%s gives %s", text, got)
		}
	}
}

// TestSuggestions: a mistyped key is reported with the key that was meant.
func TestSuggestions(t *testing.T) {
	_, problems := values.Read(values.Runtime(), strings.NewReader("global: {runtime: {ingres: {}, ingressURL: x}}"))
	fixes := map[string]string{}
	for _, problem := range problems {
		fixes[problem.Subject] = problem.Fix
	}
	want := map[string]string{"global.runtime.ingres": "did you mean ingress?", "global.runtime.ingressURL": "did you mean ingressUrl?"}
	if !maps.Equal(fixes, want) {
		t.Errorf("found %v", fixes)
	}
}

// TestUnreadable: what is no values file is one problem, without its text.
func TestUnreadable(t *testing.T) {
	for _, text := range []string{"a: [", "- a", "text", "a: 1\na: 2", strings.Repeat("#", values.MaxBytes+1), "a: {token: 's3cr3t}"} {
		_, problems := values.Read(values.Runtime(), strings.NewReader(text))
		if len(problems) != 1 || problems[0].Code != values.CodeUnreadable || strings.Contains(problems[0].Message, "s3cr3t") {
			t.Errorf("%.40q: %v", text, problems)
		}
	}
}

// FuzzRead: whatever the text is, it is read without a crash, everything that is
// wrong has a reason and a fix, and a good document gives what was written.
func FuzzRead(f *testing.F) {
	f.Add("global: {runtime: {name: prod}}")
	f.Add("agent: {replicas: 1e3}")
	f.Add("a: &a [*a]")
	f.Add("global: {codefresh: {accountId: x}, platform: {accountId: y}}")
	catalogue := values.Runtime()
	f.Fuzz(func(t *testing.T, text string) {
		document, problems := values.Read(catalogue, strings.NewReader(text))
		for _, problem := range problems {
			if problem.Code == "" || problem.Message == "" || problem.Fix == "" {
				t.Errorf("an incomplete problem: %+v", problem)
			}
		}
		if len(problems) > 0 {
			return
		}
		name := document.Text(values.KeyRuntimeName)
		if name == "" || strings.ToLower(name) != name {
			t.Errorf("the name %q is taken", name)
		}
		_ = document.FlagIfSet("tunnel-client.enabled")
		_ = document.Texts("global.runtime.ingress.hosts")
	})
}
