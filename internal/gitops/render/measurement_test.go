package render_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/must"
)

// TestMeasurement: conditions are evaluated in a worker. One that takes too much time
// or memory costs that worker, and the next one is evaluated.
func TestMeasurement(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	request := evaluate.Request{Form: evaluate.JSON, Body: []byte(`{"value": 3}`), JSONPath: "{$.value}", SuccessCondition: "result < 5"}
	good := func() {
		t.Helper()
		if got := must.Get(renderer.Evaluate(t.Context(), "shop", request))(t); got.Phase != "Successful" || got.Value != "3" {
			t.Errorf("the result is %+v", got)
		}
	}
	good()
	for condition, reason := range map[string]string{
		`let r = 1..99999; all(r, all(r, all(r, # > 0)))`: "took longer than",
		doubling(40): "needs more than",
	} {
		broken := request
		broken.SuccessCondition = condition
		if got, err := renderer.Evaluate(t.Context(), "shop", broken); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s\nis %v, %v", condition, got, err)
		}
		good()
	}
}

// doubling is a condition with a text that doubles many times.
func doubling(times int) string {
	var text strings.Builder
	text.WriteString(`let a0 = repeat("x", 99999); `)
	name := "a0"
	for range times {
		text.WriteString("let " + name + "a = " + name + " + " + name + "; ")
		name += "a"
	}
	return text.String() + "len(" + name + ") > 0"
}
