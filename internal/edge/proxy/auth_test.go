package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// authTable asks a server before everything.
func authTable(t testing.TB, auth http.HandlerFunc, change func(*route.ForwardAuth), more ...route.Policy) *route.Table {
	t.Helper()
	policy := &route.ForwardAuth{Backend: edgetest.BackendID("auth"), Path: "/check", ResponseHeaders: []string{"X-User", "X-Groups"}}
	if change != nil {
		change(policy)
	}
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, append([]route.Policy{{ForwardAuth: policy}}, more...)...)
	return edgetest.AddBackend(table, "auth", edgetest.Backend(t, auth))
}

// The sub-request has what the client requested, and its identity only in the edge's
// own headers.
func TestForwardAuthQuestion(t *testing.T) {
	asked := make(chan *http.Request, 1)
	remember := func(_ http.ResponseWriter, r *http.Request) { asked <- r }
	table := authTable(t, remember, nil, route.Policy{BasicAuth: &route.BasicAuth{Users: route.NewSecret("alice:{SHA}" + shaSecret), UserHeader: "X-Login"}})
	e := start(t, table)
	edgetest.Dial(t, e.Address).Get("/cart/../a%20b?x=1", "Cookie: session=1", "Authorization: Basic YWxpY2U6c2VjcmV0", "X-Forwarded-User: root", "X-Forwarded-Method: DELETE",
		"X-Real-Ip: 6.6.6.6", "x-forwarded-FOR: 6.6.6.6", "X-User: root", "x-groups: admins", "X-Login: root", "Connection: keep-alive, X-Hop, cookie", "X-Hop: 1", "X-Other: kept")
	r := <-asked
	if r.Method != "GET" || r.RequestURI != "/check" || r.ContentLength != 0 {
		t.Errorf("asked %s %s with %d bytes", r.Method, r.RequestURI, r.ContentLength)
	}
	for name, want := range map[string]string{
		"X-Forwarded-Method": "GET", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop.example", "X-Forwarded-Uri": "/a%20b?x=1",
		"X-Forwarded-For": "127.0.0.1", "Cookie": "session=1", "X-Other": "kept", "Authorization": "Basic YWxpY2U6c2VjcmV0",
		"X-Forwarded-User": "", "X-Real-Ip": "", "X-User": "", "X-Groups": "", "X-Login": "", "X-Hop": "", "Connection": "",
	} {
		if got := strings.Join(r.Header.Values(name), "|"); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}

	table = authTable(t, remember, func(a *route.ForwardAuth) {
		a.Method, a.Host, a.RequestHeaders, a.MaxBodyBytes = "POST", "auth.example", []string{"cookie"}, 10
		a.Query = "rd=https://login.example"
	})
	e = start(t, table)
	_, body := edgetest.Dial(t, e.Address).Post("/", "pay: 5", "Cookie: session=1", "X-Other: not this")
	r = <-asked
	if r.Method != "POST" || r.Host != "auth.example" || r.RequestURI != "/check?rd=https://login.example" || r.Header.Get("Cookie") != "session=1" || r.Header.Get("X-Other") != "" || r.ContentLength != 6 {
		t.Errorf("asked %s at %s with %v", r.Method, r.Host, r.Header)
	}
	if !strings.HasPrefix(body, "POST / pay: 5\n") {
		t.Errorf("the backend did not get the body that was asked about: %q", body)
	}
}

// shaSecret is the digest of the password secret.
const shaSecret = "5en6G6MezRroT3XKqkdPOmY/BfQ="

// The response's headers about the client reach the backend, and what the
// client sends under these names never does, in whatever spelling and place.
func TestForwardAuthHeaders(t *testing.T) {
	table := authTable(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") == "known" {
			w.Header()["X-User"] = []string{"alice"}
			w.Header()["X-Groups"] = []string{"a", "b"}
		}
		w.Header().Set("X-Secret", "not for the backend")
		w.WriteHeader(http.StatusNoContent)
	}, nil)
	e := start(t, table, func(c *proxy.Config) { c.Limits.Underscores = true })
	w := edgetest.Dial(t, e.Address)
	_, body := w.Get("/", "Cookie: known", "X-User: root", "x-USER: root", "X_User: root", "X.User: root", "X-Groups: root")
	for _, want := range []string{"X-User: alice\n", "X-Groups: a\n", "X-Groups: b\n"} {
		if strings.Count(body, want) != 1 {
			t.Errorf("want %q once:\n%s", want, body)
		}
	}
	if strings.Contains(body, "root") || strings.Contains(body, "Secret") {
		t.Errorf("the backend got more than that:\n%s", body)
	}
	w.Send("POST / HTTP/1.1\r\nHost: x\r\nx-user: root\r\nTransfer-Encoding: chunked\r\nTrailer: X-Trail\r\n\r\n2\r\nhi\r\n0\r\nX-Trail: passes\r\nX-User: root\r\nX_GROUPS: root\r\n\r\n")
	_, body = w.Response("POST")
	if strings.Contains(body, "root") || !strings.Contains(body, "POST / hi\n") || !strings.Contains(body, "trailer X-Trail: passes\n") {
		t.Errorf("got:\n%s", body)
	}
}

