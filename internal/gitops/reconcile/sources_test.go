package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
)

// tenant is a world with a project that may read one repository, with an
// Application in it that was synced once, and with a repository of others.
func tenant(t *testing.T, more string) (w *world, own, other *gittest.Repository) {
	t.Helper()
	w = newWorld(t)
	own = w.repository("own", map[string]string{"web/one.yaml": configMap("one", "1")})
	other = w.repository("other", map[string]string{"web/stolen.yaml": configMap("stolen", "1")})
	w.cluster.Apply(t, w.control, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team}
spec:
  sourceRepos: [%q]
  destinations: [{server: "*", namespace: "*"}]
  %s
`, own.URL(), more))
	w.start()
	w.applicationIn("team", "web", own, "web", "")
	w.outOfSync("web")
	return w, own, other
}

// untouched fails when something was read of a repository or applied from it.
func (w *world) untouched() {
	w.t.Helper()
	for _, request := range w.git.Requests() {
		if strings.Contains(request, "/other.git/") {
			w.t.Errorf("the server was asked %s", request)
		}
	}
	if w.exists("stolen") {
		w.t.Error("what the project does not allow was applied")
	}
}

// An operation names another repository than the spec: it is checked like the
// spec, and neither fetched nor retried. The condition stays until the next
// operation.
func TestOperationOfForbiddenSource(t *testing.T) {
	w, _, other := tenant(t, "")
	for _, sources := range []string{
		fmt.Sprintf(`"source": {"repoURL": %q, "path": "web"}`, other.URL()),
		fmt.Sprintf(`"sources": [{"repoURL": %q, "path": "web"}], "revisions": ["main"]`, other.URL()),
		fmt.Sprintf(`"source": {"repoURL": %q, "path": "web"}, "revision": %q`, other.URL(), other.Head(t)),
	} {
		w.patch("web", fmt.Sprintf(`{"operation": {"sync": {%s}, "retry": {"limit": 5}}}`, sources))
		w.operated("web", v1alpha1.OperationError)
		app := w.condition("web", v1alpha1.ConditionSyncError, "sourceRepos")
		state := app.Status.OperationState
		if !strings.Contains(state.Message, "does not allow the repository "+other.URL()) || state.RetryCount > 0 {
			t.Errorf("the operation ends with %q, retries %d", state.Message, state.RetryCount)
		}
		w.refresh("web")
		w.wait("web", func(app *v1alpha1.Application) error {
			if app.Annotations["argocd.argoproj.io/refresh"] != "" {
				return fmt.Errorf("it was not refreshed")
			}
			return nil
		})
		w.condition("web", v1alpha1.ConditionSyncError, "sourceRepos")
	}
	w.untouched()
	w.patch("web", `{"operation": {"sync": {}}}`)
	if app := w.operated("web", v1alpha1.OperationSucceeded); len(app.Status.Conditions) > 0 {
		t.Errorf("the conditions are %+v after a proper sync", app.Status.Conditions)
	}
	w.value("one", "1")
}

// A credential in the source of an operation is refused, and not shown.
func TestOperationWithPassword(t *testing.T) {
	w, own, _ := tenant(t, "")
	for _, address := range []string{strings.Replace(own.URL(), "://", "://user:canary@", 1), own.URL() + "?private_token=canary"} {
		w.patch("web", fmt.Sprintf(`{"operation": {"sync": {"source": {"repoURL": %q, "path": "web"}}}}`, address))
		app := w.operated("web", v1alpha1.OperationError)
		if text := summaryOf(app); strings.Contains(text, "canary") || !strings.Contains(text, "Secret") {
			t.Errorf("the Application is %s", text)
		}
	}
	if w.exists("one") {
		t.Error("it was synced")
	}
}

// forged is a status of an operation that seems to run. The time is where a
// client can write what it likes.
func forged(repoURL, revision, more string, started time.Time) string {
	return fmt.Sprintf(`{"status": {"operationState": {"phase": "Running", "message": "", "startedAt": %q, "operation": {"sync": {%s}},
		"syncResult": {"revision": %q, "source": {"repoURL": %q, "path": "web"}, "resources": []}}}}`,
		started.UTC().Format(time.RFC3339), more, revision, repoURL)
}

// The status names another repository in an operation that seems to run: it is
// checked like the spec, while the process runs and at its start.
func TestForgedOperationState(t *testing.T) {
	w, _, other := tenant(t, "")
	forge := forged(other.URL(), other.Head(t), "", time.Now().Add(-time.Second))
	w.patch("web", forge)
	app := w.operated("web", v1alpha1.OperationError)
	if !strings.Contains(app.Status.OperationState.Message, "does not allow the repository") {
		t.Errorf("the operation ends with %q", app.Status.OperationState.Message)
	}
	w.condition("web", v1alpha1.ConditionSyncError, "does not allow the repository")
	w.engine.Stop()
	w.patch("web", `{"status": {"operationState": null}}`)
	w.patch("web", forge)
	w.start()
	w.operated("web", v1alpha1.OperationError)
	w.condition("web", v1alpha1.ConditionSyncError, "does not allow the repository")
	w.untouched()
}

// A forged operation does not pass a sync window by a start in the time before
// it, and what no runtime writes is not continued.
func TestForgedOperationStateAndWindows(t *testing.T) {
	schedule := time.Now().UTC().Add(-10 * time.Minute)
	window := fmt.Sprintf(`syncWindows: [{kind: deny, schedule: "%d %d * * *", duration: 2h, applications: ["*"], syncOverrun: true}]`, schedule.Minute(), schedule.Hour())
	w, own, _ := tenant(t, window)
	w.patch("web", forged(own.URL(), own.Head(t), "", time.Now().Add(-time.Hour)))
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if state := app.Status.OperationState; state == nil || !strings.Contains(state.Message, "sync window") {
			return fmt.Errorf("it has %s", summaryOf(app))
		}
		return nil
	})
	if app.Status.OperationState.Phase != v1alpha1.OperationRunning || w.exists("one") {
		t.Errorf("the Application is %s", summaryOf(app))
	}
	named := fmt.Sprintf(`"source": {"repoURL": %q, "path": "elsewhere"}`, own.URL())
	for want, forge := range map[string]string{
		"in the future": forged(own.URL(), own.Head(t), "", time.Now().Add(time.Hour)),
		"other sources": forged(own.URL(), own.Head(t), named, time.Now().Add(-time.Hour)),
		"names no sources": strings.Replace(forged(own.URL(), own.Head(t), strings.Replace(named, "elsewhere", "web", 1), time.Now().Add(-time.Hour)),
			`"operation": {`, `"operation": {"initiatedBy": {"automated": true}, `, 1),
	} {
		w.patch("web", `{"status": {"operationState": null}}`)
		w.patch("web", forge)
		app := w.operated("web", v1alpha1.OperationError)
		if message := app.Status.OperationState.Message; !strings.Contains(message, want) {
			t.Errorf("the operation ends with %q, want %q", message, want)
		}
	}
	if w.exists("one") {
		t.Error("a forged operation was run")
	}
}

// A project that no longer allows a repository ends its polls.
func TestForbiddenSourceIsNotPolled(t *testing.T) {
	w := newWorld(t)
	own := w.repository("own", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.project("team", "")
	w.start()
	w.applicationIn("team", "web", own, "web", automated)
	w.synced("web", own.Head(t))
	if polled := w.engine.Polled(); polled != 1 {
		t.Errorf("%d repositories are polled", polled)
	}
	w.cluster.Apply(t, w.control, "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: team}\nspec: {sourceRepos: [\"https://elsewhere.example/**\"], destinations: [{server: \"*\", namespace: \"*\"}]}\n")
	w.condition("web", v1alpha1.ConditionInvalidSpecError, "does not allow the repository")
	if polled := w.engine.Polled(); polled != 0 {
		t.Errorf("%d repositories are polled", polled)
	}
}
