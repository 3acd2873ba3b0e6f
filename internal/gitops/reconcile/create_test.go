package reconcile_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// shared is a policy with which objects of other Applications are refused.
const shared = `{automated: {}, syncOptions: [FailOnSharedResource=true]}`

// ownedByOther is a ConfigMap that Argo CD applied for another Application: it has
// no label of ours, and no watch has it.
func (w *world) ownedByOther(name string) string {
	return configMap(name, "theirs", fmt.Sprintf(`argocd.argoproj.io/tracking-id: "other:/ConfigMap:%s/%s"`, w.target, name))
}

// objectRequests are the requests for ConfigMaps of the target.
func (w *world) objectRequests() (requests []string) {
	for _, one := range w.taken() {
		if strings.Contains(one, "/namespaces/"+w.target+"/configmaps/") {
			method, _, _ := strings.Cut(one, " ")
			requests = append(requests, method)
		}
	}
	return requests
}

// TestCreateReadsNothing: objects that are new take one request each. One that
// exists and belongs to no Application is read, and then taken over.
func TestCreateReadsNothing(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "2")})
	w.start()
	w.application("web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	if requests := w.objectRequests(); fmt.Sprint(requests) != "[PATCH PATCH]" {
		t.Errorf("creating two objects took %v", requests)
	}
	w.cluster.Apply(t, w.target, configMap("three", "theirs"))
	repository.Commit(t, map[string]string{"web/three.yaml": configMap("three", "3")}, "more")
	w.engine.Pushed(pushTo(repository))
	app := w.synced("web", repository.Head(t))
	if state := app.Status.OperationState; w.valueOf("three") != "3" || state.Phase != v1alpha1.OperationSucceeded || state.RetryCount != 0 {
		t.Errorf("its value is %q, and the operation %+v", w.valueOf("three"), state)
	}
}

// TestCreateMeetsOther: an object of another Application is not overwritten: neither
// one that exists, nor one that is created between the plan and the apply. What the
// sync has done before is reported, and what follows is not done.
func TestCreateMeetsOther(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			repository := w.repository("shop", map[string]string{"web/all.yaml": configMap("first", "1", `argocd.argoproj.io/sync-wave: "-1"`) + "---\n" +
				configMap("one", "1") + "---\n" + configMap("last", "1", `argocd.argoproj.io/sync-wave: "1"`)})
			if before {
				w.cluster.Apply(t, w.target, w.ownedByOther("one"))
			}
			w.start()
			var once sync.Once
			w.meet(func(request *http.Request) error {
				if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/configmaps/one") && !before {
					once.Do(func() { w.cluster.Apply(t, w.target, w.ownedByOther("one")) })
				}
				return nil
			})
			w.application("web", repository, "web", shared)
			app := w.waits("web", "is part of applications")
			if w.valueOf("one") != "theirs" {
				t.Error("the object of another Application was overwritten")
			}
			if w.exists("last") {
				t.Error("the sync went on")
			}
			checkOutOfSync(t, app, "one")
		})
	}
}

// checkOutOfSync checks that a ConfigMap is in the status as one that exists.
func checkOutOfSync(t *testing.T, app *v1alpha1.Application, name string) {
	t.Helper()
	for _, resource := range app.Status.Resources {
		if resource.Name == name && (resource.Status != v1alpha1.SyncOutOfSync || resource.Health != nil && resource.Health.Status == v1alpha1.Missing) {
			t.Errorf("%s is %+v", name, resource)
		}
	}
}

// TestUnreadWithoutSync: where no sync starts, what no watch has is read for the
// status.
func TestUnreadWithoutSync(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1"), "web/two.yaml": configMap("two", "1")})
	w.project("closed", `syncWindows: [{kind: deny, schedule: "* * * * *", duration: 1h, applications: ["*"]}]`)
	w.cluster.Apply(t, w.target, w.ownedByOther("one"))
	w.start()
	w.applicationIn("closed", "web", repository, "web", automated)
	app := w.outOfSync("web")
	checkOutOfSync(t, app, "one")
	missing := 0
	for _, resource := range app.Status.Resources {
		if resource.Health != nil && resource.Health.Status == v1alpha1.Missing {
			missing++
		}
	}
	if missing != 1 || w.valueOf("one") != "theirs" || w.exists("two") {
		t.Errorf("%d are missing of %+v", missing, app.Status.Resources)
	}
}
