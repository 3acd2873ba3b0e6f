package proxy_test

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// asNGINX makes a policy auth_request of nginx.
func asNGINX(request route.AuthRequest) func(*route.ForwardAuth) {
	return func(a *route.ForwardAuth) { a.AuthRequest = &request }
}

// A client's headers become part of the target, and cannot lead it to another path.
func TestAuthRequestTarget(t *testing.T) {
	var targets atomic.Pointer[string]
	table := authTable(t, func(_ http.ResponseWriter, r *http.Request) {
		got := r.Host + r.RequestURI
		targets.Store(&got)
	}, asNGINX(route.AuthRequest{Target: "/check/$http_x_tenant?u=$request_uri", Host: "$http_x_host"}))
	e := start(t, table)
	for _, c := range []struct{ tenant, host, want string }{
		{"shop", "a.example", "a.example/check/shop?u=/cart?x=1"},
		{"shop/cart", "a.example:8080", "a.example/check/shop/cart?u=/cart?x=1"},
		{"../admin", "a.example", ""}, {"..%2fadmin", "a.example", ""}, {"%2e%2e/admin", "a.example", ""}, {"a b", "a.example", ""}, {"x#y", "a.example", ""},
		{"shop?u=/other&", "a.example", "a.example/check/shop?u=/other&?u=/cart?x=1"},
		{"shop", "a.example/x", ""}, {"shop", "", ""},
	} {
		targets.Store(new(string))
		response, _ := edgetest.Dial(t, e.Address).Get("/cart?x=1", "X-Tenant: "+c.tenant, "X-Host: "+c.host)
		if got := *targets.Load(); got != c.want || (response.StatusCode == 200) != (c.want != "") {
			t.Errorf("%q, %q: the sub-request is %q, status %d; want %q", c.tenant, c.host, got, response.StatusCode, c.want)
		}
	}
}

// The sub-request has the headers that are set, in place of those of the client.
func TestAuthRequestHeaders(t *testing.T) {
	asked := make(chan http.Header, 1)
	table := authTable(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		w.Header().Set("Authorization", "Bearer of the server")
	}, func(a *route.ForwardAuth) {
		a.ResponseHeaders = []string{"X-User", "Authorization"}
		a.AuthRequest = &route.AuthRequest{Headers: []route.HeaderValue{
			{Name: "X-Original-URL", Value: "$scheme://$http_host$request_uri"}, {Name: "X-Empty", Value: "$http_x_none"}, {Name: "X-Real-IP", Value: "$remote_addr"},
			{Name: "X-Seen", Value: "$http_x_forwarded_for|$cookie_b|$arg_q|$request_method|$is_args"},
		}}
	})
	e := start(t, table)
	_, body := edgetest.Dial(t, e.Address).Get("/a?q=1", "Authorization: Bearer of the client", "X-User: root", "X-Original-Url: spoofed",
		"X-Empty: given", "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Proto: https", "Cookie: a=1; b=2", "X-Real-Ip: 6.6.6.6")
	got := <-asked
	for name, want := range map[string]string{
		"Authorization": "Bearer of the client", "X-User": "", "X-Original-Url": "http://shop.example/a?q=1", "X-Empty": "", "X-Real-Ip": "127.0.0.1",
		"X-Seen": "|2|1|GET|?", "X-Forwarded-For": "", "X-Forwarded-Proto": "", "Cookie": "a=1; b=2",
	} {
		if value := strings.Join(got.Values(name), "|"); value != want {
			t.Errorf("%s: got %q, want %q", name, value, want)
		}
	}
	if !strings.Contains(body, "Authorization: Bearer of the server\n") || strings.Contains(body, "client") || strings.Contains(body, "root") {
		t.Errorf("the backend got:\n%s", body)
	}
}

// Decisions are cached under their key; those with a cookie or Cache-Control are not.
func TestAuthRequestCache(t *testing.T) {
	var asked atomic.Int32
	table := authTable(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("X-User", "alice")
		for _, name := range []string{"Set-Cookie", "Cache-Control", "Vary"} {
			if r.Header.Get("X-With") == name {
				w.Header().Set(name, "a=1")
			}
		}
		if r.Header.Get("X-With") == "401" {
			w.WriteHeader(401)
		}
	}, asNGINX(route.AuthRequest{
		CacheKey: "$http_x_key$http_x_with", Cache: []route.AuthCacheTime{{Statuses: []int{200}, For: route.Duration(time.Hour)}},
	}))
	e := start(t, table)
	for _, c := range []struct {
		lines []string
		want  int32
	}{
		{[]string{"X-Key: a"}, 1}, {[]string{"X-Key: b"}, 1}, {[]string{"X-Key: a"}, 0},
		{[]string{"X-With: Set-Cookie"}, 3}, {[]string{"X-With: Cache-Control"}, 3}, {[]string{"X-With: Vary"}, 3}, {[]string{"X-With: 401"}, 3},
	} {
		asked.Store(0)
		for range 3 {
			response, body := edgetest.Dial(t, e.Address).Get("/", c.lines...)
			if response.StatusCode == 200 && strings.Count(body, "X-User: alice\n") != 1 {
				t.Errorf("%v: the backend got:\n%s", c.lines, body)
			}
		}
		if got := asked.Load(); got != c.want {
			t.Errorf("%v: %d sub-requests, want %d", c.lines, got, c.want)
		}
	}
}

// All cookies of the server reach the client, with responses that succeed or redirect.
func TestAuthRequestCookies(t *testing.T) {
	for _, always := range []bool{false, true} {
		table := authTable(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
		}, asNGINX(route.AuthRequest{AlwaysSetCookie: always}))
		table.Backends = table.Backends[1:]
		table = edgetest.AddBackend(table, "app", edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
			status, _ := strconv.Atoi(r.URL.Path[1:])
			w.WriteHeader(status)
		}))
		e := start(t, table)
		for _, status := range []int{200, 204, 302, 404, 500} {
			response, _ := edgetest.Dial(t, e.Address).Get("/" + strconv.Itoa(status))
			want := "a=1|b=2"
			if !always && status >= 400 {
				want = ""
			}
			if got := strings.Join(response.Header.Values("Set-Cookie"), "|"); got != want || response.StatusCode != status {
				t.Errorf("always %v, %d: got %d with %q, want %q", always, status, response.StatusCode, got, want)
			}
		}
	}
}

// A server that cannot be reached keeps requests out.
func TestAuthRequestFails(t *testing.T) {
	table := authTable(t, edgetest.Echo, asNGINX(route.AuthRequest{Signin: "https://login.example/", AlwaysSetCookie: true}))
	table.Backends = table.Backends[:1]
	e := start(t, edgetest.AddBackend(table, "auth", []netip.AddrPort{programs.FreeAddress(t)}...))
	if response, body := edgetest.Dial(t, e.Address).Get("/"); response.StatusCode != 500 || strings.Contains(body, "GET /") {
		t.Errorf("got %d, %q", response.StatusCode, body)
	}
}
