package appcmd_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
)

const settingsV1 = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: green}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {key: first-key}
`

// TestAppEndToEnd: an Application from its first diff to a rollback, by commands
// alone, with a real agent, a real API server and a real Git server.
func TestAppEndToEnd(t *testing.T) {
	w := clitest.NewAppWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/settings.yaml": settingsV1})
	first := repository.Head(t)
	w.StartAgent(t)
	w.ManualApp(t, repository, "")
	flags := " --control-namespace " + w.TestNamespace

	got := w.App(t, "diff shop"+flags)
	if got.Code != 1 || strings.Contains(got.Stdout, "first-key") ||
		!strings.Contains(got.Stdout, "+  colour: green") || !strings.Contains(got.Stdout, "+  key: '[redacted]'") {
		t.Errorf("the first diff: %+v", got)
	}
	got = w.App(t, "sync shop --timeout 60s")
	if got.Code != 0 || !strings.Contains(got.Stdout, "is synced to "+first[:7]) || !strings.Contains(got.Stdout, "ConfigMap "+w.TestNamespace+"/settings") {
		t.Fatalf("the first sync: %+v", got)
	}
	if got := w.App(t, "wait shop --timeout 60s"); got.Code != 0 || !strings.Contains(got.Stdout, "is Synced, Healthy, at "+first[:7]) {
		t.Errorf("wait: %+v", got)
	}
	if got := w.App(t, "diff shop"+flags); got.Code != 0 || got.Stdout != "" {
		t.Errorf("a diff of what is synced: %+v", got)
	}

	second := repository.Commit(t, map[string]string{"deploy/settings.yaml": strings.ReplaceAll(strings.ReplaceAll(settingsV1, "green", "blue"), "first-key", "second-key")}, "blue")
	got = w.App(t, "diff shop"+flags)
	if got.Code != 1 || !strings.Contains(got.Stdout, "-  colour: green\n+  colour: blue\n") ||
		!strings.Contains(got.Stdout, "-  key: '[redacted]'\n+  key: '[redacted] (another value)'\n") || !strings.Contains(got.Stderr, "2 changed, 0 new, 0 no longer in Git") {
		t.Errorf("the second diff: %+v", got)
	}
	if got := w.App(t, "diff shop --revision "+first+flags); got.Code != 0 {
		t.Errorf("a diff with the first revision: %+v", got)
	}
	if got := w.App(t, "sync shop --timeout 60s"); got.Code != 0 || !strings.Contains(got.Stdout, "is synced to "+second[:7]) {
		t.Fatalf("the second sync: %+v", got)
	}
	if got := w.App(t, "history shop -o json"); strings.Count(got.Stdout, `"id"`) != 2 {
		t.Errorf("history: %+v", got)
	}
	if got := w.App(t, "rollback shop 0 --timeout 60s"); got.Code != 0 || !strings.Contains(got.Stdout, "is synced to "+first[:7]) {
		t.Errorf("rollback: %+v", got)
	}
	if got := w.App(t, "diff shop"+flags); got.Code != 1 || !strings.Contains(got.Stdout, "-  colour: green\n+  colour: blue\n") {
		t.Errorf("a diff after the rollback: %+v", got)
	}
	// With --revert Git has it as well.
	got = w.App(t, "rollback shop 0 --revert --timeout 60s"+flags)
	if head := repository.Head(t); got.Code != 0 || !strings.Contains(got.Stdout, "Committed "+head[:7]+" to the branch main of "+repository.URL()) || head == second {
		t.Errorf("rollback --revert: %+v", got)
	}
	if got := w.App(t, "diff shop"+flags); got.Code != 0 {
		t.Errorf("a diff after the commit: %+v", got)
	}
	if got := w.App(t, "rollback shop 0 --pr --timeout 60s"+flags); got.Code == 0 || !strings.Contains(got.Stderr, "the rollback is done, but Git is not changed: Git has the files of that sync already") {
		t.Errorf("rollback --pr without a change: %+v", got)
	}
}

// TestAgentTakesOver: when the leader is killed, the other agent becomes leader.
func TestAgentTakesOver(t *testing.T) {
	w := clitest.NewAppWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/settings.yaml": settingsV1})
	first := w.StartAgent(t)
	first.Log.WaitFor(t, "became leader")
	second := w.StartAgent(t)
	second.Log.WaitFor(t, "waiting for Lease")
	w.ManualApp(t, repository, "")
	first.Kill()
	second.Log.WaitFor(t, "became leader")
	if got := w.App(t, "sync shop --timeout 60s"); got.Code != 0 {
		t.Errorf("a sync by the second: %+v", got)
	}
}
