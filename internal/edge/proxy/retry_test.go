package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// moody is a backend that fails as in its script, request by request, and
// then responds. Each word is one request.
type moody struct {
	script []string
	at     atomic.Int32
	bodies chan string
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.bodies <- string(body)
	at := int(m.at.Add(1)) - 1
	if at >= len(m.script) {
		fmt.Fprintf(w, "answer %d", at+1)
		return
	}
	switch word, rest, _ := strings.Cut(m.script[at], " "); word {
	case "reset":
		panic(http.ErrAbortHandler)
	case "silent":
		<-r.Context().Done()
	default:
		if rest != "" {
			w.Header().Set("Retry-After", rest)
		}
		status := map[string]int{"500": 500, "502": 502, "503": 503, "504": 504}[word]
		w.WriteHeader(status)
		fmt.Fprintf(w, "error %d", at+1)
	}
}

func retrying(change func(*route.Retry)) route.Policy {
	r := &route.Retry{Attempts: 3, On: []route.RetryCondition{route.RetryConnect, route.RetryReset, route.RetryTimeout, route.RetryUnavailable}}
	if change != nil {
		change(r)
	}
	return route.Policy{Retry: r}
}

func TestRetry(t *testing.T) {
	const get, post = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
	const put = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
	short := func(r *route.Retry) { r.AttemptTimeout = route.Duration(500 * time.Millisecond) }
	unsafe := func(r *route.Retry) { r.UnsafeMethods = true }
	only := func(on ...route.RetryCondition) func(*route.Retry) { return func(r *route.Retry) { r.On = on } }
	statuses := func(codes ...int) func(*route.Retry) {
		return func(r *route.Retry) { r.On, r.Statuses = []route.RetryCondition{route.RetryReset}, codes }
	}
	tests := []struct {
		name     string
		script   string
		request  string
		policies []route.Policy
		status   int
		body     string
		asked    int
	}{
		{"unavailable", "503,502", get, []route.Policy{retrying(nil)}, 200, "answer 3", 3},
		{"the last answer counts", "503,504,502", get, []route.Policy{retrying(nil)}, 502, "error 3", 3},
		{"a status that is named", "500,500", get, []route.Policy{retrying(statuses(500))}, 200, "answer 3", 3},
		{"a status that is not named", "503", get, []route.Policy{retrying(statuses(500))}, 503, "error 1", 1},
		{"a named status and a reset", "500,reset", get, []route.Policy{retrying(statuses(500))}, 200, "answer 3", 3},
		{"500 is an answer", "500", get, []route.Policy{retrying(nil)}, 500, "error 1", 1},
		{"reset", "reset,reset", get, []route.Policy{retrying(nil)}, 200, "answer 3", 3},
		{"reset to the end", "reset,reset,reset", get, []route.Policy{retrying(nil)}, 502, "Bad Gateway\n", 3},
		{"silence", "silent", get, []route.Policy{retrying(short)}, 200, "answer 2", 2},
		{"only what was asked for", "503", get, []route.Policy{retrying(only(route.RetryReset))}, 503, "error 1", 1},
		{"nothing asked for is connecting", "reset", get, []route.Policy{retrying(only())}, 502, "Bad Gateway\n", 1},
		{"not what may not be done twice", "503", post, []route.Policy{retrying(nil)}, 503, "error 1", 1},
		{"a body that has left", "503", put, []route.Policy{retrying(nil)}, 503, "error 1", 1},
		{"a body that has left, by force", "503", post, []route.Policy{retrying(unsafe)}, 503, "error 1", 1},
		{"a body that was kept", "503,reset", put, []route.Policy{retrying(nil), buffers(100, 0)}, 200, "answer 3", 3},
		{"kept, by force", "reset", post, []route.Policy{buffers(100, 0), {Chain: &route.Chain{Policies: []route.Policy{retrying(unsafe)}}}}, 200, "answer 2", 2},
		{"kept, but not by force", "reset", post, []route.Policy{retrying(nil), buffers(100, 0)}, 502, "Bad Gateway\n", 1},
		{"come back at once", "503 0", get, []route.Policy{retrying(nil)}, 200, "answer 2", 2},
		{"come back later", "503 60", get, []route.Policy{retrying(nil)}, 503, "error 1", 1},
		{"come back at some time", "503 tomorrow", get, []route.Policy{retrying(nil)}, 503, "error 1", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			backend := &moody{script: strings.Split(test.script, ","), bodies: make(chan string, 10)}
			e := start(t, edgetest.Table([]netip.AddrPort{edgetest.Backend(t, backend.ServeHTTP)}, test.policies...))
			w := edgetest.Dial(t, e.Address)
			w.Send(test.request)
			response, body := w.Response("GET")
			if response.StatusCode != test.status || body != test.body || int(backend.at.Load()) != test.asked {
				t.Errorf("got %d %q after %d, want %d %q after %d", response.StatusCode, body, backend.at.Load(), test.status, test.body, test.asked)
			}
			for range test.asked {
				if got := <-backend.bodies; test.request != get && got != "body" {
					t.Errorf("the backend got %q", got)
				}
			}
		})
	}
}

