package render_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/script"
	"slipway.dev/slipway/internal/must"
)

// TestScript: scripts of settings run in a worker. One that needs too much memory
// or time costs that worker, and the next one runs.
func TestScript(t *testing.T) {
	renderer := newRenderer(t, render.Options{Workers: 1})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := func(source string) (any, error) {
		return renderer.RunScript(t.Context(), source, script.Input{
			Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}, Parameters: map[string]string{"to": "5"}, Now: now,
		})
	}
	good := func() {
		t.Helper()
		got := must.Get(run(`return {status = "Healthy", count = obj.spec.replicas, to = actionParams.to, at = os.time()}`))(t)
		if want := map[string]any{"status": "Healthy", "count": int64(3), "to": "5", "at": now.Unix()}; !reflect.DeepEqual(got, want) {
			t.Errorf("the result is %#v", got)
		}
	}
	good()
	for _, source := range []string{
		`local s = "x" while true do s = s .. s end`,
		`local t = {} for i = 1, 30 do t[i] = {} t[i][60000000] = 1 end`,
		`return string.match(string.rep("a", 2000), ".-.-.-.-.-.-b")`,
	} {
		if got, err := run(source); !errors.Is(err, script.ErrExhausted) {
			t.Errorf("%s\nis %v, %v", source, got, err)
		}
		good()
	}
	for _, source := range []string{`while true do end`, `return {`, `error("no")`, `return function() end`} {
		if got, err := run(source); err == nil || errors.Is(err, script.ErrExhausted) {
			t.Errorf("%s\nis %v, %v", source, got, err)
		}
	}
	if got, err := run(`return nil`); got != nil || err != nil {
		t.Errorf("nothing is %v, %v", got, err)
	}
}
