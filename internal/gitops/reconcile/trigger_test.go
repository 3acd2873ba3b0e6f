package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/webhook"
)

func pushTo(of *gittest.Repository) webhook.Push {
	return webhook.Push{Provider: webhook.GitHub, RepositoryURLs: []string{of.URL()}, Ref: "refs/heads/main"}
}

// Polling finds a commit without a webhook.
func TestPolling(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.options.Interval, w.options.Jitter = 300*time.Millisecond, time.Millisecond
	w.start()
	w.application("web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	w.synced("web", repository.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "change"))
	w.value("one", "2")
}

// A push has the repository looked at that it names, and no other.
func TestPushed(t *testing.T) {
	w := newWorld(t)
	shop := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	other := w.repository("other", map[string]string{"web/two.yaml": configMap("two", "2")})
	w.start()
	w.application("web", shop, "web", automated)
	w.application("other", other, "web", automated)
	w.synced("web", shop.Head(t))
	w.synced("other", other.Head(t))
	second := shop.Commit(t, map[string]string{"web/one.yaml": configMap("one", "2")}, "change")
	before := len(w.git.Requests())
	w.engine.Pushed(pushTo(shop))
	w.synced("web", second)
	for _, request := range w.git.Requests()[before:] {
		if strings.Contains(request, "other") {
			t.Errorf("a push to shop made the request %s", request)
		}
	}
}

// A hard refresh renders again what is the same in Git.
func TestHardRefresh(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"web/one.yaml": configMap("one", "1")})
	w.start()
	w.application("web", repository, "web", automated)
	w.synced("web", repository.Head(t))
	done := func(app *v1alpha1.Application) error {
		if app.Annotations["argocd.argoproj.io/refresh"] != "" {
			return errors.New("the refresh is not done")
		}
		return nil
	}
	before := w.renders.Load()
	asked := len(w.git.Requests())
	w.refresh("web")
	w.wait("web", done)
	w.refresh("web")
	w.wait("web", done)
	if got := len(w.git.Requests()) - asked; got < 2 {
		t.Errorf("Git was asked %d times for two refreshes", got)
	}
	if after := w.renders.Load(); after != before {
		t.Errorf("a normal refresh rendered %d times, want 0", after-before)
	}
	w.patch("web", `{"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}}`)
	w.wait("web", done)
	if after := w.renders.Load(); after != before+1 {
		t.Errorf("a hard refresh rendered %d times, want 1", after-before)
	}
}

// A commit to a repository of many applications costs those that it does not
// touch nothing: no render, and no request to the API server.
func TestMonorepo(t *testing.T) {
	w := newWorld(t)
	const many = 20
	files := map[string]string{"README.md": "about"}
	for i := range many {
		files[fmt.Sprintf("apps/a%d/one.yaml", i)] = configMap(fmt.Sprintf("one-%d", i), "1")
	}
	repository := w.repository("mono", files)
	w.start()
	for i := range many {
		w.application(fmt.Sprintf("a%d", i), repository, fmt.Sprintf("apps/a%d", i), automated)
	}
	first := repository.Head(t)
	for i := range many {
		w.synced(fmt.Sprintf("a%d", i), first)
	}
	w.idle()
	renders := w.renders.Load()
	w.taken()
	second := repository.Commit(t, map[string]string{"apps/a7/one.yaml": configMap("one-7", "2")}, "one of them")
	fetched := len(w.git.Requests())
	w.engine.Pushed(pushTo(repository))
	w.synced("a7", second)
	w.idle()
	if got := w.renders.Load() - renders; got != 1 {
		t.Errorf("%d renders, want 1", got)
	}
	requests := w.taken()
	if len(requests) > 10 {
		t.Errorf("%d requests to the API server, want at most 10: %q", len(requests), requests)
	}
	for _, request := range requests {
		if !strings.HasSuffix(request, "/a7/status") && !strings.HasSuffix(request, "/one-7") {
			t.Errorf("an untouched application made the request %s", request)
		}
	}
	if got := len(w.git.Requests()) - fetched; got > 4 {
		t.Errorf("%d requests to Git, want a few for all: %q", got, w.git.Requests()[fetched:])
	}
	if app := w.synced("a3", first); len(app.Status.History) != 1 {
		t.Errorf("the history of an untouched application is %+v", app.Status.History)
	}
}

