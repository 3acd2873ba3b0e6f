package reconcile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// watchDryRuns counts the dry runs and applies of ConfigMaps from now on.
func (w *world) watchDryRuns() func() (dry, applied int) {
	var mu sync.Mutex
	var dry, applied int
	w.meet(func(request *http.Request) error {
		if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/namespaces/"+w.target+"/configmaps/") {
			mu.Lock()
			defer mu.Unlock()
			if request.URL.Query().Has("dryRun") {
				dry++
			} else {
				applied++
			}
		}
		return nil
	})
	return func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return dry, applied
	}
}

// TestUpgradeWithoutDryRun: a commit that changes a value takes one request for the object, and
// the sync is recorded as any other. A change in the cluster still takes a dry run.
func TestUpgradeWithoutDryRun(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "1")})
	w.start()
	w.application("web", repository, "web", `{automated: {selfHeal: true}}`)
	w.synced("web", repository.Head(t))
	requests := w.watchDryRuns()
	repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "change")
	w.engine.Pushed(pushTo(repository))
	app := w.synced("web", repository.Head(t))
	if dry, applied := requests(); dry != 0 || applied != 1 {
		t.Errorf("it took %d dry runs and %d applies, want one apply", dry, applied)
	}
	state := app.Status.OperationState
	if w.valueOf("one") != "2" || state.Phase != v1alpha1.OperationSucceeded || state.SyncResult.Revision != repository.Head(t) || len(app.Status.History) != 2 {
		t.Errorf("one is %q, with %s", w.valueOf("one"), summaryOf(app))
	}
	// What was presumed for one commit is not presumed again.
	w.cluster.Apply(t, w.target, configMap("one", "3"))
	w.value("one", "2")
	if dry, _ := requests(); dry == 0 {
		t.Error("a change in the cluster was repaired without a dry run")
	}
}

// TestPresumedWithoutSync: where no sync starts, the API server decides what is OutOfSync.
func TestPresumedWithoutSync(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.project("closed", `syncWindows: [{kind: deny, schedule: "* * * * *", duration: 1h, applications: ["*"], manualSync: true}]`)
	w.start()
	w.applicationIn("closed", "web", repository, "web", automated)
	w.outOfSync("web")
	w.patch("web", `{"operation": {"sync": {}}}`)
	w.synced("web", repository.Head(t))
	requests := w.watchDryRuns()
	repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "change")
	w.engine.Pushed(pushTo(repository))
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncOutOfSync || app.Status.Sync.Revision != repository.Head(t) {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	if dry, applied := requests(); dry == 0 || applied != 0 || w.valueOf("one") != "1" {
		t.Errorf("after %d dry runs and %d applies it is %q, with %s", dry, applied, w.valueOf("one"), summaryOf(app))
	}
}

// TestPresumedAndIgnored: a commit that changes ignored fields alone starts no sync.
func TestPresumedAndIgnored(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.cluster.Apply(t, w.control, w.manifest("default", "web", repository, "web", automated)+
		"  ignoreDifferences: [{kind: ConfigMap, jsonPointers: [/data/value]}]\n")
	first := repository.Head(t)
	w.synced("web", first)
	repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "change")
	w.engine.Pushed(pushTo(repository))
	app := w.synced("web", repository.Head(t))
	if w.valueOf("one") != "1" || app.Status.OperationState.SyncResult.Revision != first {
		t.Errorf("it is %q, with %s", w.valueOf("one"), summaryOf(app))
	}
}

// TestPresumedAndRefused: what the API server refuses fails the sync, and is reported as before.
func TestPresumedAndRefused(t *testing.T) {
	w := newWorld(t)
	fixed := func(value string) string { return configMap("one", value) + "immutable: true\n" }
	repository := w.repository("shop", map[string]string{"web/one.yaml": fixed("1")})
	w.start()
	w.application("web", repository, "web", `{automated: {}, retry: {limit: 0}}`)
	w.synced("web", repository.Head(t))
	repository.Commit(t, map[string]string{"web/one.yaml": fixed("2")}, "change")
	w.engine.Pushed(pushTo(repository))
	app := w.operated("web", v1alpha1.OperationFailed)
	failed := slices.ContainsFunc(app.Status.OperationState.SyncResult.Resources, func(one v1alpha1.ResourceResult) bool {
		return one.Name == "one" && one.Status == v1alpha1.ResultSyncFailed && strings.Contains(one.Message, "immutable")
	})
	if !failed || w.valueOf("one") != "1" {
		t.Errorf("it is %q, with %+v", w.valueOf("one"), app.Status.OperationState.SyncResult.Resources)
	}
	w.outOfSync("web")
}
