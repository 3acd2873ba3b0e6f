package filter_test

import (
	"net/url"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// TestExchangeIsClean uses one exchange for requests that leave a lot behind,
// and then for one that must not show it.
func TestExchangeIsClean(t *testing.T) {
	dirty := compile(t, filter.NewCounters(start), policiesOf(t,
		`{"addPrefix": {"prefix": "/dirty"}}`,
		`{"requestHeaders": {"set": [{"name": "X-Dirty", "value": "1"}]}}`,
		`{"responseHeaders": {"set": [{"name": "X-Dirty", "value": "1"}]}}`,
		`{"bodyLimit": {"maxBytes": 1}}`,
		`{"id": {"name": "f"}, "inFlight": {"max": 1}}`,
		`{"id": {"name": "b"}, "circuitBreaker": {"failurePercent": 1, "window": "1s", "open": "1s"}}`,
		`{"redirectRegexp": {"regexp": "^.*redirect$", "replacement": "https://b.example/"}}`,
	)...)
	clean := compile(t, filter.NewCounters(start), policiesOf(t, `{"id": {"name": "f"}, "inFlight": {"max": 1}}`)...)
	limits := h1.DefaultLimits()
	var r run
	for _, target := range []string{"/redirect", "/x"} {
		r = run{chain: dirty, x: r.x}
		r.x.Begin(parse(t, get(target, "Transfer-Encoding: chunked"), limits), dirty.Marks())
		r.ran, r.answer = dirty.Request(&r.x)
		if (r.answer != nil) != (target == "/redirect") {
			t.Fatalf("%s is answered with %v", target, r.answer)
		}
		r.finish(500)
	}
	r = run{chain: clean, x: r.x}
	r.x.Begin(parse(t, get("/x?y"), limits), clean.Marks())
	if r.ran, r.answer = clean.Request(&r.x); r.answer != nil {
		t.Fatalf("answered with %d", r.answer.Status)
	}
	r.finish(200)
	if head := r.forwarded(t, false); strings.Contains(strings.ToLower(head), "dirty") {
		t.Errorf("the next request gets\n%s", head)
	}
	if len(r.x.ResponseEdits) > 0 || r.x.MaxBody != 0 || r.x.Rewritten() {
		t.Errorf("%d edits, body %d, rewritten %v", len(r.x.ResponseEdits), r.x.MaxBody, r.x.Rewritten())
	}
}

// TestResponseHeadersOnAnswers puts headers on the responses of filters too, but
// only of those behind.
func TestResponseHeadersOnAnswers(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), policiesOf(t,
		`{"responseHeaders": {"set": [{"name": "X-Outer", "value": "1"}], "remove": ["Location"]}}`,
		`{"redirectScheme": {"scheme": "https"}}`,
		`{"responseHeaders": {"set": [{"name": "X-Inner", "value": "1"}]}}`,
	)...)
	r := begin(t, chain, get("/"))
	r.finish(0)
	reply := r.replied(t, "HTTP/1.1 307 Redirect\n\n")
	if !contains(reply, "X-Outer: 1\n") || contains(reply, "X-Inner") || contains(reply, "Location") {
		t.Errorf("the reply is\n%s", reply)
	}
}

// TestRedirectStatuses goes through what a redirect can be.
func TestRedirectStatuses(t *testing.T) {
	for want, status := range map[int]int{307: 0, 301: 301, 302: 302, 303: 303, 308: 308} {
		chain := compile(t, filter.NewCounters(start), route.Policy{RedirectScheme: &route.RedirectScheme{Scheme: route.SchemeHTTPS, Port: 8443, Status: status}})
		r := begin(t, chain, get("/x"))
		if r.status() != want || !contains(r.replied(t, "HTTP/1.1 307 Redirect\n\n"), "Location: https://a.example:8443/x\n") {
			t.Errorf("%d becomes %d:\n%s", status, r.status(), r.replied(t, "HTTP/1.1 307 Redirect\n\n"))
		}
	}
	for scheme, port := range map[route.Scheme]uint16{route.SchemeHTTPS: 443, route.SchemeHTTP: 80} {
		chain := compile(t, filter.NewCounters(start), route.Policy{RedirectScheme: &route.RedirectScheme{Scheme: scheme, Port: port}})
		r := begin(t, chain, get("/x"), func(x *filter.Exchange) { x.TLS = scheme == route.SchemeHTTP })
		if reply := r.replied(t, "HTTP/1.1 307 Redirect\n\n"); !contains(reply, "Location: "+string(scheme)+"://a.example/x\n") {
			t.Errorf("the port that %s implies is sent:\n%s", scheme, reply)
		}
	}
}

// FuzzRedirect follows redirects of all kinds: they lead to a plain URL, or to a
// path of the same host.
func FuzzRedirect(f *testing.F) {
	for _, seed := range [][2]string{
		{"a.example", "/x"}, {"a.example:80", "/go?to=//b"}, {"[::1]", "/go?to=https://b@c"}, {"a.example", "/glue/.b"}, {"a", "/@b"}, {"a", "/go?to=/%0d%0a"},
	} {
		f.Add(seed[0], seed[1])
	}
	chain := compile(f, filter.NewCounters(start), policiesOf(f,
		`{"redirectRegexp": {"regexp": "^.*[?]to=(.*)$", "replacement": "${1}"}}`,
		`{"redirectRegexp": {"regexp": "^http://[^/]*/glue/(.*)$", "replacement": "https://b.example${1}"}}`,
		`{"redirectRegexp": {"regexp": "^http://([^/]*)/(.)", "replacement": "${2}${1}"}}`,
		`{"redirectScheme": {"scheme": "https"}}`,
	)...)
	limits := h1.DefaultLimits()
	limits.Hazards = ^normalize.Hazard(0)
	f.Fuzz(func(t *testing.T, host, target string) {
		var head h1.Head
		raw := "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		if n, err := head.Parse([]byte(raw), &limits); err != nil || n != len(raw) {
			return
		}
		r := &run{chain: chain}
		r.x.Begin(&head, chain.Marks())
		r.ran, r.answer = chain.Request(&r.x)
		if r.answer == nil {
			t.Fatal("not redirected")
		}
		if r.answer.Status == 400 {
			return
		}
		location := header(t, r.replied(t, "HTTP/1.1 307 Redirect\n\n"), "Location")
		// net/url refuses bad escapes in a query's place only when it is decoded.
		parsed, err := url.Parse(strings.ReplaceAll(location, "%", "%25"))
		if err != nil || parsed.User != nil || strings.ContainsAny(location, "\r\n\t ") {
			t.Fatalf("%q: %v", location, err)
		}
		switch {
		case parsed.Scheme == "http" || parsed.Scheme == "https":
			if parsed.Host == "" {
				t.Errorf("%q has no host", location)
			}
		case parsed.Scheme != "" || parsed.Host != "" || !strings.HasPrefix(location, "/") || strings.HasPrefix(location, `/\`):
			t.Errorf("%q leads elsewhere", location)
		}
	})
}
