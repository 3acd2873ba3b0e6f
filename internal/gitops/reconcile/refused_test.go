package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/must"
)

// unknown waits until the sync status of an Application is Unknown, with an
// error that has a text.
func (w *world) unknown(name, text string) *v1alpha1.Application {
	w.t.Helper()
	app := w.condition(name, v1alpha1.ConditionComparisonError, text)
	if app.Status.Sync.Status != v1alpha1.SyncUnknown {
		w.t.Errorf("the Application is %s", summaryOf(app))
	}
	return app
}

// A rendered object that cannot be planned makes the sync status Unknown, with
// an error that names it. Nothing is synced and nothing pruned until it is
// right, although what was live under its name is not desired by any object.
func TestRefusedObject(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "2"), "web/old.yaml": configMap("old", "1")})
	w.start()
	w.application("web", repository, "web", `{automated: {prune: true, selfHeal: true}}`)
	w.synced("web", repository.Head(t))
	repository.Delete(t, "web/old.yaml")
	wrong := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "changed"), "web/two.yaml": configMap("two", "2", "enabled: true")}, "wrong")
	w.refresh("web")
	app := w.unknown("web", "ConfigMap two: metadata.annotations[enabled]")
	if app.Status.Sync.Revision != wrong || app.Status.Health.Status != v1alpha1.Healthy {
		t.Errorf("the Application is %s at %s", summaryOf(app), app.Status.Sync.Revision)
	}
	for _, resource := range app.Status.Resources {
		want := map[string]v1alpha1.SyncStatusCode{"one": v1alpha1.SyncOutOfSync, "two": v1alpha1.SyncUnknown, "old": v1alpha1.SyncUnknown}[resource.Name]
		if resource.Status != want || resource.RequiresPruning {
			t.Errorf("%s is %s, to be pruned: %t; want %s", resource.Name, resource.Status, resource.RequiresPruning, want)
		}
	}
	w.patch("web", `{"operation": {"sync": {"prune": true}}}`)
	app = w.operated("web", v1alpha1.OperationFailed)
	if message := app.Status.OperationState.Message; !strings.Contains(message, "ConfigMap two") || !strings.Contains(message, "nothing was done") {
		t.Errorf("a sync by hand says %q", message)
	}
	if !w.exists("two") || !w.exists("old") {
		t.Error("an object was pruned")
	}
	w.value("one", "1")
	right := repository.Commit(t, map[string]string{"web/two.yaml": configMap("two", "2", "enabled: \"true\"")}, "right")
	w.refresh("web")
	if app := w.synced("web", right); len(app.Status.Conditions) > 0 {
		t.Errorf("the conditions are %+v", app.Status.Conditions)
	}
	w.value("one", "changed")
	w.value("old", "")
}

// An Application whose only object is refused is not Synced, and reports it in an
// Event once.
func TestRefusedObjectAlone(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 5}\n"})
	w.start()
	w.application("web", repository, "web", automated)
	app := w.unknown("web", "metadata.name: it is not text")
	if app.Status.OperationState != nil {
		t.Errorf("a sync was started: %s", summaryOf(app))
	}
	w.eventually("an Event tells it", func() error {
		events, err := w.cluster.Client.EventsV1().Events(w.control).List(t.Context(), listAll())
		if err != nil {
			return err
		}
		count := 0
		for _, event := range events.Items {
			if event.Reason == "ObjectRefused" && event.Regarding.Name == "web" {
				count++
			}
		}
		if count != 1 {
			return fmt.Errorf("there are %d", count)
		}
		return nil
	})
	w.idle()
	again := w.wait("web", func(*v1alpha1.Application) error { return nil })
	if again.ResourceVersion != app.ResourceVersion {
		t.Errorf("the status was written again: %s", summaryOf(again))
	}
}

// What a renderer warns of is a condition, which is not written again when it
// stays the same.
func TestRenderWarning(t *testing.T) {
	w := newWorld(t)
	twice := strings.Replace(configMap("one", "1"), "data: {", "data: {value: \"0\", ", 1)
	repository := w.repository("shop", map[string]string{"web/one.yaml": twice})
	w.start()
	w.application("web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	app := w.condition("web", v1alpha1.ConditionRenderWarning, `key "value" already set`)
	w.idle()
	app = w.wait("web", func(*v1alpha1.Application) error { return nil })
	w.engine.Stop()
	w.start()
	w.eventually("it is ready", func() error { return w.engine.Ready() })
	w.idle()
	again := w.wait("web", func(*v1alpha1.Application) error { return nil })
	if again.ResourceVersion != app.ResourceVersion {
		t.Errorf("after a restart the status was written again: %s", summaryOf(again))
	}
	right := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "1")}, "right")
	w.refresh("web")
	w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Revision != right || len(app.Status.Conditions) > 0 {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
}

// adopted makes a ConfigMap as Argo CD left it: with its annotation and without
// our label.
func (w *world) adopted(app, name, value string) {
	w.t.Helper()
	w.cluster.Apply(w.t, w.target, configMap(name, value, fmt.Sprintf("%s: %q", tracking.Annotation, fmt.Sprintf("%s:/ConfigMap:%s/%s", app, w.target, name))))
}

// labelled reports whether a ConfigMap has our label.
func (w *world) labelled(name string) error {
	found, err := w.cluster.Client.CoreV1().ConfigMaps(w.target).Get(w.t.Context(), name, metav1.GetOptions{})
	if err == nil && found.Labels[tracking.Label] == "" {
		err = errors.New("it has no label")
	}
	return err
}

// After a take-over from Argo CD an Application that is synced by hand is Synced,
// and a condition reports that the label is missing. Changes are noticed although no
// watch sees them. The next sync adds the label.
func TestUnlabelledIsSynced(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.options.Interval, w.options.Jitter = 500*time.Millisecond, time.Millisecond
	w.adopted("web", "one", "1")
	w.start()
	w.application("web", repository, "web", "")
	app := w.synced("web", repository.Head(t))
	if !slices.ContainsFunc(app.Status.Conditions, func(one v1alpha1.ApplicationCondition) bool {
		return one.Type == v1alpha1.ConditionUnlabelledResourceWarning && strings.Contains(one.Message, "/one is as desired and does not have the label")
	}) || w.labelled("one") == nil {
		t.Errorf("the Application is %s", summaryOf(app))
	}
	w.set("one", "changed")
	w.outOfSync("web")
	w.set("one", "1")
	w.synced("web", repository.Head(t))
	w.patch("web", `{"operation": {"sync": {"syncOptions": ["ApplyOutOfSyncOnly=true"]}}}`)
	w.operated("web", v1alpha1.OperationSucceeded)
	must.Do(w.t, w.labelled("one"))
	w.wait("web", func(app *v1alpha1.Application) error {
		if len(app.Status.Conditions) > 0 {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
}

// With automated syncs the label is added at once.
func TestUnlabelledIsLabelled(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.adopted("web", "one", "1")
	w.start()
	w.application("web", repository, "web", automated)
	w.operated("web", v1alpha1.OperationSucceeded)
	must.Do(w.t, w.labelled("one"))
	if app := w.synced("web", repository.Head(t)); len(app.Status.Conditions) > 0 {
		t.Errorf("the Application is %s", summaryOf(app))
	}
}
