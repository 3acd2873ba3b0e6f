package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
)

// goBack requests a rollback to a revision, as the commands do.
func (w *world) goBack(name string, repository *gittest.Repository, revision string) *v1alpha1.Application {
	w.t.Helper()
	w.patch(name, fmt.Sprintf(`{"operation": {"initiatedBy": {"username": "ann"}, "sync": {"revision": %q, "prune": true, "source": {"repoURL": %q, "path": "web", "targetRevision": "main"}}}}`,
		revision, repository.URL()))
	return w.wait(name, func(app *v1alpha1.Application) error {
		if app.Operation != nil || app.Status.Held == nil || app.Status.OperationState.Phase != v1alpha1.OperationSucceeded {
			return fmt.Errorf("it is not held: %s", summaryOf(app))
		}
		return nil
	})
}

// free waits until an Application is held no longer and is Synced at a revision.
func (w *world) free(name, revision string) *v1alpha1.Application {
	w.t.Helper()
	return w.wait(name, func(app *v1alpha1.Application) error {
		switch {
		case app.Status.Held != nil:
			return errors.New("it is still held")
		case app.Status.Sync.Status != v1alpha1.SyncSynced || app.Status.Sync.Revision != revision:
			return fmt.Errorf("it is %s at %s", summaryOf(app), app.Status.Sync.Revision)
		}
		for _, one := range app.Status.Conditions {
			if one.Type == v1alpha1.ConditionHeldRevisionWarning {
				return errors.New("it still has the condition")
			}
		}
		return nil
	})
}

// held is an automated Application of two commits that went back to the first.
func held(t *testing.T) (w *world, repository *gittest.Repository, first, second string) {
	t.Helper()
	w = newWorld(t)
	repository = w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "other/one.yaml": configMap("other", "1")})
	w.start()
	w.application("web", repository, "web", `{automated: {selfHeal: true, prune: true}}`)
	first = repository.Head(t)
	w.synced("web", first)
	second = repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2"), "web/two.yaml": configMap("two", "2")}, "change")
	w.refresh("web")
	w.synced("web", second)
	w.goBack("web", repository, first)
	w.synced("web", first)
	return w, repository, first, second
}

// An automated Application that goes back is held there: drift is repaired to
// that revision, also by the next process, and a commit that does not change its
// objects changes nothing. The next one that does ends the hold.
func TestHold(t *testing.T) {
	w, repository, first, second := held(t)
	w.value("one", "1")
	w.value("two", "")
	w.condition("web", v1alpha1.ConditionHeldRevisionWarning, fmt.Sprintf("main is at %s; %s serves; ann went back", second[:7], first[:7]))

	w.set("one", "drifted")
	w.value("one", "1")
	w.engine.Stop()
	w.set("one", "drifted while no agent ran")
	w.start()
	w.value("one", "1")

	repository.Commit(t, map[string]string{"other/one.yaml": configMap("other", "2")}, "unrelated")
	w.refresh("web")
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if app.Annotations["argocd.argoproj.io/refresh"] != "" {
			return errors.New("the repository was not polled")
		}
		return nil
	})
	if app.Status.Held == nil || app.Status.Sync.Revision != first || w.valueOf("one") != "1" {
		t.Errorf("a commit of other files ended the hold: %s", summaryOf(app))
	}

	third := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "3")}, "fix")
	w.refresh("web")
	w.free("web", third)
	w.value("one", "3")
	w.value("two", "2")
}

// A user ends a hold by a sync to what the sources name.
func TestHoldIsLiftedByASync(t *testing.T) {
	w, _, _, second := held(t)
	w.patch("web", `{"operation": {"sync": {}}}`)
	w.free("web", second)
	w.value("one", "2")
}

// A part of an automated Application cannot be held at another revision.
func TestHoldOfAPartIsRefused(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", automated)
	first := repository.Head(t)
	w.synced("web", first)
	second := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "change")
	w.refresh("web")
	w.synced("web", second)
	w.patch("web", fmt.Sprintf(`{"operation": {"sync": {"revision": %q, "resources": [{"kind": "ConfigMap", "name": "one"}]}}}`, first))
	app := w.operated("web", v1alpha1.OperationError)
	if text := app.Status.OperationState.Message; !strings.Contains(text, "sync all resources") || app.Status.Held != nil {
		t.Errorf("the operation has the message %q", text)
	}
}
