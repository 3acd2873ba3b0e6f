package shadow

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
)

// serve runs a handler and returns it as a controller.
func serve(t *testing.T, handler http.HandlerFunc) *Target {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newTarget(t, server.URL, TargetOptions{})
}

func newTarget(t *testing.T, address string, options TargetOptions) *Target {
	t.Helper()
	options.Timeout, options.MaxBody = time.Minute, 1<<20
	target := must.Get(NewTarget(address, options))(t)
	t.Cleanup(target.Close)
	return target
}

// pages responds with the pages in turn, and with the last one from then on.
func pages(pages ...string) http.HandlerFunc {
	var number atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		at := min(int(number.Add(1)), len(pages)) - 1
		fmt.Fprint(w, pages[at])
	}
}

// compare compares requests with two retries.
func compare(t *testing.T, old, fresh *Target, requests ...*Request) *Report {
	t.Helper()
	return must.Get(Run(t.Context(), Options{
		Old: []*Target{old}, New: []*Target{fresh}, Methods: []string{"GET", "POST"}, Compare: NewComparer(nil, nil), Concurrency: 4, Retries: 2,
	}, func(ctx context.Context, intake *Intake) error {
		for _, request := range requests {
			intake.Submit(ctx, request)
		}
		return nil
	}))(t)
}

func get(target string) *Request {
	return &Request{Method: "GET", Host: "shop.example", Target: target, Header: http.Header{}}
}

// TestConfirm: a difference counts if each retry has it and the old side does not differ
// from itself.
func TestConfirm(t *testing.T) {
	long := strings.Repeat("a", 1<<20) // the limit of bodies here
	for _, test := range []struct {
		name       string
		old, fresh []string
		method     string
		want       Counts
	}{
		{"same", []string{"a"}, []string{"a"}, "GET", Counts{Compared: 1, Same: 1}},
		{"different", []string{"a"}, []string{"b"}, "GET", Counts{Compared: 1, Different: 1}},
		{"old unstable", []string{"a", "b", "c"}, []string{"d"}, "GET", Counts{Compared: 1, Unstable: 1}},
		{"new always another", []string{"a"}, []string{"b", "b", "c"}, "GET", Counts{Compared: 1, Different: 1}},
		{"new different once", []string{"a"}, []string{"b", "a"}, "GET", Counts{Compared: 1, Transient: 1}},
		{"new different twice", []string{"a"}, []string{"b", "b", "a"}, "GET", Counts{Compared: 1, Transient: 1}},
		{"a longer body", []string{long}, []string{long + "b"}, "GET", Counts{Compared: 1, Different: 1}},
		{"more than is compared", []string{long + "a"}, []string{long + "b"}, "GET", Counts{Compared: 1, Same: 1}},
		{"old unstable late", []string{"a", "a", "b"}, []string{"d"}, "GET", Counts{Compared: 1, Unstable: 1}},
		{"an unsafe method once", []string{"a", "b"}, []string{"b", "a"}, "POST", Counts{Compared: 1, Different: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := get("/")
			request.Method = test.method
			report := compare(t, serve(t, pages(test.old...)), serve(t, pages(test.fresh...)), request)
			if report.Counts != test.want {
				t.Errorf("the counts are %+v, want %+v", report.Counts, test.want)
			}
		})
	}
}

// TestTransient: a part that both have changed in the same way is not reported. The header
// is another at first, and the status of neither changes.
func TestTransient(t *testing.T) {
	var calls atomic.Int64
	handler := func(w http.ResponseWriter, _ *http.Request) {
		// The pair of the first copy differs: one of the two gets the number 1.
		if calls.Add(1) == 1 {
			w.Header().Set("X-First", "1")
		}
	}
	report := compare(t, serve(t, handler), serve(t, handler), get("/"))
	if report.Different != 0 || report.Unstable+report.Transient != 1 {
		t.Errorf("the counts are %+v", report.Counts)
	}
}

// TestTLS: the handshake has the host of the request, whose certificate is verified.
func TestTLS(t *testing.T) {
	files := pkitest.NewFiles(t, "shop.example")
	pair := must.Get(tls.X509KeyPair(files.Cert, files.Key))(t)
	names := make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names <- r.TLS.ServerName + " " + r.Host + " " + r.RequestURI + " " + r.Header.Get("X-Forwarded-For")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	trusting := newTarget(t, server.URL, TargetOptions{Roots: files.Roots, ForwardClient: true})
	request := get("/a%2fb//c?q=%20")
	request.Host, request.Client = "shop.example:8443", "192.0.2.1"
	if got := trusting.Send(t.Context(), request); got.Status != http.StatusOK {
		t.Fatalf("got %+v", got)
	}
	if got, want := <-names, "shop.example shop.example:8443 /a%2fb//c?q=%20 192.0.2.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, test := range map[string]struct {
		host    string
		options TargetOptions
		want    string
	}{
		"another host":           {"other.example", TargetOptions{Roots: files.Roots}, FailureTLS},
		"an unknown authority":   {"shop.example", TargetOptions{}, FailureTLS},
		"without a verification": {"other.example", TargetOptions{Insecure: true}, ""},
	} {
		request := get("/")
		request.Host = test.host
		if got := newTarget(t, server.URL, test.options).Send(t.Context(), request); got.Failure != test.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestSpelling: targets arrive as they are.
func TestSpelling(t *testing.T) {
	got := make(chan string, 1)
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI })
	for _, path := range []string{"/", "/?", "//a", "//a/%2f?x", "/a/../b/./c", "/%7e~", "/a;b=c", "/ä", "/a?b=%zz", "/*", "/a#b"} {
		if response := target.Send(t.Context(), get(path)); response.Failure != "" {
			t.Errorf("%s: %+v", path, response)
		} else if arrived := <-got; arrived != path {
			t.Errorf("%s arrived as %s", path, arrived)
		}
	}
}

