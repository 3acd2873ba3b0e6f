package resilience

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	// rate is how many requests the honest client makes in a second, whatever
	// becomes of them: a slow response does not lower its rate.
	rate = 100
	// baseline is how long it is watched before an attack.
	baseline = 2 * time.Second
	// answerTimeout is when a missing response counts as an error.
	answerTimeout = 10 * time.Second
	// settleTimeout is how long the edge may take to clean up. It keeps unused
	// connections to a backend for 30 s.
	settleTimeout = 45 * time.Second
)

// floor is a latency that is never too much. The attacker, the honest client,
// the backend and the edge share a few cores; what the others take is not the
// edge's fault. A short test runs while other packages are tested.
func floor() time.Duration {
	if long() {
		return 200 * time.Millisecond
	}
	return 1500 * time.Millisecond
}

// floodFloor is the floor for floods, against which an edge can do something: in
// a long test it is about what a process waits for a processor that another one
// has, once in a hundred requests, on a machine where nothing else runs.
func floodFloor() time.Duration {
	if long() {
		return 3 * time.Millisecond
	}
	return floor()
}

// echo is a backend that responds with the path, once it has the whole body.
// It gives many bytes to who asks for /large.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path == "/large" {
			piece := make([]byte, 32<<10)
			for range 256 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
			return
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).AddrPort()
}

// startEdge serves everything from an echo.
func startEdge(t *testing.T, points []string, arguments ...string) *edgeprocess.Edge {
	t.Helper()
	backend := edgeprocess.Backend("echo", echo(t))
	return edgeprocess.Start(t, edgeprocess.Options{EntryPoints: points, Arguments: arguments, Table: &route.Table{
		Rules:    []*route.Rule{{ID: route.ID{Name: "all"}, Backends: edgeprocess.To(backend)}},
		Backends: []*route.Backend{backend},
	}})
}

// report is what the honest client went through.
type report struct {
	requests int
	errors   []error
	p50, p99 time.Duration
	worst    time.Duration
}

func (r report) String() string {
	return fmt.Sprintf("%d requests, %d errors, p50 %v, p99 %v, worst %v", r.requests, len(r.errors), r.p50.Round(10*time.Microsecond), r.p99.Round(10*time.Microsecond), r.worst.Round(10*time.Microsecond))
}

// honestly is how the honest client connects.
type honestly int

const (
	// manyConns are as many connections as there are requests at a time.
	manyConns honestly = 0
	// oneConn is one connection that is kept: requests wait for each other.
	oneConn honestly = 1
)

// honest asks the edge for something rate times a second until the test makes it
// stop. It has connected when this returns, and what it returns stops it and
// reports.
func honest(address string, how honestly) (stop func() report) {
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{MaxIdleConnsPerHost: rate, MaxConnsPerHost: int(how)}
	var mu sync.Mutex
	var all []time.Duration
	var failed []error
	if err := ask(transport, "http://"+address+"/first", "/first"); err != nil {
		failed = append(failed, err)
	}
	var working, asking sync.WaitGroup
	working.Go(func() {
		tick := time.NewTicker(time.Second / rate)
		defer tick.Stop()
		for number := 0; ; number++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			asking.Go(func() {
				began := time.Now()
				err := ask(transport, fmt.Sprintf("http://%s/honest-%d", address, number), fmt.Sprintf("/honest-%d", number))
				took := time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, took)
				if err != nil {
					failed = append(failed, err)
				}
			})
		}
	})
	return func() report {
		cancel()
		working.Wait()
		asking.Wait()
		transport.CloseIdleConnections()
		slices.Sort(all)
		r := report{requests: len(all), errors: failed}
		if len(all) > 0 {
			r.p50, r.p99, r.worst = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
		}
		return r
	}
}

// ask makes one request and checks that the response is its own.
func ask(transport *http.Transport, url, want string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != want) {
		err = fmt.Errorf("status %d and %.80q, not %q", response.StatusCode, body, want)
	}
	return err
}

// watch is the honest client for a while.
func watch(address string, how honestly, duration time.Duration) report {
	stop := honest(address, how)
	<-time.After(duration)
	return stop()
}

// compare fails the test if the honest client suffered: if it waited more than
// twice as long as before, and more than the floor.
func compare(t *testing.T, before, during report, floor time.Duration) {
	t.Helper()
	t.Logf("before: %v", before)
	t.Logf("during: %v; p99 is %.1f times what it was", during, float64(during.p99)/float64(max(before.p99, 1)))
	for i, err := range append(before.errors, during.errors...) {
		if i == 5 {
			break
		}
		t.Errorf("the honest client got an error: %v", err)
	}
	if limit := max(2*before.p99, floor); during.p99 > limit {
		t.Errorf("the honest client waited %v, and not more than %v is fine", during.p99, limit)
	}
}

// vitals are what an edge uses.
type vitals struct {
	memory     int64
	files      int
	goroutines int
}

func measure(t *testing.T, e *edgeprocess.Edge) vitals {
	t.Helper()
	e.Collect(t)
	return vitals{e.Memory(t), e.Files(t), e.Goroutines(t)}
}

// spare is what an edge may have more than before: what the measuring itself
// takes, and a few connections that the honest client left.
const spare = 20

// pooled is how many unused connections to the backend count as files that may
// be open. The edge keeps up to 256 for 30 s, and a short test does not wait.
func pooled() int {
	if long() {
		return 0
	}
	return 256
}

// settles waits until the edge uses no more than before.
func settles(t *testing.T, e *edgeprocess.Edge, before vitals) {
	t.Helper()
	becomes(t, "goroutines", before.goroutines+spare, func() int { return e.Goroutines(t) })
	becomes(t, "files", before.files+spare+pooled(), func() int { return e.Files(t) })
	now := measure(t, e)
	t.Logf("after:  %d files, %d goroutines, %d MB; before: %d, %d, %d MB",
		now.files, now.goroutines, now.memory>>20, before.files, before.goroutines, before.memory>>20)
}

// becomes waits until a number is small enough.
func becomes(t *testing.T, what string, limit int, count func() int) {
	t.Helper()
	now := count()
	for deadline := time.Now().Add(settleTimeout); now > limit; now = count() {
		if time.Now().After(deadline) {
			t.Errorf("the edge keeps %d %s, and not more than %d are fine", now, what, limit)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}