// The rule's time for an attempt ends it, and another follows.
func TestRetryAfterAttempt(t *testing.T) {
	backend := &moody{script: []string{"silent"}, bodies: make(chan string, 10)}
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, backend.ServeHTTP)}, retrying(nil))
	table.Rules[0].Timeouts.Attempt = route.Duration(500 * time.Millisecond)
	e := start(t, table)
	if response, body := edgetest.Dial(t, e.Address).Get("/"); response.StatusCode != 200 || body != "answer 2" {
		t.Errorf("got %d %q", response.StatusCode, body)
	}
}

// Another endpoint is asked, where there is one.
func TestRetryElsewhere(t *testing.T) {
	var failed atomic.Int32
	bad := edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		failed.Add(1)
		w.WriteHeader(503)
	})
	good := edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "good") })
	records := make(chan proxy.Record, 100)
	e := start(t, edgetest.Table([]netip.AddrPort{bad, good}, retrying(nil)), func(c *proxy.Config) { c.Observe = func(r *proxy.Record) { records <- *r } })
	w := edgetest.Dial(t, e.Address)
	// A hundred retries are there from the beginning.
	for failed.Load() < 5 {
		if response, body := w.Get("/"); response.StatusCode != 200 || body != "good" {
			t.Fatalf("got %d %q", response.StatusCode, body)
		}
		if r := <-records; r.Endpoint != good.String() || r.Reason != "" {
			t.Errorf("recorded %s after %d retries, %q", r.Endpoint, r.Retries(), r.Reason)
		}
	}
}

// Retries are a part of the load, not a multiple of it.
func TestRetryBudget(t *testing.T) {
	var asked atomic.Int32
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(503)
	})}, retrying(func(r *route.Retry) { r.Attempts = 10 }))
	e := start(t, table)
	const requests = 200
	began := time.Now()
	w := edgetest.Dial(t, e.Address)
	for i := range requests {
		if i == requests/2 {
			e.Apply(t, table) // a change of the table does not fill it up
		}
		if response, _ := w.Get("/"); response.StatusCode != 503 {
			t.Fatalf("got %d", response.StatusCode)
		}
	}
	// One in five, a hundred to begin with, and one a second.
	most := requests + requests/5 + 100 + int32(time.Since(began)/time.Second) + 1
	if got := asked.Load(); got > most || got < requests+requests/5 {
		t.Errorf("%d requests became %d, want at most %d", requests, got, most)
	}
	if e.Stats().RetriesRefused == 0 {
		t.Error("what was refused is not counted")
	}
}

// The waits double, and end with the rule's time.
func TestRetryBackoff(t *testing.T) {
	backend := &moody{script: strings.Split("503,503,503,503,503", ","), bodies: make(chan string, 10)}
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, backend.ServeHTTP)}, retrying(func(r *route.Retry) {
		r.Attempts, r.Backoff = 10, route.Duration(40*time.Millisecond)
	}))
	e := start(t, table)
	began := time.Now()
	if response, _ := edgetest.Dial(t, e.Address).Get("/"); response.StatusCode != 200 {
		t.Errorf("got %d", response.StatusCode)
	}
	// No retry comes before its wait of 40, 80, 160, 320 and 640 ms.
	if took := time.Since(began); took < 1240*time.Millisecond {
		t.Errorf("five waits took %s", took)
	}
	backend = &moody{script: backend.script, bodies: make(chan string, 10)}
	table = edgetest.Table([]netip.AddrPort{edgetest.Backend(t, backend.ServeHTTP)}, table.Rules[0].Policies...)
	table.Rules[0].Timeouts.Total = route.Duration(200 * time.Millisecond)
	e = start(t, table)
	if response, _ := edgetest.Dial(t, e.Address).Get("/"); response.StatusCode != 504 {
		t.Errorf("got %d, want the rule's time to be over", response.StatusCode)
	}
}

// An attempt's time ends with the head of the response: what comes after may take
// as long as it likes.
func TestAttemptTimeoutIsForTheHead(t *testing.T) {
	wait := make(chan struct{})
	e := start(t, edgetest.Table([]netip.AddrPort{raw(t, func(conn net.Conn, read *bufio.Reader) {
		request, err := http.ReadRequest(read)
		if err != nil {
			return
		}
		if request.URL.Path == "/silent" {
			_, _ = read.ReadByte() // until the edge gives up
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfi")
		<-wait
		_, _ = io.WriteString(conn, "ne")
	})}, retrying(func(r *route.Retry) { r.AttemptTimeout = route.Duration(300 * time.Millisecond) })))
	w := edgetest.Dial(t, e.Address)
	w.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	response, err := http.ReadResponse(w.Reader, nil)
	must.Do(t, err)
	defer response.Body.Close()
	// When three attempts without a response are over, so is the time of the first.
	if silent, _ := edgetest.Dial(t, e.Address).Get("/silent"); silent.StatusCode != 504 {
		t.Errorf("got %d", silent.StatusCode)
	}
	close(wait)
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "fine" {
		t.Errorf("got %q and %v", body, err)
	}
}
