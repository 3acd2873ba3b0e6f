package observe_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/programs"
)

// running is a server under test.
type running struct {
	url  string
	host string
	stop context.CancelFunc
	done chan error
}

// start runs a server on a free port until the test ends.
func start(t *testing.T, serve func(context.Context, net.Listener) error) *running {
	t.Helper()
	listener := programs.Listen(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{host: listener.Addr().String(), url: "http://" + listener.Addr().String(), stop: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- serve(ctx, listener)
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		for err := range r.done {
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

func startHealth(t *testing.T, health *observe.Health, metrics *observe.Metrics) *running {
	return start(t, func(ctx context.Context, listener net.Listener) error {
		return observe.ServeHealth(ctx, listener, health, metrics, slog.New(slog.DiscardHandler))
	})
}

func startAdmin(t *testing.T) *running {
	return start(t, func(ctx context.Context, listener net.Listener) error {
		return observe.ServeAdmin(ctx, listener, slog.New(slog.DiscardHandler))
	})
}

// get makes a request and gives status and body.
func get(t *testing.T, url string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	for _, c := range change {
		c(request)
	}
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer func() { _ = response.Body.Close() }()
	body := must.Get(io.ReadAll(io.LimitReader(response.Body, 16<<20)))(t)
	return response.StatusCode, string(body)
}

func TestReadiness(t *testing.T) {
	var health observe.Health
	server := startHealth(t, &health, observe.NewMetrics("v1", "c1"))
	expect := func(step string, status int, body string) {
		t.Helper()
		if s, b := get(t, server.url+"/readyz"); s != status || b != body {
			t.Errorf("%s: got %d %q, want %d %q", step, s, b, status, body)
		}
		if health.Ready() != (status == http.StatusOK) {
			t.Errorf("%s: Ready is %v", step, health.Ready())
		}
		if s, b := get(t, server.url+"/healthz"); s != http.StatusOK || b != "ok\n" {
			t.Errorf("%s: healthz is %d %q", step, s, b)
		}
	}
	expect("nothing declared", 503, "not ready\nprocess: it is starting\n")
	listeners := health.Condition("listeners", "no port is open yet")
	routes := health.Condition("routes", "no table is live yet")
	expect("declared", 503, "not ready\nlisteners: no port is open yet\nroutes: no table is live yet\n")
	listeners.Met()
	expect("one met", 503, "not ready\nroutes: no table is live yet\n")
	routes.Met()
	expect("all met", 200, "ready\n")
	routes.Unmet("the table is gone")
	expect("unmet again", 503, "not ready\nroutes: the table is gone\n")
	health.Condition("routes", "declared twice").Met()
	expect("met by another holder", 200, "ready\n")
	health.Stopping()
	expect("stopping", 503, "not ready\nprocess: it is stopping\n")
}

func TestMetrics(t *testing.T) {
	metrics := observe.NewMetrics("v1.2.3", "abcdef")
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."})
	metrics.For("edge").MustRegister(counter)
	counter.Add(3)
	server := startHealth(t, &observe.Health{}, metrics)
	_, body := get(t, server.url+"/metrics")
	for _, want := range []string{
		`slipway_build_info{commit="abcdef",goversion="go`,
		`version="v1.2.3"} 1`,
		"\nslipway_edge_requests_total 3\n",
		"\ngo_goroutines ",
		"\nprocess_resident_memory_bytes ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}

// TestHealthServesNothingElse: this port is open to the cluster.
func TestHealthServesNothingElse(t *testing.T) {
	server := startHealth(t, &observe.Health{}, observe.NewMetrics("", ""))
	for _, path := range []string{"/", "/debug/pprof/", "/debug/pprof/heap", "/readyz/"} {
		if status, _ := get(t, server.url+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	status, _ := get(t, server.url+"/readyz", func(r *http.Request) { r.Method = http.MethodPost })
	if status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}

func TestProfiles(t *testing.T) {
	server := startAdmin(t)
	for path, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile:",
		"/debug/pprof/heap":              "\x1f\x8b", // gzip
		"/debug/pprof/profile?seconds=1": "\x1f\x8b",
		"/debug/pprof/symbol":            "num_symbols",
	} {
		if status, body := get(t, server.url+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.60q", path, status, body)
		}
	}
	// The command line may hold a token.
	if status, body := get(t, server.url+"/debug/pprof/cmdline"); status != http.StatusNotFound || strings.Contains(body, "test.") {
		t.Errorf("cmdline: %d %.60q", status, body)
	}
	for _, path := range []string{"/healthz", "/metrics", "/"} {
		if status, _ := get(t, server.url+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestRebinding: what a browser sends when a page of another site makes it
// connect to the admin server.
func TestRebinding(t *testing.T) {
	server := startAdmin(t)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Add(name, value) }
	}
	host := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Host = name }
	}
	own := "http://" + server.host
	for _, c := range []struct {
		name   string
		change []func(*http.Request)
		status int
	}{
		{"plain", nil, 200},
		{"localhost", []func(*http.Request){host("localhost:8090")}, 200},
		{"no port", []func(*http.Request){host("LOCALHOST")}, 200},
		{"IPv6", []func(*http.Request){host("[::1]:8090")}, 200},
		{"forwarded port", []func(*http.Request){host("127.0.0.1:9999")}, 200},
		{"typed in a browser", []func(*http.Request){header("Sec-Fetch-Site", "none")}, 200},
		{"own page", []func(*http.Request){header("Sec-Fetch-Site", "same-origin"), header("Origin", own)}, 200},
		{"rebound name", []func(*http.Request){host("evil.example:8090")}, 403},
		{"rebound name, own origin", []func(*http.Request){host("evil.example"), header("Origin", "http://evil.example")}, 403},
		{"name that starts like an address", []func(*http.Request){host("127.0.0.1.evil.example")}, 403},
		{"name that ends in localhost", []func(*http.Request){host("evil.localhost")}, 403},
		{"user before the host", []func(*http.Request){host("localhost@evil.example")}, 403},
		{"address of the network", []func(*http.Request){host("10.0.0.1:8090")}, 403},
		{"script of another site", []func(*http.Request){header("Origin", "https://evil.example")}, 403},
		{"another port of localhost", []func(*http.Request){header("Origin", "http://localhost:3000")}, 403},
		{"sandboxed page", []func(*http.Request){header("Origin", "null")}, 403},
		{"two origins", []func(*http.Request){header("Origin", own), header("Origin", "http://evil.example")}, 403},
		{"image in another site", []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 403},
		{"another local page", []func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 403},
	} {
		status, body := get(t, server.url+"/debug/pprof/symbol", c.change...)
		if status != c.status || (status == 403) != strings.HasPrefix(body, "refused: ") {
			t.Errorf("%s: got %d %q, want %d", c.name, status, body, c.status)
		}
	}
	if status, _ := get(t, server.url+"/debug/pprof/symbol", func(r *http.Request) { r.Method = http.MethodPost }); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}

// TestNoHost: HTTP/1.0 needs no Host header.
func TestNoHost(t *testing.T) {
	server := startAdmin(t)
	conn := must.Get(net.Dial("tcp", server.host))(t)
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "GET /debug/pprof/symbol HTTP/1.0\r\n\r\n")
	response := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("got %d", response.StatusCode)
	}
}

func TestAdminRefusesOpenAddress(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		listener, err := net.Listen("tcp", address)
		must.Do(t, err)
		err = observe.ServeAdmin(t.Context(), listener, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "which others can reach") {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener is open: %v", address, err)
		}
	}
}

func TestHeaderLimit(t *testing.T) {
	server := startHealth(t, &observe.Health{}, observe.NewMetrics("", ""))
	status, _ := get(t, server.url+"/healthz", func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 64<<10)) })
	if status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d", status)
	}
}

// TestStopEndsProfiles: a profile that runs for a minute does not hold up the
// end of the process.
func TestStopEndsProfiles(t *testing.T) {
	server := startAdmin(t)
	answered := make(chan int, 1)
	go func() {
		response, err := http.Get(server.url + "/debug/pprof/trace?seconds=60")
		if err != nil {
			answered <- 0
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	// The profile runs when its handler waits for the time to pass.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, stacks := get(t, server.url+"/debug/pprof/goroutine?debug=1"); strings.Contains(stacks, "net/http/pprof.sleep") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the profile did not start")
		}
	}
	begin := time.Now()
	server.stop()
	if err := <-server.done; err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the profile ended with %d", status)
	}
}

func TestBrokenListener(t *testing.T) {
	listener := programs.Listen(t, "")
	must.Do(t, listener.Close())
	var out bytes.Buffer
	log, err := observe.NewLogger(&out, "info", "json")
	must.Do(t, err)
	err = observe.ServeAdmin(t.Context(), listener, log)
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), `"server":"admin"`) {
		t.Errorf("log: %s", out.String())
	}
}
