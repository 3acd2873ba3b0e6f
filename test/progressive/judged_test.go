package progressive

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/release"
)

// judgedKind is a kind of releases that the judge decides about.
type judgedKind struct {
	name, variables string
	isBad           bool
	// releases are made by Applications beside each other, each with requests at a rate.
	releases, applications, rate int
	// wrong is how many of a hundred may be decided wrongly.
	wrong int
}

// The judge decides about real releases under noise, with the default policy, as about
// simulated ones: revisions like the stable one are promoted, and those with 2 % more errors
// go back.
func TestJudged(t *testing.T) {
	if !isLong() {
		t.Skip("it takes half an hour: make progressive")
	}
	w := newWorldWith(t, "", kubetest.Programs(map[string]string{noisyImage: buildProgram(t, "noisy")}))
	w.startAgent(t)
	for _, kind := range []judgedKind{
		{name: "alike", releases: programs.Setting(t, "PROGRESSIVE_ALIKE", 200), applications: 12, rate: 200, wrong: 1},
		{
			name: "worse", variables: `, {name: MORE_ERRORS, value: "2"}`, isBad: true,
			releases: programs.Setting(t, "PROGRESSIVE_WORSE", 100), applications: 3, rate: 500, wrong: 2,
		},
	} {
		t.Run(kind.name, func(t *testing.T) { w.judges(t, &kind) })
	}
}

// judges makes the releases of a kind and counts those that were decided wrongly.
func (w *world) judges(t *testing.T, kind *judgedKind) {
	var left atomic.Int64
	left.Store(int64(kind.releases))
	var (
		running sync.WaitGroup
		mu      sync.Mutex // guards the rest
		took    []time.Duration
		rates   []int
		wrong   int
	)
	for i := range min(kind.applications, kind.releases) {
		running.Go(func() {
			shop := w.beside(t, fmt.Sprintf("%s-%d", kind.name, i), revision{image: "v1", program: noisyImage, release: release.Canary})
			shop.deployed(t)
			began := time.Now()
			sent, stop := shop.load(t, http.MethodGet, kind.rate)
			defer func() {
				stop()
				mu.Lock()
				defer mu.Unlock()
				rates = append(rates, int(float64(sent.sent)/time.Since(began).Seconds()))
			}()
			for number := left.Add(-1); number >= 0 && !t.Failed(); number = left.Add(-1) {
				began := time.Now()
				isHeld := shop.decided(t, revision{
					image: fmt.Sprintf("r%d", number), program: noisyImage, variables: kind.variables, release: release.Canary,
				})
				mu.Lock()
				took = append(took, time.Since(began))
				if isHeld != kind.isBad {
					wrong++
				}
				mu.Unlock()
				if kind.isBad && !isHeld {
					// The next one would be compared with it, and be no worse.
					shop.decided(t, revision{image: fmt.Sprintf("g%d", number), program: noisyImage, release: release.Canary})
				}
			}
		})
	}
	running.Wait()
	if len(took) == 0 {
		t.Fatal("there were no releases")
	}
	slices.Sort(took)
	t.Logf("%s: %d of %d releases were decided wrongly; half of them took %s from the commit on, all %s; requests per second of an Application: %d, at least %d", kind.name,
		wrong, len(took), took[len(took)/2].Round(time.Second), took[len(took)-1].Round(time.Second), kind.rate, slices.Min(rates))
	if wrong*100 > kind.wrong*len(took) {
		t.Errorf("%s: %d of %d releases were decided wrongly, want %d of 100", kind.name, wrong, len(took), kind.wrong)
	}
}

// decided releases a revision and reports whether it is held back.
func (w *world) decided(t *testing.T, of revision) (isHeld bool) {
	t.Helper()
	began, commit := time.Now(), w.push(t, of)
	app := w.await(t, func(app *v1alpha1.Application) error {
		isHeld = app.Status.Held != nil && app.Status.Held.Target[0] == commit
		if !isHeld && (app.Status.Sync.Revision != commit || app.Status.Health.Status != v1alpha1.Healthy) {
			return errors.New(describe(app))
		}
		return nil
	})
	switch took := time.Since(began); {
	case isHeld:
		t.Logf("%s: %s", w.name, app.Status.Held.Message)
	case took < leastTime():
		t.Errorf("%s was promoted after %s, before the steps of the policy were over", w.name, took)
	}
	return isHeld
}

// leastTime is that of a release by the default policy.
func leastTime() (sum time.Duration) {
	policy, _ := release.Default(release.Canary)
	for _, step := range policy.Steps {
		sum += step.Hold
	}
	return sum
}
