package v1beta1_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
)

// decode reads an object of any of the kinds.
func decode(object map[string]any) ([]refusal.Refusal, error) {
	var refused []refusal.Refusal
	var err error
	switch object["kind"] {
	case v1beta1.KindProduct:
		_, refused, err = v1beta1.DecodeProduct(object)
	case v1beta1.KindPromotionFlow:
		_, refused, err = v1beta1.DecodeFlow(object)
	case v1beta1.KindPromotionPolicy:
		_, refused, err = v1beta1.DecodePolicy(object)
	default:
		_, refused, err = v1beta1.DecodeTemplate(object)
	}
	return refused, err
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestDocumented: the examples of Codefresh's documentation are read, and what is not
// supported of them is refused by field.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("testdata/documented.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"global-parallel-flow": "spec.steps[0].hooks spec.hooks", "demo-policy": "spec.policy.preAction spec.policy.postAction",
		"older": "spec.triggerEnvironment spec.steps spec.properties",
	}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		object := parse(t, part)
		name := object["metadata"].(map[string]any)["name"].(string)
		refused, err := decode(object)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var fields []string
		for _, one := range refused {
			fields = append(fields, one.Field)
		}
		if got := strings.Join(fields, " "); got != want[name] {
			t.Errorf("%s: refused are %s, and not %s", name, got, want[name])
		}
	}
}

// TestContents: what was read is what was written.
func TestContents(t *testing.T) {
	product, refused, err := v1beta1.DecodeProduct(parse(t, `{apiVersion: codefresh.io/v1beta1, kind: Product, metadata: {name: a, namespace: b}, spec: {
  promotionTemplate: {promotion: {values.yaml: {jsonPaths: ["$.image.tag"]}}}, promotionFlows: [{name: f}]}}`))
	if err != nil || len(refused) > 0 || product.Name != "a" || product.Namespace != "b" || product.Spec.PromotionFlows[0].Name != "f" ||
		product.Spec.PromotionTemplate.Promotion["values.yaml"].JSONPaths[0] != "$.image.tag" {
		t.Errorf("%+v, %v, %v", product, refused, err)
	}
}

// TestStart: an annotation lets promotions begin by themselves, and a misspelt value is
// refused.
func TestStart(t *testing.T) {
	for value, want := range map[string]struct {
		automatic bool
		refused   int
	}{"automatic": {true, 0}, "manual": {false, 0}, "automatik": {true, 1}} {
		product, refused, err := v1beta1.DecodeProduct(parse(t, "{apiVersion: codefresh.io/v1beta1, kind: Product, metadata: {name: a, annotations: {slipway.dev/start: "+value+"}}, spec: {}}"))
		if err != nil || product.Automatic != want.automatic || len(refused) != want.refused {
			t.Errorf("%s: %t, %v, %v", value, product.Automatic, refused, err)
		}
	}
}

// TestRefused: mistakes are refused by field.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ kind, spec, field, message string }{
		{"Product", `{promotionFlow: []}`, "spec.promotionFlow", "did you mean promotionFlows?"},
		{"Product", `{concurrency: queue}`, "spec.concurrency", "wait for each other"},
		{"Product", `{promotionTemplate: {promotion: {a.yaml: {jsonPaths: []}}}}`, "spec.promotionTemplate.promotion.a.yaml.jsonPaths", "give 1 or more"},
		{"Product", `{promotionFlows: [{name: a, gitTriggerSelectors: [{key: author, operator: In, values: [x]}]}]}`, "spec.promotionFlows[0].gitTriggerSelectors[0].key", "commitMessage, gitRevision"},
		{"PromotionFlow", `{triggerEnvironment: dev, steps: []}`, "spec.steps", "give 1 or more"},
		{"PromotionFlow", `{triggerEnvironment: dev, steps: [{environment: qa, dependsOn: [dev], policy: {action: merge}}]}`, "spec.steps[0].policy.action", "commit, pr, none"},
		{"PromotionFlow", `{triggerEnvironment: dev, steps: [{environment: dev, dependsOn: [dev]}]}`, "spec.steps[0].environment", "twice"},
		{"PromotionFlow", `{triggerEnvironment: dev, steps: [{environment: qa, dependsOn: [stage]}]}`, "spec.steps[0].dependsOn[0]", `no environment "stage"`},
		{"PromotionFlow", `{triggerEnvironment: dev, steps: [{environment: a, dependsOn: [b]}, {environment: b, dependsOn: [a]}]}`, "spec.steps[0].dependsOn", "depends on itself"},
		{"PromotionFlow", `{triggerEnvironment: dev, postTrigger: x, steps: [{environment: qa, dependsOn: [dev]}]}`, "spec.postTrigger", "gates of the Environment"},
		{"PromotionPolicy", `{policy: {action: commit}}`, "spec.priority", "it is missing"},
		{"PromotionPolicy", `{priority: 1, policy: {}, selector: {product: {tags: [x]}}}`, "spec.selector.product.tags", "use names"},
		{"PromotionPolicy", `{priority: 1, policy: {}, selector: {targetEnvironment: {types: [TEST]}}}`, "spec.selector.targetEnvironment.types[0]", "PROD, NON_PROD"},
		{"PromotionTemplate", `{priority: 1, applicationSourceSelector: {matchExpressions: [{key: a, operator: In}]}}`, "spec.applicationSourceSelector", "values"},
		{"PromotionTemplate", `{priority: 1, applicationSourceSelector: {}, versionSource: {file: a}}`, "spec.versionSource.jsonPath", "it is missing"},
	} {
		refused, err := decode(parse(t, "{apiVersion: codefresh.io/v1beta1, kind: "+tt.kind+", metadata: {name: x}, spec: "+tt.spec+"}"))
		if err != nil || len(refused) == 0 || refused[0].Field != tt.field || !strings.Contains(refused[0].Message, tt.message) {
			t.Errorf("%s %s: %v, %v", tt.kind, tt.spec, refused, err)
		}
	}
	if _, err := decode(map[string]any{"kind": v1beta1.KindProduct, "apiVersion": "codefresh.io/v1beta2"}); err == nil {
		t.Error("another version is read")
	}
}

// TestDefinitions: every kind has a definition with a description of each field.
func TestDefinitions(t *testing.T) {
	text, err := v1beta1.CRDs()
	if err != nil || strings.Count(string(text), "kind: CustomResourceDefinition") != 4 {
		t.Errorf("%v:\n%s", err, text)
	}
}

func FuzzDecode(f *testing.F) {
	text, err := os.ReadFile("testdata/documented.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		f.Add(part)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if len(text) > 1<<16 || yaml.Unmarshal([]byte(text), &object) != nil {
			return
		}
		refused, _ := decode(object)
		for _, one := range refused {
			if one.Message == "" {
				t.Errorf("%s is refused without a reason", one.Field)
			}
		}
	})
}
