package reconcile_test

import (
	"errors"
	"fmt"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

const automated = `{automated: {}}`

// What is in Git becomes live, and is reported in Argo CD's form.
func TestAutomatedSync(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "2")})
	w.start()
	w.application("web", repository, "web", automated)
	first := repository.Head(t)
	app := w.synced("web", first)
	w.value("one", "1")
	status := &app.Status
	if status.Health.Status != v1alpha1.Healthy || status.SourceType != v1alpha1.SourceDirectory || len(status.Resources) != 2 {
		t.Errorf("the status is %+v", status)
	}
	state := status.OperationState
	if state == nil || state.Phase != v1alpha1.OperationSucceeded || !state.Operation.InitiatedBy.Automated || state.SyncResult.Revision != first || len(state.SyncResult.Resources) != 2 {
		t.Errorf("the operation is %+v", state)
	}
	if len(status.History) != 1 || status.History[0].Revision != first || status.History[0].ID != 0 {
		t.Errorf("the history is %+v", status.History)
	}
	second := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "changed")}, "change")
	w.patch("web", `{"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}`)
	w.synced("web", second)
	w.value("one", "changed")
	app = w.wait("web", func(app *v1alpha1.Application) error {
		if app.Annotations["argocd.argoproj.io/refresh"] != "" {
			return errors.New("the refresh is done, and its annotation is still there")
		}
		return nil
	})
	if len(app.Status.History) != 2 || app.Status.History[1].ID != 1 {
		t.Errorf("the history is %+v", app.Status.History)
	}
}

// Without a policy nothing is done before a request; then what was requested
// is, and the request is gone.
func TestManualSync(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "2")})
	w.start()
	w.application("web", repository, "web", "")
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncOutOfSync {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	if app.Status.Health.Status != v1alpha1.Missing {
		t.Errorf("the health is %s, want Missing", app.Status.Health.Status)
	}
	w.patch("web", `{"operation": {"initiatedBy": {"username": "ann"}, "sync": {"dryRun": true}}}`)
	app = w.operated("web", v1alpha1.OperationSucceeded)
	if w.exists("one") || len(app.Status.History) > 0 {
		t.Error("a dry run changed something")
	}
	w.patch("web", `{"operation": {"sync": {"resources": [{"kind": "ConfigMap", "name": "two"}]}}}`)
	w.value("two", "2")
	app = w.operated("web", v1alpha1.OperationSucceeded)
	if w.exists("one") || app.Status.Sync.Status != v1alpha1.SyncOutOfSync {
		t.Errorf("only two was asked for, and the application is %s", summaryOf(app))
	}
	w.patch("web", `{"operation": {"initiatedBy": {"username": "ann"}, "sync": {}}}`)
	w.value("one", "1")
	app = w.synced("web", repository.Head(t))
	if by := app.Status.OperationState.Operation.InitiatedBy; by.Username != "ann" || app.Status.History[0].InitiatedBy != by {
		t.Errorf("the operation was asked for by %+v, want ann", by)
	}
}
