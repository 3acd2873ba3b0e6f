package jq_test

import (
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/must"
)

var _ plan.PathEvaluator = jq.New()

const deployment = `{
  "apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {"name": "web", "annotations": {"a.example.com/x": "1", "b": "2"}},
  "spec": {"replicas": 3, "paused": false, "template": {"spec": {
    "initContainers": [{"name": "injected-init-container"}, {"name": "own"}],
    "containers": [
      {"name": "web", "image": "a", "resources": {"requests": {"cpu": 0.5}}},
      {"name": "sidecar", "image": "b", "env": [{"name": "A", "value": "x"}, {"name": "B", "value": "z"}]}
    ]}}}
}`

// decode reads a document as the responses of the API server are read: whole
// numbers are int64.
func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	var document map[string]any
	must.Do(t, json.Unmarshal([]byte(text), &document))
	return document
}

// without removes what a path of names and numbers leads to.
func without(value any, path []string) any {
	if object, ok := value.(map[string]any); ok {
		if len(path) == 1 {
			delete(object, path[0])
		} else {
			object[path[0]] = without(object[path[0]], path[1:])
		}
		return object
	}
	list := value.([]any)
	at, _ := strconv.Atoi(path[0])
	if len(path) == 1 {
		return append(list[:at:at], list[at+1:]...)
	}
	list[at] = without(list[at], path[1:])
	return list
}

// TestDelete has the expressions of Argo CD's pages about differences, and what
// people write.
func TestDelete(t *testing.T) {
	const (
		pod        = "spec template spec "
		containers = pod + "containers "
	)
	evaluator := jq.New()
	for _, test := range []struct {
		expression string
		removed    []string
	}{
		{`.spec.replicas`, []string{"spec replicas"}},
		{`.spec.template.spec.initContainers[] | select(.name == "injected-init-container")`, []string{pod + "initContainers 0"}},
		{`.spec.template.spec.containers[0].image`, []string{containers + "0 image"}},
		{`.spec.template.spec.containers[].image`, []string{containers + "0 image", containers + "1 image"}},
		{`.spec.template.spec.containers[]?.env[]? | select(.name | test("^A$")).value`, []string{containers + "1 env 0 value"}},
		{`.metadata.annotations["b"]`, []string{"metadata annotations b"}},
		{`.metadata.annotations | keys[] as $k | select($k | startswith("a.example")) | .[$k]`, []string{"metadata annotations a.example.com/x"}},
		{`.metadata.annotations | (keys[] | select(startswith("a.example"))) as $k | .[$k]`, []string{"metadata annotations a.example.com/x"}},
		{`.metadata.annotations | .["a.example.com/x"], .b`, []string{"metadata annotations a.example.com/x", "metadata annotations b"}},
		{`.. | objects | select(has("cpu")) | .cpu`, []string{containers + "0 resources requests cpu"}},
		{`if .spec.replicas > 2 then .spec.paused else empty end`, []string{"spec paused"}},
		{`.spec.template.spec.containers[-1]`, []string{containers + "1"}},
		{`.spec.template.spec.containers | .[length - 1]`, []string{containers + "1"}},
		{`.spec.template.spec.containers | .[-2 + 1]`, []string{containers + "1"}},
		{`.spec.template.spec.containers[] | select(contains({name: "web"})) | .image`, []string{containers + "0 image"}},
		{`.spec.template.spec.containers[] | select(.name | IN("web", "x")) | .image`, []string{containers + "0 image"}},
		{`.spec.template.spec.containers[] | select(.name as $n | ["web", "x"] | index($n)) | .image`, []string{containers + "0 image"}},
		{`.spec.template.spec.containers[] | select(any(.env[]?; .name == "A")) | .image`, []string{containers + "1 image"}},
		{`recurse(.[]?) | select(type == "object" and .name == "own")`, []string{pod + "initContainers 1"}},
		{`getpath(["spec", "replicas"])`, []string{"spec replicas"}},
		{`limit(1; .spec.template.spec.containers[]) | .image`, []string{containers + "0 image"}},
		{`range(0; 2) as $i | .spec.template.spec.containers[$i].image`, []string{containers + "0 image", containers + "1 image"}},
		{`try .metadata.name.x catch empty`, nil},
		{`.nothing.there`, nil},
		{`empty`, nil},
	} {
		rest, err := evaluator.Delete(test.expression, decode(t, deployment))
		if err != nil {
			t.Errorf("%s: %v", test.expression, err)
			continue
		}
		want := any(decode(t, deployment))
		for _, path := range test.removed {
			want = without(want, strings.Fields(path))
		}
		if !reflect.DeepEqual(any(rest), want) {
			t.Errorf("%s gives\n%v, want\n%v", test.expression, rest, want)
		}
	}
}

// jq fails on what is not there, or is something else. Nothing is removed then.
func TestFails(t *testing.T) {
	for _, expression := range []string{`.metadata.name.x`, `.metadata.name[]`, `1`, `"a"`, `error("x")`, `.`} {
		rest, err := jq.New().Delete(expression, decode(t, deployment))
		if err == nil {
			t.Errorf("%s gives %v", expression, rest)
		}
	}
}

