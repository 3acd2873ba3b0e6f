package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
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
	e.detects(t)
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
	for _, one := range []struct {
		timeout time.Duration
		counts  string
	}{{100 * time.Millisecond, "stable 0/0 canary 0/0 "}, {3 * time.Second, "stable 0/0 canary 1/1 "}} {
		get(one.timeout)
		programs.Until(t, "the end of the request", func() bool { return e.Clients() == 0 })
		if got := e.counts(); got != one.counts {
			t.Errorf("counted %q after %s, want %q", got, one.timeout, one.counts)
		}
	}
}

// detecting is a connection that detects that its client has left, as that of a listener does.
type detecting struct{ *net.TCPConn }

func (c detecting) Gone() (gone bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) {
		var first [1]byte
		n, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == syscall.ECONNRESET
	})
	return gone
}

// detects serves connections that detect that their clients have left.
func (e *edge) detects(t *testing.T) {
	t.Helper()
	e.Address = programs.Serve(t, "", func(conn net.Conn) {
		e.ServeHTTP1(detecting{conn.(*net.TCPConn)}, edgetest.Accepted(conn, proxy.Accepted{}))
	}).String()
	t.Cleanup(e.Drain)
}

// TestCanaryThatDoesNotRespond: a request that the canary leaves without a response for far
// longer than the stable revision needs is sent to that one. It is an error of the canary if
// the stable revision responds faster.
func TestCanaryThatDoesNotRespond(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct {
		name, request string
		known         int           // responses of the stable revision before
		takes         time.Duration // of the stable revision, for this request
		stream        bool
		want          int // 0 for no response
		counts        string
	}{
		{"quick elsewhere", get + "\r\n", 200, 0, false, 200, "stable 0/200 canary 1/1 "},
		{"by a stream", get + "\r\n", 200, 0, true, 200, "stable 0/200 canary 1/1 "},
		{"slow everywhere", get + "\r\n", 200, 1500 * time.Millisecond, false, 200, "stable 0/200 canary 0/0 "},
		{"few known", get + "\r\n", 199, 0, false, 0, "stable 0/199 canary 1/1 "},
		{"with an effect", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 200, 0, false, 0, "stable 0/200 canary 1/1 "},
		{"selected", get + "X-Revision: canary\r\n\r\n", 200, 0, false, 0, "stable 0/200 canary 1/1 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := released(t, 1, func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Revision") == "" {
					<-time.After(c.takes)
				}
			}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			e.detects(t)
			known := edgetest.Dial(t, e.Address)
			for range c.known {
				known.Get("/", "X-Revision: stable")
			}
			w := edgetest.Dial(t, e.Address)
			if c.stream {
				w = e.stream(t)
			}
			w.Send(c.request)
			if c.want > 0 {
				if response, _ := w.Response(http.MethodGet); response.StatusCode != c.want {
					t.Errorf("the status is %d, want %d", response.StatusCode, c.want)
				}
			} else if got, ok := responds(w, 3500*time.Millisecond); ok {
				t.Errorf("there was a response: %q", got)
			}
			w.Close()
			programs.Eventually(t, func(context.Context) error {
				if got := e.counts(); got != c.counts {
					return fmt.Errorf("counted %q, want %q", got, c.counts)
				}
				return nil
			})
		})
	}
}

// responds reports whether anything comes within a time.
func responds(w *edgetest.Wire, within time.Duration) (string, bool) {
	_ = w.SetReadDeadline(time.Now().Add(within))
	first, err := w.Reader.Peek(1)
	return string(first), err == nil
}
