package limits

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/sharedlimit"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// rateLimit is far below what one edge serves on a busy machine.
const rateLimit = 200

func limitOf(requests int64) route.Policy {
	return route.Policy{ID: route.PolicyID{Name: "limit"}, RateLimit: &route.RateLimit{
		Requests: requests, Period: route.Duration(time.Second), Burst: requests / 4, Key: route.HashKey{By: route.KeyAll},
	}}
}

// TestRate measures what three edges admit together.
func TestRate(t *testing.T) {
	w := newWorld(t, limitOf(rateLimit))
	w.measure(t, "all requests to one edge", 1)
	w.measure(t, "requests to all edges", edges)
	w.replicas[0].Kill()
	w.await(t, edges-1)
	w.measure(t, "one edge killed", edges)
	w.replicas[1].Kill()
	w.await(t, edges-2)
	// One of three does not know whether the others are dead, so it keeps its part.
	w.measureLimit(t, "two edges killed", edges, rateLimit/edges)
}

func (w *world) measure(t *testing.T, what string, targets int) {
	t.Helper()
	w.measureLimit(t, what, targets, rateLimit)
}

// measureLimit sends to the first edges that are alive, and compares what they admit
// with the limit. The first second uses up the burst and does not count.
func (w *world) measureLimit(t *testing.T, what string, targets int, perSecond float64) {
	t.Helper()
	admitted := w.load(t, targets)
	admitted.during(time.Second)
	span := 3 * time.Second
	if long() {
		span = 30 * time.Second
	}
	count, took := admitted.during(span)
	admitted.stop()
	want := perSecond * took.Seconds()
	tolerance := 0.05*want + perSecond*sharedlimit.Period.Seconds()
	if math.Abs(float64(count)-want) > tolerance {
		t.Errorf("%s: %d requests in %s, want %.0f ± %.0f", what, count, took, want, tolerance)
	}
	t.Logf("%s: %d requests in %s, %+.1f %% of the limit", what, count, took.Round(time.Millisecond), 100*(float64(count)/want-1))
}

// running is a load that runs.
type running struct {
	admitted *atomic.Int64
	stop     func()
}

// during returns how many requests are admitted in about a time.
func (r running) during(span time.Duration) (int64, time.Duration) {
	began, before := time.Now(), r.admitted.Load()
	<-time.After(span)
	return r.admitted.Load() - before, time.Since(began)
}

// load sends to the first edges that are alive, as fast as each responds.
func (w *world) load(t *testing.T, targets int) running {
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var admitted atomic.Int64
	for _, r := range w.replicas[:targets] {
		if r.Process.Alive() != nil {
			continue
		}
		senders.Go(func() {
			for ctx.Err() == nil {
				switch status, err := r.get(ctx); {
				case err != nil && ctx.Err() == nil:
					t.Errorf("%s: %v", r.address, err)
					return
				case status == 200:
					admitted.Add(1)
				}
			}
		})
	}
	stop := sync.OnceFunc(func() { cancel(); senders.Wait() })
	t.Cleanup(stop)
	return running{&admitted, stop}
}

var h2loadStatuses = regexp.MustCompile(`status codes: (\d+) 2xx`)

// TestRateH2load measures the same with h2load, for longer.
func TestRateH2load(t *testing.T) {
	if !long() {
		t.Skip("LIMITS=long runs it")
	}
	const limit, seconds = 1000, 30
	for _, test := range []struct {
		name  string
		rates [edges]int // per connection, of ten
	}{
		{"even", [edges]int{100, 100, 100}},
		{"uneven", [edges]int{250, 40, 10}},
		{"one", [edges]int{250, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, limitOf(limit))
			var tools sync.WaitGroup
			var admitted atomic.Int64
			began := time.Now()
			for i, rate := range test.rates {
				if rate == 0 {
					continue
				}
				tools.Go(func() {
					command := exec.CommandContext(t.Context(), "h2load", "--h1", "-c", "10", "-D", fmt.Sprint(seconds), "--rps", fmt.Sprint(rate), "http://"+w.replicas[i].address+"/")
					text, err := command.CombinedOutput()
					found := h2loadStatuses.FindSubmatch(text)
					if err != nil || found == nil {
						t.Errorf("h2load: %v\n%s", err, text)
						return
					}
					admitted.Add(int64(must.Get(strconv.Atoi(string(found[1])))(t)))
				})
			}
			tools.Wait()
			took := time.Since(began)
			want := limit*took.Seconds() + limit/4
			t.Logf("%d requests in %s, %+.1f %% of the limit with its burst", admitted.Load(), took.Round(time.Millisecond), 100*(float64(admitted.Load())/want-1))
			if math.Abs(float64(admitted.Load())-want) > 0.05*want {
				t.Errorf("%d requests, want %.0f ± 5 %%", admitted.Load(), want)
			}
		})
	}
}
