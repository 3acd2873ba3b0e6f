package evaluate_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
)

const vector = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.5"]},{"metric":{},"value":[1,"3"]}]}}`

// TestEvaluate: conditions, paths and responses mean what they do for Argo Rollouts.
func TestEvaluate(t *testing.T) {
	for _, c := range []struct {
		name, form, body, path, success, failure string
		phase, value, message                    string
	}{
		{name: "no condition", form: evaluate.Number, body: "4", phase: "Successful", value: "4"},
		{name: "success", form: evaluate.Number, body: "4", success: "result > 3", phase: "Successful", value: "4"},
		{name: "no success", form: evaluate.Number, body: "2", success: "result > 3", phase: "Failed", value: "2"},
		{name: "failure", form: evaluate.Number, body: "4", failure: "result > 3", phase: "Failed", value: "4"},
		{name: "no failure", form: evaluate.Number, body: "2", failure: "result > 3", phase: "Successful", value: "2"},
		{name: "both", form: evaluate.Number, body: "2", success: "result > 1", failure: "result > 1", phase: "Failed", value: "2"},
		{name: "neither", form: evaluate.Number, body: "2", success: "result > 3", failure: "result < 1", phase: "Inconclusive", value: "2"},
		{name: "NaN", form: evaluate.Number, body: "NaN", success: "isNaN(result)", phase: "Successful", value: "NaN"},
		{name: "Inf", form: evaluate.Number, body: "+Inf", success: "isInf(result)", phase: "Successful", value: "+Inf"},
		{name: "no bool", form: evaluate.Number, body: "1", success: "result", phase: "Error", message: `could not evaluate successCondition "result": expected bool, but got float64`},
		{name: "syntax", form: evaluate.Number, body: "1", failure: "result >", phase: "Error", message: `could not evaluate failureCondition "result >": unexpected token EOF`},
		{name: "path", form: evaluate.JSON, body: `{"a":[{"b":"7"}]}`, path: "{$.a[0].b}", success: "asInt(result) == 7 && asFloat(result) < 8", phase: "Successful", value: `"7"`},
		{name: "document", form: evaluate.JSON, body: `{"a":1}`, success: "result.a == 1", phase: "Successful", value: `{"a":1}`},
		{name: "null", form: evaluate.JSON, body: `null`, success: "default(result, 5) == 5 && isNil(result)", phase: "Successful", value: "null"},
		{name: "null member", form: evaluate.JSON, body: `{"a":null}`, path: "{$.a}", success: "result == nil", phase: "Successful", value: "null"},
		{name: "no JSON", form: evaluate.JSON, body: "ok", success: "false", phase: "Successful", value: "ok"},
		{name: "no such path", form: evaluate.JSON, body: `{"a":1}`, path: "{$.b}", phase: "Error", message: "Could not find JSONPath in body: b is not found"},
		{name: "bad path", form: evaluate.JSON, body: `{}`, path: "{$.b", phase: "Error", message: "unclosed action"},
		{name: "no number", form: evaluate.JSON, body: `"x"`, success: "asInt(result) > 1", phase: "Error", message: `could not evaluate successCondition "asInt(result) > 1": strconv.ParseInt: parsing "x": invalid syntax`},
		{name: "vector", form: evaluate.Prometheus, body: vector, success: "all(result, # > 0.1) && result[1] == 3", phase: "Successful", value: "[0.5,3]"},
		{
			name: "matrix", form: evaluate.Prometheus, success: "len(result) == 3", phase: "Successful", value: "[1,2,NaN]",
			body: `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"1"],[2,"2"]]},{"values":[[1,"NaN"]]}]}}`,
		},
		{name: "scalar", form: evaluate.Prometheus, body: `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, success: "result == 2", phase: "Successful", value: "2"},
		{
			name: "no samples", form: evaluate.Prometheus, body: `{"status":"success","data":{"resultType":"vector","result":[]}}`, success: "result[0] == 2",
			phase: "Error", message: `could not evaluate successCondition "result[0] == 2": metric result is nil or empty: no data returned from the metric provider`,
		},
		{name: "refused", form: evaluate.Prometheus, body: `{"status":"error","errorType":"bad_data","error":"parse error"}`, phase: "Error", message: "bad_data: parse error"},
		{name: "text", form: evaluate.Prometheus, body: `{"status":"success","data":{"resultType":"string","result":[1,"x"]}}`, phase: "Error", message: "Prometheus metric type not supported"},
	} {
		got := evaluate.Evaluate(evaluate.Request{Form: c.form, Body: []byte(c.body), JSONPath: c.path, SuccessCondition: c.success, FailureCondition: c.failure})
		if string(got.Phase) != c.phase || got.Value != c.value || !strings.HasPrefix(got.Message, c.message) || (c.message == "") != (got.Message == "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestTimes: the bounds of a range of time are expressions.
func TestTimes(t *testing.T) {
	got := evaluate.Evaluate(evaluate.Request{Form: evaluate.Times, Times: []string{`now() - duration("1h")`, "now()"}})
	if len(got.Times) != 2 || got.Times[1].Sub(got.Times[0]).Round(time.Minute) != time.Hour {
		t.Errorf("the times are %+v", got)
	}
	if got := evaluate.Evaluate(evaluate.Request{Form: evaluate.Times, Times: []string{"1 + 1"}}); got.Message != "expected time.Time, but got int" {
		t.Errorf("a number is %+v", got)
	}
}

// FuzzEvaluate: no response, path or condition panics. The time and memory that an
// expression takes are bounded by the worker that evaluates it.
func FuzzEvaluate(f *testing.F) {
	f.Add(evaluate.JSON, `{"a":[1,null]}`, "{$.a[*]}", "result > 1")
	f.Add(evaluate.Prometheus, vector, "", "result[0] < 1 || isNaN(result[1])")
	f.Add(evaluate.Number, "1", "{..}", `default(result, 1) == asInt("1")`)
	f.Fuzz(func(t *testing.T, form, body, path, condition string) {
		if len(condition) > 256 || len(path) > 256 || len(body) > 4096 {
			t.Skip("longer inputs take longer, and find no more")
		}
		got := evaluate.Evaluate(evaluate.Request{Form: form, Body: []byte(body), JSONPath: path, SuccessCondition: condition})
		if got.Phase == "" && form != evaluate.Times {
			t.Errorf("no phase: %+v", got)
		}
	})
}
