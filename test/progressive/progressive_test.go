package progressive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/programs"
)

// isLong reports whether it is the long form.
func isLong() bool { return os.Getenv("PROGRESSIVE") == "long" }

// rate is the number of requests per second.
func rate() int {
	if isLong() {
		return 500
	}
	return 200
}

// good is the next of the versions without a fault.
func (w *world) good() string {
	w.version = w.version%8 + 1
	return fmt.Sprintf("v%d", w.version)
}

// A revision that is good is promoted without a failed request, and one that fails
// 5 % of its requests, or is slow in the long form, goes back while few requests have
// failed. The Application is held at the revision before, and in the long form the next
// commit goes on.
func TestReleases(t *testing.T) {
	w := newWorld(t)
	clients, _ := w.load(t, http.MethodGet, rate())
	rounds := 1
	if isLong() {
		rounds = 10
	}
	for range rounds {
		w.promotes(t, clients, w.good())
		w.rollsBack(t, clients, revision{image: "v-bad"}, 0.002)
		if isLong() {
			w.rollsBack(t, clients, revision{image: "v-slow"}, 0)
		}
	}
	if !isLong() {
		return
	}
	w.promotes(t, clients, w.good())
	// Requests with an effect are not sent again: those that the canary fails have failed.
	posts, stop := w.load(t, http.MethodPost, rate())
	for range rounds {
		w.rollsBack(t, posts, revision{image: "v-bad"}, 0.02)
	}
	stop()
}

// promotes releases a good revision.
func (w *world) promotes(t *testing.T, clients *load, image string) {
	t.Helper()
	before := clients.counts()
	w.promoted(t, clients, w.push(t, revision{image: image}), image, before)
}

// promoted waits for the end of a release of a good revision. No request has failed since
// earlier counts.
func (w *world) promoted(t *testing.T, clients *load, commit, image string, before counts) {
	t.Helper()
	began := time.Now()
	w.await(t, func(app *v1alpha1.Application) error {
		if app.Status.Held != nil {
			return fmt.Errorf("it is held: %s", app.Status.Held.Message)
		}
		if app.Status.Sync.Revision != commit || app.Status.Health.Status != v1alpha1.Healthy {
			return errors.New(describe(app))
		}
		return nil
	})
	programs.Eventually(t, func(context.Context) error {
		if n := w.versions(t, clients, image); n < 100 {
			return fmt.Errorf("%s has served %d requests", image, n)
		}
		return nil
	})
	served := clients.counts().since(before)
	t.Logf("%s was promoted after %s: %d of %d requests failed", image, time.Since(began).Round(time.Second), served.failed, served.requests)
	if served.failed > 0 {
		t.Errorf("%d of %d requests failed while %s was released: %s", served.failed, served.requests, image, clients.lastError())
	}
}

// rollsBack releases a bad revision. Of all requests from its first response to its last
// one, at most a part fails.
func (w *world) rollsBack(t *testing.T, clients *load, bad revision, most float64) {
	t.Helper()
	clients.forget(bad.image)
	commit := w.push(t, bad)
	app := w.await(t, func(app *v1alpha1.Application) error {
		if app.Status.Held == nil || app.Status.Held.Target[0] != commit {
			return errors.New(describe(app))
		}
		return nil
	})
	programs.Eventually(t, func(context.Context) error { return clients.quiet(bad.image, 2*time.Second) })
	took, served := clients.span(bad.image)
	share := float64(served.failed) / float64(max(served.requests, 1))
	t.Logf("%s went back %s after its first response: %d of %d requests failed meanwhile (%.2f %%): %s", bad.image, took.Round(100*time.Millisecond),
		served.failed, served.requests, 100*share, app.Status.Held.Message)
	if share > most {
		t.Errorf("%.2f %% of the requests failed, want %.2f %% at most: %s", 100*share, 100*most, clients.lastError())
	}
	if text := describe(app); !strings.Contains(text, "serves; the release of web failed") {
		t.Errorf("the conditions are %s", text)
	}
}
