package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func pagesFor(from, to int) route.Policy {
	return route.Policy{ErrorPages: &route.ErrorPages{
		Statuses: []route.StatusRange{{From: from, To: to}}, Backend: edgetest.BackendID("pages"), Path: "/pages/{status}.html",
	}}
}

// failing responds with the status that its path has.
func failing(w http.ResponseWriter, r *http.Request) {
	var status int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
		status = 200
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Language", "en")
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("WWW-Authenticate", "Custom")
	w.WriteHeader(status)
	fmt.Fprintf(w, "original %d", status)
	if r.URL.RawQuery == "large" {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	}
}

// The client gets the page, with the status and the meaning of the error.
func TestErrorPages(t *testing.T) {
	asked := make(chan *http.Request, 10)
	pages := edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Set-Cookie", "not=this")
		fmt.Fprintf(w, "<h1>%s</h1>", r.URL.Path)
	})
	more := route.Policy{ResponseHeaders: &route.ResponseHeaders{Set: []route.HeaderValue{{Name: "X-Frame-Options", Value: "DENY"}}}}
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, failing)}, more, route.Policy{Chain: &route.Chain{Policies: []route.Policy{pagesFor(500, 599), pagesFor(401, 404)}}})
	e := start(t, edgetest.AddBackend(table, "pages", pages))
	w := edgetest.Dial(t, e.Address)
	for _, path := range []string{"/503", "/404", "/503?large", "/503", "/401"} {
		response, body := w.Get(path, "Accept-Language: de", "Cookie: secret=1")
		status := path[1:4]
		if fmt.Sprint(response.StatusCode) != status || body != "<h1>/pages/"+status+".html</h1>" || response.ContentLength != int64(len(body)) {
			t.Errorf("%s: got %d %q", path, response.StatusCode, body)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/html", "ETag": "", "Content-Language": "", "Set-Cookie": "", "WWW-Authenticate": "Custom", "X-Frame-Options": "DENY",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if r := <-asked; r.Header.Get("Accept-Language") != "de" || r.Header.Get("Cookie") != "" || r.Host != "shop.example" || r.Method != "GET" {
			t.Errorf("the page was asked for with %s %s %v", r.Method, r.Host, r.Header)
		}
	}
	for _, path := range []string{"/200", "/400", "/405"} {
		if _, body := w.Get(path); body != "original "+path[1:] {
			t.Errorf("%s: got %q", path, body)
		}
	}
	w.Send("HEAD /503 HTTP/1.1\r\nHost: x\r\n\r\n")
	if response, _ := w.Response("HEAD"); response.StatusCode != 503 || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: got %d %v", response.StatusCode, response.Header)
	}
	if response, body := w.Post("/503", "some body"); response.StatusCode != 503 || !strings.HasPrefix(body, "<h1>") {
		t.Errorf("POST: got %d %q", response.StatusCode, body)
	}
}

// Local responses of the edge have pages too: of the filters that come after the
// policy, and of a backend that cannot be reached.
func TestErrorPagesOfTheEdge(t *testing.T) {
	pages := edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(502) // the same status is as good as 200
		fmt.Fprint(w, "page")
	})
	deny := route.Policy{IPFilter: &route.IPFilter{Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Status: 502}}
	tests := []struct {
		name     string
		app      []netip.AddrPort
		policies []route.Policy
		body     string
	}{
		{"nobody listens", []netip.AddrPort{programs.FreeAddress(t)}, []route.Policy{pagesFor(502, 502)}, "page"},
		{"a filter after it", []netip.AddrPort{programs.FreeAddress(t)}, []route.Policy{pagesFor(500, 599), deny}, "page"},
		{"a filter before it", []netip.AddrPort{programs.FreeAddress(t)}, []route.Policy{deny, pagesFor(500, 599)}, "Bad Gateway\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := start(t, edgetest.AddBackend(edgetest.Table(test.app, test.policies...), "pages", pages))
			w := edgetest.Dial(t, e.Address)
			for range 2 {
				if response, body := w.Get("/"); response.StatusCode != 502 || body != test.body || response.Close {
					t.Errorf("got %d %q, close %v", response.StatusCode, body, response.Close)
				}
			}
		})
	}
}

// Without a page the response stays as it is.
func TestNoErrorPage(t *testing.T) {
	tests := map[string][]netip.AddrPort{
		"nobody listens": {programs.FreeAddress(t)},
		"no endpoint":    nil,
		"not found":      {edgetest.Backend(t, http.NotFound)},
		"empty":          {edgetest.Backend(t, func(http.ResponseWriter, *http.Request) {})},
		"it hangs up":    {edgetest.Backend(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
		"too large":      {edgetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) })},
	}
	app := edgetest.Backend(t, failing)
	for name, pages := range tests {
		t.Run(name, func(t *testing.T) {
			e := start(t, edgetest.AddBackend(edgetest.Table([]netip.AddrPort{app}, pagesFor(500, 599)), "pages", pages...))
			w := edgetest.Dial(t, e.Address)
			for range 2 {
				response, body := w.Get("/503")
				if response.StatusCode != 503 || body != "original 503" || response.Header.Get("ETag") == "" || response.Close {
					t.Errorf("got %d %q %v", response.StatusCode, body, response.Header)
				}
			}
		})
	}
}
