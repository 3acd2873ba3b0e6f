package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// released serves a stable revision and a canary, which is drawn always but for one
// request of a million.
func released(t *testing.T, stable uint32, ofStable, ofCanary http.HandlerFunc) *edge {
	t.Helper()
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, ofStable), edgetest.Backend(t, ofCanary)})
	backend := table.Backends[0]
	backend.Endpoints[0].Revision, backend.Endpoints[1].Revision = route.RevisionStable, route.RevisionCanary
	backend.Release = &route.Release{
		Name: "web", Stable: route.RevisionShare{Hash: "a", Weight: stable}, Canary: route.RevisionShare{Hash: "b", Weight: 1_000_000 * max(stable, 1)},
		Header: &route.ReleaseMatch{Name: "X-Revision"},
	}
	return start(t, table)
}

// counts returns requests and errors of both revisions.
func (e *edge) counts() string {
	text := ""
	for _, release := range e.Upstreams.Releases() {
		for _, one := range release.Revisions {
			text += fmt.Sprintf("%s %d/%d ", one.Name, one.Errors, one.Requests)
		}
	}
	return text
}

// TestErrorsOfTheCanary: a request that may be repeated without an effect, and that the
// canary fails, is sent to the stable revision. Only the canary's part is counted.
func TestErrorsOfTheCanary(t *testing.T) {
	const get, post = "GET / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
	for _, c := range []struct {
		name, request string
		status        int // of the canary; 0 closes the connection
		weight        uint32
		want          int
		counts        string
	}{
		{"error", get + "\r\n", 500, 1, 200, "stable 0/0 canary 1/1 "},
		{"unavailable", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", 503, 1, 200, "stable 0/0 canary 1/1 "},
		{"no response", get + "\r\n", 0, 1, 200, "stable 0/0 canary 1/1 "},
		{"not implemented", get + "\r\n", 501, 1, 501, "stable 0/0 canary 1/1 "},
		{"not found", get + "\r\n", 404, 1, 404, "stable 0/0 canary 0/1 "},
		{"with an effect", post + "\r\n", 500, 1, 500, "stable 0/0 canary 1/1 "},
		{"selected", get + "X-Revision: canary\r\n\r\n", 500, 1, 500, "stable 0/0 canary 1/1 "},
		{"without a stable revision", get + "\r\n", 500, 0, 500, "stable 0/0 canary 1/1 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := released(t, c.weight, func(http.ResponseWriter, *http.Request) {}, func(w http.ResponseWriter, _ *http.Request) {
				if c.status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(c.status)
			})
			w := edgetest.Dial(t, e.Address)
			w.Send(c.request)
			if response, _ := w.Response(c.request[:4]); response.StatusCode != c.want {
				t.Errorf("the status is %d, want %d", response.StatusCode, c.want)
			}
			e.rest()
			if got := e.counts(); got != c.counts {
				t.Errorf("counted %q, want %q", got, c.counts)
			}
		})
	}
}

// TestErrorsOfBothRevisions: a request that fails everywhere is sent to each revision once, and
// few of them are.
func TestErrorsOfBothRevisions(t *testing.T) {
	var retries atomic.Int64
	fails := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	e := released(t, 1, func(w http.ResponseWriter, r *http.Request) {
		retries.Add(1)
		fails(w, r)
	}, fails)
	w := edgetest.Dial(t, e.Address)
	if response, _ := w.Get("/"); response.StatusCode != http.StatusBadGateway || retries.Load() != 1 {
		t.Errorf("the status is %d after %d retries", response.StatusCode, retries.Load())
	}
	// Retries of no use are bounded, so that two revisions that fail get few more requests.
	began := time.Now()
	for range 299 {
		w.Get("/")
	}
	if most := 101 + int64(time.Since(began)/time.Second); retries.Load() < 100 || retries.Load() > most {
		t.Errorf("%d requests were sent again, want 100", retries.Load())
	}
	e.rest()
	if got := e.counts(); got != "stable 0/0 canary 300/300 " {
		t.Errorf("counted %s", got)
	}
}

// TestClientsThatGiveUp: a canary that does not respond has errors, although its clients
// leave. One that a client leaves at once has none.
func TestClientsThatGiveUp(t *testing.T) {
	e := released(t, 1, edgetest.Echo, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	get := func(timeout time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address, nil)
		if err == nil {
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			_, err = client.Do(request)
		}
		if err == nil {
			t.Error("there was a response")
		}
	}
	get(100 * time.Millisecond)
	get(3 * time.Second)
	programs.Eventually(t, func(context.Context) error {
		if got := e.counts(); got != "stable 0/0 canary 1/1 " {
			return fmt.Errorf("counted %q", got)
		}
		return nil
	})
}