// TestMirrorLimits: a mirror that sends more than can be compared does not wait, and a
// comparison ends at its limit while copies arrive.
func TestMirrorLimits(t *testing.T) {
	release := make(chan struct{})
	slow := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	options := Options{Old: []*Target{slow}, New: []*Target{slow}, Methods: SafeMethods(), Compare: NewComparer(nil, nil), Concurrency: 2, Max: queueLength + 100}
	report := must.Get(Run(t.Context(), options, func(_ context.Context, intake *Intake) error {
		handler := Handler(intake)
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range queueLength / 4 {
					recorder := httptest.NewRecorder()
					handler.ServeHTTP(recorder, httptest.NewRequest("GET", "http://shop.example/", nil))
					if recorder.Code != http.StatusNoContent {
						t.Errorf("status %d", recorder.Code)
					}
				}
			})
		}
		clients.Wait()
		<-intake.Done()
		close(release)
		return nil
	}))(t)
	if report.SkippedBy[SkipQueue] == 0 || report.Compared+report.Skipped != options.Max {
		t.Errorf("the counts are %+v, skipped %v", report.Counts, report.SkippedBy)
	}
}

// TestHandlerSkips: what is not compared is not sent.
func TestHandlerSkips(t *testing.T) {
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.RequestURI) })
	options := Options{Old: []*Target{target}, New: []*Target{target}, Methods: append(SafeMethods(), "PUT"), Compare: NewComparer(nil, nil)}
	report := must.Get(Run(t.Context(), options, func(_ context.Context, intake *Intake) error {
		for _, change := range []func(*http.Request){
			func(r *http.Request) { r.Method = "DELETE" },
			func(r *http.Request) { r.Header.Set(Marker, "1") },
			func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
			func(r *http.Request) { r.RequestURI = "*" },
			func(r *http.Request) { r.Host = "" },
			func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") },
		} {
			request := httptest.NewRequest("GET", "http://shop.example/", nil)
			request.RequestURI = "/"
			change(request)
			Handler(intake).ServeHTTP(httptest.NewRecorder(), request)
		}
		large := httptest.NewRequest("PUT", "http://shop.example/", strings.NewReader(strings.Repeat("x", maxCopyBody+1)))
		Handler(intake).ServeHTTP(httptest.NewRecorder(), large)
		return nil
	}))(t)
	for _, reason := range []string{SkipMethod, SkipOwn, SkipUpgrade, SkipTarget, SkipHost, SkipScheme, SkipBody} {
		if report.SkippedBy[reason] != 1 {
			t.Errorf("skipped because %s: %d", reason, report.SkippedBy[reason])
		}
	}
}

// TestStopped: the end of the context is no difference, and the report has what was
// compared before.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	stuck := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 3 {
			cancel()
		}
		if r.URL.Path == "/stuck" {
			<-r.Context().Done()
		}
	})
	report := must.Get(Run(ctx, Options{Old: []*Target{stuck}, New: []*Target{stuck}, Methods: SafeMethods(), Compare: NewComparer(nil, nil), Concurrency: 1}, func(ctx context.Context, intake *Intake) error {
		for _, path := range []string{"/", "/stuck", "/after"} {
			intake.Submit(ctx, get(path))
		}
		return nil
	}))(t)
	if report.Compared != 1 || report.Different != 0 || report.SkippedBy[SkipStopped] != 2 {
		t.Errorf("the counts are %+v, skipped %v", report.Counts, report.SkippedBy)
	}
}

// TestFollowedLog: a log that is followed ends with the context, while nothing is written.
func TestFollowedLog(t *testing.T) {
	target := serve(t, func(http.ResponseWriter, *http.Request) {})
	read, write := io.Pipe()
	t.Cleanup(func() { _ = write.Close() })
	go func() { _, _ = fmt.Fprintln(write, combined) }()
	ctx, cancel := context.WithCancel(t.Context())
	options := Options{
		Old: []*Target{target}, New: []*Target{target}, Methods: SafeMethods(), Compare: NewComparer(nil, nil), Concurrency: 1,
		Interval: time.Millisecond, Progress: func(counts Counts) {
			if counts.Compared == 1 {
				cancel()
			}
		},
	}
	report := must.Get(Run(ctx, options, func(ctx context.Context, intake *Intake) error {
		return ReadLog(ctx, read, &LogParser{Host: "shop.example"}, intake)
	}))(t)
	if report.Compared != 1 {
		t.Errorf("the counts are %+v, skipped %v", report.Counts, report.SkippedBy)
	}
}