// idle waits until the engine has nothing to do: two looks at one Application,
// one after the other, come to an end, and all workers with them.
func (w *world) idle() {
	w.t.Helper()
	w.eventually("the engine has nothing to do", func() error {
		before := len(asked(w.requests.Requests()))
		if busy := w.engine.Busy(); busy > 0 {
			return fmt.Errorf("%d tasks wait or are worked on", busy)
		}
		if after := len(asked(w.requests.Requests())); after != before {
			return errors.New("it makes requests")
		}
		return nil
	})
}

// A status is not written when nothing changed, however often it is looked at,
// and what is drawn up for it stays the same to the letter.
func TestStatusIsStable(t *testing.T) {
	w := newWorld(t)
	files := waiting()
	files["web/deployment.yaml"] = deployment("idle")
	repository := w.repository("shop", files)
	w.options.Interval, w.options.Jitter = 200*time.Millisecond, time.Millisecond
	w.start()
	w.application("web", repository, "web", `{automated: {selfHeal: true}}`)
	w.waits("web", "first to be healthy")
	w.open("first")
	w.synced("web", repository.Head(t))
	app := w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Health.Status != v1alpha1.Healthy {
			return fmt.Errorf("it is %s", summaryOf(app))
		}
		return nil
	})
	w.idle()
	w.taken()
	polls := func() int {
		return len(slices.DeleteFunc(w.git.Requests(), func(one string) bool { return !strings.HasPrefix(one, "GET") }))
	}
	enough := polls() + 3
	w.eventually("the repository is looked at several times", func() error {
		if got := polls(); got < enough {
			return fmt.Errorf("%d times, want %d", got, enough)
		}
		return nil
	})
	// Objects that change without becoming others are looked at, and nothing is
	// written.
	w.label("idle", "note")
	w.engine.Look("web", w.control)
	w.idle()
	for _, request := range w.taken() {
		if !strings.HasPrefix(request, "GET") {
			t.Errorf("nothing changed, and there was the request %s", request)
		}
	}
	if again := w.synced("web", repository.Head(t)); again.ResourceVersion != app.ResourceVersion {
		t.Errorf("the Application was written: version %s, then %s", app.ResourceVersion, again.ResourceVersion)
	}
}

// Applications of one repository that differ in the prefix of their tags alone are
// polled apart: each follows its own tags.
func TestTagPrefixIsFollowed(t *testing.T) {
	w := newWorld(t)
	repository := w.repository("shop", map[string]string{"a/one.yaml": configMap("a", "1"), "b/one.yaml": configMap("b", "1")})
	repository.Tag(t, "a/1.0.0")
	repository.Tag(t, "b/1.0.0")
	w.start()
	for _, name := range []string{"a", "b"} {
		text := strings.Replace(w.manifest("default", name, repository, name, automated), "targetRevision: main", "targetRevision: 1.x, tagPrefix: "+name+"/", 1)
		w.cluster.Apply(t, w.control, text)
		w.synced(name, repository.Head(t))
	}
	second := repository.Commit(t, map[string]string{"a/one.yaml": configMap("a", "2"), "b/one.yaml": configMap("b", "2")}, "second")
	repository.Tag(t, "b/1.1.0")
	w.engine.Pushed(pushTo(repository))
	w.synced("b", second)
	if got := w.valueOf("a"); got != "1" {
		t.Errorf("the Application of other tags has %s", got)
	}
	repository.Tag(t, "a/1.1.0")
	w.engine.Pushed(pushTo(repository))
	w.synced("a", second)
}
