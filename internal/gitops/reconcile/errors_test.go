package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
)

// Fields that are not supported are reported in the status, and nothing is done.
func TestInvalidSpecIsTold(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	tests := []struct{ name, from, to, want string }{
		{"hydrated", "project: default", "project: default\n  sourceHydrator: {syncSource: {path: x}}", "spec.sourceHydrator"},
		{"unknown", "project: default", "projekt: default\n  project: default", "did you mean project?"},
		{"cluster", "https://kubernetes.default.svc", "https://elsewhere.example", "there is no cluster https://elsewhere.example"},
		{"noproject", "project: default", "project: nobody", "there is no AppProject nobody"},
		{"pointer", "syncPolicy: {", "ignoreDifferences: [{kind: ConfigMap, jqPathExpressions: [\".a[\"]}]\n  syncPolicy: {", "ignoreDifferences"},
	}
	w.start()
	for _, test := range tests {
		text := strings.Replace(w.manifest("default", test.name, repository, "web", automated), test.from, test.to, 1)
		w.cluster.Apply(t, w.control, text)
		app := w.condition(test.name, v1alpha1.ConditionInvalidSpecError, test.want)
		if app.Status.Sync.Status != v1alpha1.SyncUnknown || app.Status.Health.Status != v1alpha1.Unknown || app.Status.OperationState != nil {
			t.Errorf("%s: the application is %s", test.name, summaryOf(app))
		}
	}
	if w.exists("one") {
		t.Error("a refused application was synced")
	}
	w.patch("cluster", `{"spec": {"destination": {"server": "https://kubernetes.default.svc"}}}`)
	if app := w.synced("cluster", repository.Head(t)); len(app.Status.Conditions) > 0 {
		t.Errorf("the conditions are %+v after it was corrected", app.Status.Conditions)
	}
}

// A project forbids a repository, and lets it in again.
func TestProjectRefuses(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.cluster.Apply(t, w.control, "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: team}\nspec: {sourceRepos: [\"https://other.example/*\"], destinations: [{server: \"*\", namespace: \"*\"}]}\n")
	w.start()
	w.applicationIn("team", "web", repository, "web", automated)
	w.condition("web", v1alpha1.ConditionInvalidSpecError, "does not allow the repository")
	w.project("team", `namespaceResourceBlacklist: [{group: "", kind: ConfigMap}]`)
	app := w.operated("web", v1alpha1.OperationRunning)
	if message := app.Status.OperationState.Message; !strings.Contains(message, "refused") || w.exists("one") {
		t.Errorf("the operation says %q, want that the kind is refused", message)
	}
	// The retry meets the new project.
	w.project("team", ``)
	w.synced("web", repository.Head(t))
}

// Git that is away prunes nothing and hides nothing: the condition reports it, and
// health stays up to date. When it is back, so is the application, without
// a refresh.
func TestGitDownThenUp(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.options.Interval, w.options.Jitter = 500*time.Millisecond, time.Millisecond
	w.start()
	w.application("web", repository, "web", `{automated: {prune: true, selfHeal: true}}`)
	first := repository.Head(t)
	w.synced("web", first)
	w.git.SetDown(true)
	app := w.condition("web", v1alpha1.ConditionComparisonError, repository.URL())
	if app.Status.Sync.Status != v1alpha1.SyncUnknown || app.Status.Sync.Revision != first || app.Status.Health.Status != v1alpha1.Healthy || len(app.Status.Resources) != 1 {
		t.Errorf("the application is %s at %s, want what was known last", summaryOf(app), app.Status.Sync.Revision)
	}
	if !w.exists("one") {
		t.Error("something was pruned because Git is away")
	}
	second := repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "meanwhile")
	w.git.SetDown(false)
	if app := w.synced("web", second); len(app.Status.Conditions) > 0 {
		t.Errorf("the conditions are %+v", app.Status.Conditions)
	}
	w.value("one", "2")
}

// After a restart with Git away, what the status lists is looked at, and nothing
// else is done.
func TestRestartWithoutGit(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", `{automated: {prune: true, selfHeal: true}}`)
	w.synced("web", repository.Head(t))
	w.engine.Stop()
	w.git.SetDown(true)
	w.folder = t.TempDir()
	w.start()
	app := w.condition("web", v1alpha1.ConditionComparisonError, repository.URL())
	if app.Status.Health.Status != v1alpha1.Healthy || len(app.Status.Resources) != 1 || !w.exists("one") {
		t.Errorf("the application is %s with %+v", summaryOf(app), app.Status.Resources)
	}
	w.git.SetDown(false)
	w.engine.CredentialsChanged()
	w.synced("web", repository.Head(t))
}