// Whatever is not a clear yes keeps the request out.
func TestForwardAuthRefuses(t *testing.T) {
	tests := []struct {
		name   string
		auth   http.HandlerFunc
		change func(*route.ForwardAuth)
		status int
		check  func(*http.Response, string) bool
	}{
		{"401 passes on", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Custom")
			w.Header().Set("Content-Type", "text/x-reason")
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("X-Hop", "1")
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			w.WriteHeader(401)
			_, _ = io.WriteString(w, "who are you?")
		}, nil, 401, func(r *http.Response, body string) bool {
			return body == "who are you?" && r.Header.Get("WWW-Authenticate") == "Custom" && r.Header.Get("Content-Type") == "text/x-reason" &&
				r.Header.Get("X-Hop") == "" && len(r.Header.Values("Set-Cookie")) == 2 && len(r.Header.Values("Date")) == 1
		}},
		{"a redirect passes on", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example/", http.StatusSeeOther)
		}, nil, 303,
			func(r *http.Response, _ string) bool { return r.Header.Get("Location") == "https://login.example/" }},
		{"a place to sign in", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
			func(a *route.ForwardAuth) { a.SigninURL = "https://login.example/in" }, 302,
			func(r *http.Response, _ string) bool { return r.Header.Get("Location") == "https://login.example/in" }},
		{"403 is no matter of signing in", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) },
			func(a *route.ForwardAuth) { a.SigninURL = "https://login.example/in" }, 403, nil},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, nil, 500, nil},
		{"it hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 503, nil},
		{"too large to pass on", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			_, _ = io.WriteString(w, strings.Repeat("x", 2000))
		}, func(a *route.ForwardAuth) { a.MaxResponseBytes = 1999 }, 503, nil},
		{"endless, too large", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(403)
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1000))
				w.(http.Flusher).Flush()
			}
		}, nil, 503, nil},
		{"silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(a *route.ForwardAuth) { a.Timeout = route.Duration(50 * time.Millisecond) }, 503, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table := authTable(t, test.auth, test.change)
			e := start(t, table)
			w := edgetest.Dial(t, e.Address)
			for range 2 { // the connection goes on
				response, body := w.Get("/")
				if response.StatusCode != test.status || strings.Contains(body, "GET /") || test.check != nil && !test.check(response, body) {
					t.Errorf("got %d, %v and %q", response.StatusCode, response.Header, body)
				}
			}
		})
	}
	for name, endpoints := range map[string][]netip.AddrPort{"nobody listens": {programs.FreeAddress(t)}, "no endpoint": nil} {
		t.Run(name, func(t *testing.T) {
			table := authTable(t, edgetest.Echo, nil)
			table.Backends = table.Backends[:1]
			e := start(t, edgetest.AddBackend(table, "auth", endpoints...))
			if response, _ := edgetest.Dial(t, e.Address).Get("/"); response.StatusCode != 503 {
				t.Errorf("got %d", response.StatusCode)
			}
		})
	}
}

// A body that is too large to ask about keeps its request out.
func TestForwardAuthBodyTooLarge(t *testing.T) {
	var asked atomic.Int32
	table := authTable(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }, func(a *route.ForwardAuth) { a.MaxBodyBytes = 5 })
	e := start(t, table)
	for _, request := range []string{
		"Content-Length: 6\r\n\r\n123456", "Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n3\r\n456\r\n0\r\n\r\n",
	} {
		w := edgetest.Dial(t, e.Address)
		w.Send("POST / HTTP/1.1\r\nHost: x\r\n" + request)
		if response, _ := w.Response("POST"); response.StatusCode != 413 {
			t.Errorf("got %d", response.StatusCode)
		}
		w.RequireClosed()
	}
	if asked.Load() != 0 {
		t.Error("it was asked with a part of a body")
	}
}

// A large response that lets in need not be read.
func TestForwardAuthLargeYes(t *testing.T) {
	table := authTable(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-User", "alice")
		fmt.Fprint(w, strings.Repeat("welcome ", 1<<15))
	}, nil)
	e := start(t, table)
	w := edgetest.Dial(t, e.Address)
	for range 3 {
		if response, body := w.Get("/"); response.StatusCode != 200 || !strings.Contains(body, "X-User: alice\n") {
			t.Errorf("got %d and %q", response.StatusCode, body)
		}
	}
}
