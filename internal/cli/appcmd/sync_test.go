package appcmd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestAppSyncChoices: a dry run changes nothing, --resource syncs one object,
// and --prune deletes what left Git.
func TestAppSyncChoices(t *testing.T) {
	w := clitest.NewAppWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{
		"deploy/one.yaml": clitest.ConfigMap("one", "1"), "deploy/two.yaml": clitest.ConfigMap("two", "1"),
	})
	w.StartAgent(t)
	w.ManualApp(t, repository, "")
	steps := []struct {
		name, line string
		one, two   bool
	}{
		{"dry run", "sync shop --dry-run --timeout 60s", false, false},
		{"one object", "sync shop --resource :ConfigMap:one --timeout 60s", true, false},
		{"all but one", "sync shop --resource !:ConfigMap:one --timeout 60s", true, true},
	}
	for _, step := range steps {
		if got := w.App(t, step.line); got.Code != 0 {
			t.Fatalf("%s: %+v", step.name, got)
		}
		if one, two := w.Has(t, "one"), w.Has(t, "two"); one != step.one || two != step.two {
			t.Errorf("%s: one is there: %t, two is there: %t", step.name, one, two)
		}
	}
	repository.Delete(t, "deploy/two.yaml")
	if got := w.App(t, "sync shop --timeout 60s"); got.Code != 0 || !w.Has(t, "two") {
		t.Errorf("without --prune: %+v", got)
	}
	if got := w.App(t, "diff shop --control-namespace "+w.TestNamespace); got.Code != 1 || !strings.Contains(got.Stdout, "+++ git/ConfigMap "+w.TestNamespace+"/two (not there)") {
		t.Errorf("a diff of what left Git: %+v", got)
	}
	if got := w.App(t, "sync shop --prune --timeout 60s"); got.Code != 0 || !strings.Contains(got.Stdout, "Pruned") {
		t.Errorf("with --prune: %+v", got)
	}
	// It is deleted in the foreground: the cluster's garbage collector has the last
	// word.
	kubetest.WaitFor(t, w.Client.CoreV1().ConfigMaps(w.TestNamespace), kube.Named("two"), clitest.AppTimeout, func(found []*corev1.ConfigMap) error {
		if len(found) > 0 {
			return errors.New("it is still there")
		}
		return nil
	})
}

// TestAppSyncFails: the command exits with an error, and prints the object and its error.
func TestAppSyncFails(t *testing.T) {
	w := clitest.NewAppWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{
		"deploy/bad.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: 99999}]}\n",
	})
	w.StartAgent(t)
	w.ManualApp(t, repository, "")
	got := w.App(t, "sync shop --timeout 60s")
	if got.Code != 1 || !strings.Contains(got.Stdout, "Service "+w.TestNamespace+"/bad") || !strings.Contains(got.Stdout, "SyncFailed") ||
		!strings.Contains(got.Stderr, "Failed") {
		t.Errorf("got %+v", got)
	}
}

// endlessHook is a Job that never ends: nothing runs its image.
const endlessHook = `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {argocd.argoproj.io/hook: PreSync}}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {no-such-node: "true"}
      containers: [{name: migrate, image: slipway.dev/demo:v1}]
`

// TestAppSyncWaitsAndEnds: a sync prints what it waits for, another is refused
// meanwhile, and terminate ends it.
func TestAppSyncWaitsAndEnds(t *testing.T) {
	w := clitest.NewAppWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/hook.yaml": endlessHook, "deploy/one.yaml": clitest.ConfigMap("one", "1")})
	w.StartAgent(t)
	w.ManualApp(t, repository, "")
	if got := w.App(t, "sync shop --async"); got.Code != 0 || !strings.Contains(got.Stdout, "A sync of") {
		t.Fatalf("--async: %+v", got)
	}
	w.Await(t, "shop", func(app *unstructured.Unstructured) error {
		if phase, _, _ := unstructured.NestedString(app.Object, "status", "operationState", "phase"); phase != "Running" {
			return fmt.Errorf("the operation is %q, and not Running", phase)
		}
		return nil
	})
	if got := w.App(t, "sync shop"); got.Code != 1 || !strings.Contains(got.Stderr, "another operation of") || !strings.Contains(got.Stderr, "slipway app terminate") {
		t.Errorf("a second sync: %+v", got)
	}
	if got := w.App(t, "wait shop --operation --timeout 1s"); got.Code != 1 || !strings.Contains(got.Stderr, "is not there after 1s") || !strings.Contains(got.Stderr, "migrate") {
		t.Errorf("a wait that is too short: %+v", got)
	}
	if got := w.App(t, "terminate shop"); got.Code != 0 {
		t.Errorf("terminate: %+v", got)
	}
	if got := w.App(t, "wait shop --operation --timeout 60s"); got.Code != 0 {
		t.Errorf("wait: %+v", got)
	}
	if got := w.App(t, "get shop"); !strings.Contains(got.Stdout, "Failed") || w.Has(t, "one") {
		t.Errorf("after the end: %+v", got)
	}
}

// TestAppWait: a wait follows the status, and Ctrl-C ends it.
func TestAppWait(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, shopApp)
	got := w.App(t, "wait shop --health --timeout 1s")
	if got.Code != 1 || !strings.Contains(got.Stderr, "waiting: health: Progressing: Deployment web: 1 of 2 replicas are ready\n") {
		t.Errorf("it is not healthy: %+v", got)
	}
	if got := w.App(t, "wait shop --operation --timeout 60s"); got.Code != 0 {
		t.Errorf("no operation runs: %+v", got)
	}
	done := make(chan clitest.Result, 1)
	go func() { done <- w.App(t, "wait shop --health --sync --timeout 60s") }()
	w.Patch(t, "shop", map[string]any{"status": map[string]any{
		"health": map[string]any{"status": "Healthy", "message": nil}, "sync": map[string]any{"status": "Synced"},
	}})
	if got := <-done; got.Code != 0 || w.Shown(got.Stdout) != "NAMESPACE/shop is Synced, Healthy, at aaaa111\n" {
		t.Errorf("it became healthy: %+v", got)
	}
	w.Patch(t, "shop", map[string]any{"operation": map[string]any{"sync": map[string]any{}}})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if got := w.AppContext(t, ctx, "wait shop --operation"); got.Code != 1 {
		t.Errorf("it was interrupted: %+v", got)
	}
}
