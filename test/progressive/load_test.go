package progressive

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// load sends requests at a rate through the edge, and records which version
// responded.
type load struct {
	mu       sync.Mutex
	total    counts
	sent     int
	pending  map[int]bool // requests without a response, by their number
	failure  string
	versions map[string]*version
}

// counts are those of requests.
type counts struct{ requests, failed int }

// since are the counts after earlier ones.
func (c counts) since(earlier counts) counts {
	return counts{c.requests - earlier.requests, c.failed - earlier.failed}
}

// version is what one version served: its first and last response, the counts of all
// requests at both, and its number of responses without one of another version.
type version struct {
	first, last time.Time
	since, to   counts
	recent      int
}

// load starts when the edge serves the host. It ends with the test, or when stop is
// called.
func (w *world) load(t *testing.T, method string, perSecond int) (l *load, stop func()) {
	t.Helper()
	l = &load{pending: map[int]bool{}, versions: map[string]*version{}}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	request := must.Get(http.NewRequest(method, "http://"+w.web+"/", nil))(t)
	request.Host = w.host()
	programs.Eventually(t, func(context.Context) error {
		response, err := client.Do(request.Clone(t.Context()))
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("the status is %d", response.StatusCode)
			}
		}
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		pace(ctx, perSecond, func() {
			number := l.begin()
			running.Go(func() { l.send(client, request.Clone(context.Background()), number) })
		})
	})
	stop = func() {
		cancel()
		running.Wait()
		client.CloseIdleConnections()
	}
	t.Cleanup(stop)
	return l, stop
}

// pace calls do at a rate until the context ends. A busy machine delivers ticks late
// and drops some: what was due by then is made up for, so that the rate holds.
func pace(ctx context.Context, perSecond int, do func()) {
	const most = time.Second // more is not made up for: the machine was away
	gap := time.Second / time.Duration(perSecond)
	ticks := time.NewTicker(gap)
	defer ticks.Stop()
	for due := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := time.Now()
		if now.Sub(due) > most {
			due = now.Add(-most)
		}
		for ; !due.After(now); due = due.Add(gap) {
			do()
		}
	}
}

// begin returns the number of a request.
func (l *load) begin() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	l.pending[l.sent] = true
	return l.sent
}

// settle waits until all requests of now have ended.
func (l *load) settle(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	last := l.sent
	l.mu.Unlock()
	programs.Eventually(t, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for number := range l.pending {
			if number <= last {
				return fmt.Errorf("request %d of %d has no response", number, last)
			}
		}
		return nil
	})
}

// send sends a request and counts its response.
func (l *load) send(client *http.Client, request *http.Request, number int) {
	response, err := client.Do(request)
	name := ""
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		name = response.Header.Get("X-Slipway-Version")
		if err == nil && response.StatusCode >= 500 {
			err = fmt.Errorf("status %d of %s", response.StatusCode, name)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, number)
	l.total.requests++
	if err != nil {
		l.total.failed++
		l.failure = err.Error()
	}
	if name == "" {
		return
	}
	now := time.Now()
	of := l.versions[name]
	if of == nil {
		of = &version{first: now, since: l.total}
		l.versions[name] = of
	}
	of.last, of.to = now, l.total
	for other, one := range l.versions {
		if other != name {
			one.recent = 0
		}
	}
	of.recent++
}

func (l *load) counts() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

func (l *load) lastError() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// span is the time from the first to the last response of a version, and the counts of
// all requests meanwhile.
func (l *load) span(name string) (time.Duration, counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.versions[name]; of != nil {
		return of.last.Sub(of.first), of.to.since(of.since)
	}
	return 0, counts{}
}

// forget forgets the responses of a version.
func (l *load) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.versions, name)
}

// quiet reports a version that responded within a time.
func (l *load) quiet(name string, within time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.versions[name]; of != nil && time.Since(of.last) < within {
		return fmt.Errorf("%s still responds", name)
	}
	return nil
}

// versions is the number of responses of a version without one of another.
func (w *world) versions(t *testing.T, l *load, name string) int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.versions[name]; of != nil {
		return of.recent
	}
	return 0
}
