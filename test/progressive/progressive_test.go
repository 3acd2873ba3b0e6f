package progressive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/programs"
)

// rate is the number of requests per second.
func rate() int {
	if os.Getenv("PROGRESSIVE") == "long" {
		return 500
	}
	return 200
}

// A revision that is good is promoted without a failed request, and one that fails
// 5 % of its requests, or is slow in the long form, goes back while few requests have
// failed. The Application is held at the revision before, and in the long form the next
// commit goes on.
func TestReleases(t *testing.T) {
	w := newWorld(t)
	clients := w.load(t, rate())
	good := 2
	next := func() string { good++; return fmt.Sprintf("v%d", good%8+1) }
	rounds := 1
	if os.Getenv("PROGRESSIVE") == "long" {
		rounds = 10
	}
	for range rounds {
		w.promotes(t, clients, next())
		w.rollsBack(t, clients, revision{image: "v-bad"})
		if rounds > 1 {
			w.rollsBack(t, clients, revision{image: "v-slow"})
		}
	}
	if rounds > 1 {
		w.promotes(t, clients, next())
	}
}

// promotes releases a good revision.
func (w *world) promotes(t *testing.T, clients *load, image string) {
	t.Helper()
	before, began := clients.counts(), time.Now()
	commit := w.push(t, revision{image: image})
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

// rollsBack releases a bad revision.
func (w *world) rollsBack(t *testing.T, clients *load, bad revision) {
	t.Helper()
	before := clients.counts()
	commit := w.push(t, bad)
	app := w.await(t, func(app *v1alpha1.Application) error {
		if app.Status.Held == nil || app.Status.Held.Target[0] != commit {
			return errors.New(describe(app))
		}
		return nil
	})
	programs.Eventually(t, func(context.Context) error { return clients.quiet(bad.image, 2*time.Second) })
	served := clients.counts().since(before)
	first, last := clients.span(bad.image)
	t.Logf("%s went back %s after its first response: %d of %d requests failed (%.2f %%): %s", bad.image, last.Sub(first).Round(100*time.Millisecond),
		served.failed, served.requests, 100*float64(served.failed)/float64(served.requests), app.Status.Held.Message)
	if share := float64(served.failed) / float64(served.requests); share > 0.01 {
		t.Errorf("%.2f %% of the requests failed", 100*share)
	}
	if text := describe(app); !strings.Contains(text, "serves; the release of web failed") {
		t.Errorf("the conditions are %s", text)
	}
	clients.forget(bad.image)
}