func TestRefused(t *testing.T) {
	evaluator := jq.New()
	for expression, part := range map[string]string{
		``:                            "empty",
		`.a[`:                         "cannot be read",
		`.a | nosuch`:                 "nosuch",
		`env.HOME`:                    "env",
		`$ENV.HOME`:                   "$ENV",
		`input`:                       "input",
		`inputs`:                      "inputs",
		`debug`:                       "debug",
		`stderr`:                      "stderr",
		`input_filename`:              "input_filename",
		`now`:                         "now",
		`halt`:                        "halt",
		`import "a" as a; .`:          "import",
		`include "a"; .`:              "import",
		`def f: f; f`:                 "def",
		`.a | def f: .; f`:            "def",
		`map(.)`:                      "map",
		`[.]`:                         "array",
		`{a: .}`:                      "object",
		`{a}`:                         "object",
		`[.[] | 1]`:                   "array",
		`"a\(.)"`:                     "text",
		`.["a\(.)"]`:                  "text",
		`@json`:                       "@json",
		`@base64 "a"`:                 "@base64",
		`"a" * 1000000000`:            "operator *",
		`. + .`:                       "operator +",
		`. / ""`:                      "operator /",
		`.a = 1`:                      "operator =",
		`.a |= .`:                     "operator |=",
		`.a += 1`:                     "operator +=",
		`reduce .[] as $x (0; .)`:     "reduce",
		`foreach .[] as $x (0; .)`:    "foreach",
		`label $f | break $f`:         "label",
		`tojson`:                      "tojson",
		`tostring`:                    "tostring",
		`setpath([1000000000]; 1)`:    "setpath",
		`gsub("a"; "aa")`:             "gsub",
		`split("")`:                   "split",
		`.a | select(.b | join("x"))`: "join",
		`. as {"a\(.)": $x} | .a`:     "pattern",
		strings.Repeat("(", 300) + `.` + strings.Repeat(")", 300): "nested",
		strings.Repeat(".a", 3000):                                "characters",
	} {
		err := evaluator.Check(expression)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.60s: %v, want %q in it", expression, err, part)
		}
		if _, failed := evaluator.Delete(expression, map[string]any{"a": int64(1)}); failed == nil {
			t.Errorf("%.60s is evaluated", expression)
		}
	}
}

// What never ends is ended, and does not need much memory until then.
func TestHostile(t *testing.T) {
	large := map[string]any{"list": make([]any, 2000)}
	for i := range large["list"].([]any) {
		large["list"].([]any)[i] = strings.Repeat("a", 100)
	}
	evaluator := jq.New()
	for _, expression := range []string{
		`range(1e12)`,
		`.list[range(1e12)]`,
		`repeat(.)`,
		`recurse(.)`,
		`recurse(., .)`,
		`until(false; .)`,
		`until(false; . + 1)`,
		`while(true; .)`,
		`limit(1e12; repeat(.list))`,
		`path(repeat(.))`,
		`.list[] | .. | ltrimstr("a") | until(. == ""; .)`,
		`[1,2,3] | until(false; to_entries)`,
		`.list as $l | .list[] | select($l[] as $a | $l[] as $b | $l[] as $c | $a == $b)`,
		`.list | keys | until(false; keys)`,
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, err := evaluator.Delete(expression, decode(t, `{"list": ["a", "b"]}`))
		_, errLarge := evaluator.Delete(expression, map[string]any{"list": append([]any(nil), large["list"].([]any)...)})
		runtime.ReadMemStats(&after)
		if err == nil && errLarge == nil {
			t.Errorf("%s ends", expression)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %s", expression, took)
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 512<<20 {
			t.Errorf("%s took %d MiB", expression, grown>>20)
		}
	}
}

// A step that does not end is waited for only so long, and not tried again. Its
// work grows with the square of the list, so that some list is too long for any
// machine.
func TestStuck(t *testing.T) {
	evaluator := jq.New()
	expression := `select(.list as $l | .list | contains($l | .[1:])) | .list`
	var err error
	for length := 30000; err == nil; length *= 2 {
		if length > 1<<20 {
			t.Fatal("a step is waited for without end")
		}
		list := make([]any, length)
		for i := range list {
			list[i] = strings.Repeat("a", 50) + strconv.Itoa(i)
		}
		_, err = evaluator.Delete(expression, map[string]any{"list": list})
	}
	if err := evaluator.Check(expression); err == nil {
		t.Error("it is tried again")
	}
	if _, err := evaluator.Delete(".a", map[string]any{"a": int64(1)}); err != nil {
		t.Errorf("another expression suffers: %v", err)
	}
}

// It is one for all Applications, and what it keeps is bounded.
func TestConcurrent(t *testing.T) {
	evaluator := jq.New()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 200 {
				name := "f" + strconv.Itoa((worker*31+i)%700)
				rest, err := evaluator.Delete("."+name, map[string]any{name: int64(1), "kept": int64(2)})
				if err != nil || !reflect.DeepEqual(rest, map[string]any{"kept": int64(2)}) {
					t.Errorf("%s: %v %v", name, rest, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func FuzzDelete(f *testing.F) {
	for _, seed := range []string{`.a`, `.a[] | select(.b == 1)`, `..`, `.a as [$x] | $x`, `-1`, `.a[1:2]`, `try error catch .`, `"\u0000"`} {
		f.Add(seed)
	}
	evaluator := jq.New()
	f.Fuzz(func(t *testing.T, expression string) {
		rest, err := evaluator.Delete(expression, map[string]any{"a": []any{map[string]any{"b": int64(1)}, "x", nil, 1.5, true}})
		if (rest == nil) == (err == nil) {
			t.Errorf("%q gives %v and %v", expression, rest, err)
		}
	})
}
