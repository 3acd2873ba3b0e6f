package health_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/script"
)

// runner runs scripts in this process and counts them. The script "exhausted"
// costs a worker, and "lost" has none.
type runner struct{ runs int }

func (r *runner) RunScript(_ context.Context, source string, given script.Input) (any, error) {
	r.runs++
	switch source {
	case "exhausted":
		return nil, script.ErrExhausted
	case "lost":
		return nil, errors.New("no worker")
	}
	compiled, err := script.Compile("test", source)
	if err != nil {
		return nil, err
	}
	return compiled.Run(given)
}

// TestSettingsRules: scripts of settings come before the built-in rules, exact
// keys before patterns, and each version of an object is judged once.
func TestSettingsRules(t *testing.T) {
	scripts := &runner{}
	rules := health.NewRules(scripts)
	pod := parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: a, uid: u, resourceVersion: "1"}, status: {phase: Pending}}`)
	want := func(code health.Code, message string, runs int) {
		t.Helper()
		got := rules.Of(pod, noon)
		if got == nil {
			got = &health.Status{Code: none}
		}
		if got.Code != code || got.Message != message || scripts.runs != runs {
			t.Errorf("it is %s %q after %d runs, want %s %q after %d", got.Code, got.Message, scripts.runs, code, message, runs)
		}
	}
	want(progressing, "", 0)
	rules.Set(map[string]string{"Pod": `return {status = "Suspended", message = obj.metadata.name}`, "*": `return {status = "Healthy"}`})
	want(suspended, "a", 1)
	want(suspended, "a", 1)
	pod.SetResourceVersion("2")
	want(suspended, "a", 2)
	rules.Set(map[string]string{"*": `return {status = "Healthy"}`, "apps/*": `return {status = "Degraded"}`})
	want(healthy, "", 3)
	rules.Set(map[string]string{"*": `return {status = "Fine"}`})
	want(unknown, "the health rule returned an invalid status", 4)
	rules.Set(map[string]string{"*": `return {}`})
	want(none, "", 5)
	want(none, "", 5)
	// A failure may end; a script that costs workers is not run again.
	rules.Set(map[string]string{"Pod": "lost"})
	want(unknown, "the health rule failed: no worker", 6)
	want(unknown, "the health rule failed: no worker", 7)
	rules.Set(map[string]string{"Pod": "exhausted"})
	want(unknown, "the health rule failed: the script exceeds its limits", 8)
	want(unknown, "the health rule failed: it does not run for 10m0s, or until argocd-cm changes: the script exceeds its limits", 8)
	rules.Of(pod, noon.Add(10*time.Minute))
	want(unknown, "the health rule failed: it does not run for 10m0s, or until argocd-cm changes: the script exceeds its limits", 9)
	// A sync goes on with the next rule.
	for _, source := range []string{"exhausted", "lost", `return {status = "Fine"}`, `return "x"`} {
		rules.Set(map[string]string{"Pod": source})
		if got := rules.ForSync(pod, noon); got.Code != progressing {
			t.Errorf("%s: a sync sees %s %s", source, got.Code, got.Message)
		}
	}
	rules.Set(map[string]string{"Pod": `return {status = "Suspended"}`})
	if got := rules.ForSync(pod, noon); got.Code != suspended {
		t.Errorf("a sync does not see the rule of the settings: %s %s", got.Code, got.Message)
	}
	scripts.runs = 9
	rules.Set(nil)
	want(progressing, "", 9)
	// The deletion comes first.
	rules.Set(map[string]string{"*": `return {status = "Healthy"}`})
	pod.Object["metadata"].(map[string]any)["deletionTimestamp"] = noon.Format(time.RFC3339)
	want(progressing, "Pending deletion", 9)
}