// A render that fails is reported, and not retried before Git changes.
func TestRenderFails(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", `{automated: {prune: true}}`)
	w.synced("web", repository.Head(t))
	repository.Commit(t, map[string]string{"web/two.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: [not, closed\n"}, "wrong")
	w.refresh("web")
	app := w.condition("web", v1alpha1.ConditionComparisonError, "two.yaml")
	if !w.exists("one") || app.Status.Sync.Status != v1alpha1.SyncUnknown {
		t.Errorf("the application is %s", summaryOf(app))
	}
	before := w.renders.Load()
	w.refresh("web")
	w.wait("web", func(app *v1alpha1.Application) error {
		if app.Annotations["argocd.argoproj.io/refresh"] != "" {
			return fmt.Errorf("the refresh is not done")
		}
		return nil
	})
	if after := w.renders.Load(); after != before {
		t.Errorf("what fails was rendered again, %d times", after-before)
	}
	right := repository.Commit(t, map[string]string{"web/two.yaml": configMap("two", "2")}, "right")
	w.refresh("web")
	w.synced("web", right)
}

// An operation that runs is not pushed aside by another.
func TestSecondOperationIsRefused(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", waiting())
	w.start()
	w.application("web", repository, "web", "")
	w.outOfSync("web")
	w.patch("web", `{"operation": {"initiatedBy": {"username": "ann"}, "sync": {}}}`)
	w.operated("web", v1alpha1.OperationRunning)
	w.patch("web", `{"operation": {"initiatedBy": {"username": "bob"}, "sync": {}}}`)
	app := w.operated("web", v1alpha1.OperationRunning)
	if by := app.Status.OperationState.Operation.InitiatedBy.Username; by != "ann" {
		t.Errorf("the operation is now that of %s", by)
	}
	w.eventually("an Event tells it", func() error {
		events, err := w.cluster.Client.EventsV1().Events(w.control).List(t.Context(), listAll())
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == "OperationRefused" && event.Regarding.Name == "web" {
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(events.Items))
	})
}

// waiting is an application whose first wave does not become healthy before
// the test makes it so: an Ingress whose status the test writes.
func waiting() map[string]string {
	return map[string]string{
		"web/first.yaml":  gate("first", "-1"),
		"web/second.yaml": configMap("second", "2"),
	}
}

// gate is an Ingress, which is healthy when its status has an address.
func gate(name, wave string) string {
	return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: %s
  annotations: {argocd.argoproj.io/sync-wave: %q}
spec:
  defaultBackend: {service: {name: none, port: {number: 80}}}
`, name, wave)
}

// resourceNames are the objects of an Application.
func resourceNames(app *v1alpha1.Application) []string {
	var names []string
	for _, one := range app.Status.Resources {
		names = append(names, one.Kind+"/"+one.Name)
	}
	slices.Sort(names)
	return names
}

// A Git server that does not respond holds up its own applications, and no other.
func TestSlowGitHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	slow := gittest.Serve(t)
	held := slow.Repository(t, "slow", map[string]string{"web/slow.yaml": configMap("slow", "1")})
	quick := w.repository("quick", map[string]string{"web/one.yaml": configMap("one", "1")})
	release := sync.OnceFunc(slow.Hold())
	defer release()
	w.options.Workers = 2
	w.start()
	const many = 6 // more than there are workers
	for i := range many {
		w.application(fmt.Sprintf("slow-%d", i), held, "web", "")
	}
	w.eventually("the server is asked", func() error {
		if len(slow.Requests()) == 0 {
			return errors.New("there was no request")
		}
		return nil
	})
	w.application("quick", quick, "web", automated)
	w.synced("quick", quick.Head(t))
	if app := w.wait("slow-0", func(*v1alpha1.Application) error { return nil }); app.Status.Sync.Status != "" {
		t.Errorf("an application whose repository was not read is %s", summaryOf(app))
	}
	release()
	for i := range many {
		w.outOfSync(fmt.Sprintf("slow-%d", i))
	}
}
