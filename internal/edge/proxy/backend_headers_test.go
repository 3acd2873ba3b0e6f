package proxy_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/route"
)

// Each backend of a rule gets its own headers, also where it is the only one, and a
// retry does not add them twice.
func TestBackendHeaders(t *testing.T) {
	set := func(name string) *route.RequestHeaders {
		return &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-Backend", Value: name}}, Add: []route.HeaderValue{{Name: "X-Add", Value: name}}}
	}
	shown := &route.ResponseHeaders{Set: []route.HeaderValue{{Name: "X-Shown", Value: "b"}}}
	fail := true
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)},
		route.Policy{RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-Backend", Value: "rule"}}}},
		route.Policy{ResponseHeaders: &route.ResponseHeaders{Add: []route.HeaderValue{{Name: "X-Shown", Value: "rule"}}}},
		retrying(nil))
	edgetest.AddBackend(table, "b", edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		if fail = !fail; !fail {
			w.WriteHeader(503)
			return
		}
		edgetest.Echo(w, r)
	}))
	table.Rules[0].Backends = []route.BackendRef{
		{Backend: edgetest.BackendID("app"), Weight: 1, RequestHeaders: set("a")},
		{Backend: edgetest.BackendID("b"), Weight: 1, RequestHeaders: set("b"), ResponseHeaders: shown},
	}
	e := start(t, table)
	w := edgetest.Dial(t, e.Address)
	got := map[string]int{}
	for range 4 {
		response, body := w.Get("/")
		name := response.Header.Get("X-Shown")
		if values := response.Header.Values("X-Shown"); len(values) == 1 {
			name = "a"
		}
		got[name]++
		if !strings.Contains(body, "X-Backend: "+name+"\n") || strings.Count(body, "X-Add: ") != 1 {
			t.Errorf("%s got %q", name, body)
		}
	}
	if got["a"] != 2 || got["b"] != 2 {
		t.Errorf("requests by backend: %v", got)
	}

	table.Rules[0].Backends = table.Rules[0].Backends[:1]
	table.Rules[0].Policies = nil
	e.Apply(t, table)
	// A trailer of a name that is set does not reach the backend.
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Backend: forged\r\nX-Other: 1\r\n\r\n")
	if _, body := w.Response("POST"); !strings.Contains(body, "\nX-Backend: a\n") || strings.Contains(body, "forged") {
		t.Errorf("the only backend got %q", body)
	}
}

// The host of a rewrite reaches the backend, and a mirror too.
func TestRewriteHost(t *testing.T) {
	copied, got := copies(t)
	table := edgetest.AddBackend(edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, mirroring(100, 0)), "copy", copied)
	table.Rules[0].Rewrite = &route.Rewrite{Host: "one.example.org", ReplacePrefix: "/", Path: "/new"}
	e := start(t, table)
	if _, body := edgetest.Dial(t, e.Address).Get("/a?b"); !strings.HasPrefix(body, "GET /new/a?b \nHost: one.example.org\n") {
		t.Errorf("got %q", body)
	}
	if text := next(t, got); text != "GET one.example.org /new/a?b  X-Set:" {
		t.Errorf("copied %q", text)
	}
}
