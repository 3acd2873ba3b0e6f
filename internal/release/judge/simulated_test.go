package judge

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// releases is how many releases of each kind are simulated.
var releases = flag.Int("releases", 0, "simulated releases of each kind; 0 for a few")

// The noises of the simulations.
var (
	quiet = noise{sigma: 0.5}
	// All Pods are 4 times slower together every 15 s, for 3 s on average, with 2 % errors,
	// and each Pod alone every 20 s, for 1 s on average.
	noisy = noise{sigma: 0.7, shared: burst{every: 15, length: 3, factor: 4, errors: 0.02}, pods: burst{every: 20, length: 1, factor: 4}}
	steps = []float64{0.05, 0.25, 0.5}
)

// canary has a tenth of 200 requests per second for a minute.
func canary(r release) release {
	r.rate, r.shares, r.step, r.pods = 200, []float64{0.1}, 60, 9
	return r
}

// stepped has steps of a minute.
func stepped(r release) release {
	r.shares, r.step, r.pods = steps, 60, 10
	return r
}

// defaultPolicy has the default steps of a release, and two Pods.
func defaultPolicy(r release) release {
	r.shares, r.step, r.pods, r.waits = steps, 10, 2, true
	return r
}

// simulate runs releases and returns the seconds of those that failed, in order.
func simulate(t *testing.T, r release, n int, reason string) (failed []int) {
	t.Helper()
	for seed := range n {
		one := r
		v, second := one.run(Guards{}, uint64(seed))
		if v.Outcome != Fail {
			continue
		}
		failed = append(failed, second)
		if !strings.Contains(reason, v.Reason) {
			t.Errorf("seed %d: %s (%s), want %s", seed, v.Reason, v.Message, reason)
		}
	}
	slices.Sort(failed)
	times := ""
	if len(failed) > 0 {
		times = fmt.Sprintf("; half after %d s, 99 %% after %d s; %d within 8 s, %d within 10 s", failed[len(failed)/2], failed[len(failed)*99/100], within(failed, 8), within(failed, 10))
	}
	t.Logf("%s: %d of %d fail%s", t.Name(), len(failed), n, times)
	return failed
}

// TestBadRevisions has the time to a rollback, in hundredths of the releases.
func TestBadRevisions(t *testing.T) {
	for _, c := range []struct {
		name    string
		release release
		reason  string
		seconds int
		percent int
	}{
		{"every 20th request fails", canary(release{noise: quiet, every: 20}), ReasonErrorRate, 8, 100},
		{"every 20th request fails, stable 0.1 %", canary(release{noise: quiet, every: 20, errors: 0.001}), ReasonErrorRate, 8, 99},
		// Four errors are the least evidence, and 1 of 25 canaries has had fewer in 8 s.
		{"5 % errors", canary(release{noise: quiet, worse: 0.05}), ReasonErrorRate, 8, 91},
		{"5 % errors, later", canary(release{noise: quiet, worse: 0.05}), ReasonErrorRate, 12, 99},
		{"5 % errors, stable 0.1 %", canary(release{noise: quiet, worse: 0.05, errors: 0.001}), ReasonErrorRate, 15, 98},
		{"3 times slower", canary(release{noise: quiet, slower: 3}), ReasonLatency, 8, 99},
		{"3 times slower, noisy", canary(release{noise: noisy, slower: 3}), ReasonLatency + ReasonErrorRate, 15, 97},
		{"3 times slower, beside long requests", canary(release{noise: quiet, slower: 3, streams: 0.05}), ReasonLatency, 15, 99},
		{"3 times slower after a minute", release{noise: quiet, rate: 200, shares: []float64{0.1}, step: 105, pods: 9, slower: 3, onset: 60}, ReasonLatency, 100, 99},
		{"5 % errors after a minute", release{noise: quiet, rate: 200, shares: []float64{0.1}, step: 105, pods: 9, worse: 0.05, onset: 60, errors: 0.001}, ReasonErrorRate, 90, 98},
		{"2 % more errors", stepped(release{noise: noisy, rate: 500, worse: 0.02, errors: 0.001}), ReasonErrorRate + ReasonLatency, 180, 98},
		{"2 % more errors, stable 2 %", stepped(release{noise: noisy, rate: 500, worse: 0.02, errors: 0.02}), ReasonErrorRate + ReasonLatency, 180, 98},
		{"2 % more errors, default policy", defaultPolicy(release{noise: noisy, rate: 500, worse: 0.02, errors: 0.001}), ReasonErrorRate + ReasonLatency, 600, 98},
		{"twice as slow", stepped(release{noise: noisy, rate: 500, slower: 2}), ReasonLatency, 180, 98},
		{"15 % errors with 2 requests per second", release{noise: quiet, rate: 2, shares: []float64{0.5}, step: 300, pods: 2, worse: 0.15}, ReasonErrorRate, 300, 95},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := cmp.Or(*releases, 100)
			failed := simulate(t, c.release, n, c.reason)
			if got := within(failed, c.seconds); got*100 < c.percent*n {
				t.Errorf("%d of %d failed within %d s, want %d %%", got, n, c.seconds, c.percent)
			}
		})
	}
}

// TestGoodRevisions has the false alarms of 200 releases: none with noise that the
// guards are made for.
func TestGoodRevisions(t *testing.T) {
	for _, c := range []struct {
		name    string
		release release
		most    int // of 200
		few     int // releases in a short test
	}{
		{"quiet", stepped(release{noise: quiet, rate: 200, errors: 0.001}), 0, 100},
		{"high error rate", stepped(release{noise: quiet, rate: 200, errors: 0.1}), 0, 40},
		{"noisy", stepped(release{noise: noisy, rate: 200, errors: 0.001}), 0, 200},
		{"noisy, default policy", defaultPolicy(release{noise: noisy, rate: 200, errors: 0.001}), 2, 200},
		{"noisy, a tenth", canary(release{noise: noisy, errors: 0.001}), 0, 40},
		{"noisy, two Pods", release{noise: noisy, rate: 50, shares: steps, step: 60, pods: 2, errors: 0.01}, 0, 40},
		{"noisy, many requests", stepped(release{noise: noisy, rate: 1000, errors: 0.001}), 0, 8},
		{"noisy, few requests", release{noise: noisy, rate: 3, shares: steps, step: 600, pods: 2, errors: 0.01}, 0, 20},
		{"a third slower", stepped(release{noise: quiet, rate: 200, slower: 1.3, errors: 0.001}), 4, 40},
		{"0.2 % more errors", stepped(release{noise: quiet, rate: 200, worse: 0.002, errors: 0.001}), 2, 40},
		// Bursts of a Pod that last longer than the guards assume.
		{"bursts of 2 s", stepped(release{noise: noise{sigma: 0.7, shared: noisy.shared, pods: burst{every: 40, length: 2, factor: 4}}, rate: 200, errors: 0.001}), 4, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := cmp.Or(*releases, c.few)
			failed := simulate(t, c.release, n, ReasonErrorRate+ReasonLatency)
			if len(failed)*200 > c.most*max(n, 200) {
				t.Errorf("%d of %d failed, want %d of 200", len(failed), n, c.most)
			}
		})
	}
}
