package shares

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestShares follows a release from the first Pod of the new revision to its end.
func TestShares(t *testing.T) {
	w := newWorld(t)
	stable := w.revisionOf(t, "slipway.dev/demo:v1")

	// The Release is there before the first Pod of the canary: no request goes to a Pod
	// of a revision that is not known.
	w.release(t, stable, revision{"pending", "pending"}, 0, "")
	w.awaitShares(t, 0)
	w.startCanary(t)
	canary := w.revisionOf(t, "slipway.dev/demo:v2")
	c := w.client(t)
	if counts := c.versions(t, w, ingressHost, 100); counts["v1"] != 100 {
		t.Fatalf("before the release knows its canary: %v", counts)
	}

	preview := "  match: {header: {name: X-Slipway-Revision}, cookie: {name: revision, value: next}}\n"
	w.release(t, stable, canary, 0, preview)
	w.awaitEdge(t, canary)
	for _, host := range []string{ingressHost, routeHost} {
		if counts := c.versions(t, w, host, 100); counts["v1"] != 100 {
			t.Errorf("%s without a weight: %v", host, counts)
		}
	}
	for name, headers := range map[string]map[string]string{
		"header": {"X-Slipway-Revision": "canary"}, "commit": {"X-Slipway-Revision": "0123456"}, "cookie": {"Cookie": "a=b; revision=next"},
	} {
		chosen := w.client(t)
		chosen.headers = headers
		for _, host := range []string{ingressHost, routeHost} {
			if counts := chosen.versions(t, w, host, 30); counts["v2"] != 30 {
				t.Errorf("%s by %s: %v", host, name, counts)
			}
		}
	}

	w.release(t, stable, canary, 30, preview)
	w.awaitShares(t, 30)
	for _, host := range []string{ingressHost, routeHost} {
		// The deviation of 1000 draws is 14.5; six of them never come.
		if counts := c.versions(t, w, host, 1000); counts["v2"] < 213 || counts["v2"] > 387 || counts["v1"]+counts["v2"] != 1000 {
			t.Errorf("%s with a share of 30%%: %v", host, counts)
		}
	}
	t.Run("counts", func(t *testing.T) { counted(t, w, c) })
	t.Run("sticky", func(t *testing.T) { stays(t, w) })
	t.Run("changes", func(t *testing.T) { changes(t, w, stable, canary) })

	w.release(t, stable, canary, 50, "  by: client\n")
	w.awaitShares(t, 50)
	if counts := c.versions(t, w, ingressHost, 50); len(counts) != 1 {
		t.Errorf("one client got %v", counts)
	}

	// The canary goes while it has a share, and the release after it.
	w.release(t, stable, canary, 50, "")
	w.awaitShares(t, 50)
	running := w.load(t, 2)
	w.deleteCanary(t)
	if counts := c.versions(t, w, ingressHost, 100); counts["v1"] != 100 {
		t.Errorf("without a canary: %v", counts)
	}
	must.Do(t, w.releases.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.awaitShares(t, -1)
	if counts := c.versions(t, w, ingressHost, 20); counts["v1"] != 20 {
		t.Errorf("after the release: %v", counts)
	}
	running.end(t)
}

// counted checks that each request is in the counts of its revision: in the API, the
// metrics and the access log.
func counted(t *testing.T, w *world, c *client) {
	before := w.counts(t)
	versions := c.versions(t, w, ingressHost, 200)
	for version, n := range c.versions(t, w, routeHost, 200) {
		versions[version] += n
	}
	// A request is counted after the client has its response.
	programs.Eventually(t, func(ctx context.Context) error {
		after := w.counts(t)
		for name, version := range map[string]string{"stable": "v1", "canary": "v2"} {
			from, to := before[name], after[name]
			step := to.Since(&from)
			measured := uint64(0)
			for _, n := range step.Latency {
				measured += uint64(n)
			}
			if step.Requests != uint64(versions[version]) || step.Errors != 0 || measured != step.Requests {
				return fmt.Errorf("%s: %d requests, %d errors and %d latencies, want %d, 0 and as many", name, step.Requests, step.Errors, measured, versions[version])
			}
			metric, err := w.edge.Metric(ctx, "slipway_edge_release_requests_total", `release="web",result="ok",revision="`+name+`"`)
			if err != nil || metric != float64(to.Requests) {
				return fmt.Errorf("%s: the metric is %v, want %d: %w", name, metric, to.Requests, err)
			}
		}
		if weight, err := w.edge.Metric(ctx, "slipway_edge_release_weight", `revision="canary"`); err != nil || weight != 30 {
			return fmt.Errorf("the weight is %v: %w", weight, err)
		}
		return nil
	})
	for _, name := range []string{"stable", "canary"} {
		w.edge.Out.WaitFor(t, `"ServiceRevision":"`+name+`"`)
	}
}

// stays checks that clients with a sticky cookie stay with their revision, and leave it
// when it has no share.
func stays(t *testing.T, w *world) {
	cookies := map[string]string{} // by version
	for i := 0; len(cookies) < 2 && i < 200; i++ {
		version, cookie, err := w.client(t).get(t.Context(), w, stickyHost)
		must.Do(t, err)
		cookies[version] = cookie
	}
	for version, cookie := range cookies {
		c := w.client(t)
		c.headers["Cookie"] = cookie
		if counts := c.versions(t, w, stickyHost, 50); counts[version] != 50 {
			t.Errorf("a client of %s with %s got %v", version, cookie, counts)
		}
	}
	if len(cookies) != 2 {
		t.Errorf("cookies %v", cookies)
	}
}

// changes changes the weights under load. No request fails, and what is live is what was
// written.
func changes(t *testing.T, w *world, stable, canary revision) {
	running := w.load(t, 4)
	c := w.client(t)
	for i, weight := range []int{0, 100, 0, 50, 100, 1, 99, 0, 100, 0} {
		w.release(t, stable, canary, weight, "")
		took := w.awaitShares(t, weight)
		t.Logf("change %d to %d%% was live %s after it was written", i, weight, took)
		if weight == 0 || weight == 100 {
			want := map[int]string{0: "v1", 100: "v2"}[weight]
			if counts := c.versions(t, w, ingressHost, 30); counts[want] != 30 {
				t.Errorf("at %d%%: %v", weight, counts)
			}
		}
	}
	running.end(t)
}

// loading are clients that send requests all the time.
type loading struct {
	stop      context.CancelFunc
	clients   sync.WaitGroup
	succeeded atomic.Int64
	failures  chan error
}

// load starts clients that send requests, one after the other, to both hosts.
func (w *world) load(t *testing.T, clients int) *loading {
	ctx, cancel := context.WithCancel(t.Context())
	l := &loading{stop: cancel, failures: make(chan error, clients)}
	for i := range clients {
		host := []string{ingressHost, routeHost}[i%2]
		c := w.client(t)
		l.clients.Go(func() {
			for ctx.Err() == nil {
				if _, _, err := c.get(context.WithoutCancel(ctx), w, host); err != nil {
					l.failures <- fmt.Errorf("%s: %w", host, err)
					return
				}
				l.succeeded.Add(1)
			}
		})
	}
	return l
}

// end stops the clients. None of their requests may have failed.
func (l *loading) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.clients.Wait()
	close(l.failures)
	for err := range l.failures {
		t.Error(err)
	}
	if l.succeeded.Load() == 0 {
		t.Error("no request was sent")
	}
	t.Logf("%d requests succeeded", l.succeeded.Load())
}
