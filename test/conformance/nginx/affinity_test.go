package nginx

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/must"
)

// stickyCases are the Ingresses of examples/affinity/cookie, and the cookies that it
// describes. nginx without Lua and without a licence has no sticky cookies, so the
// documentation is what the edge is compared with.
var stickyCases = []struct {
	host        string
	annotations map[string]string
	want        http.Cookie
}{
	{
		"stickyingress.example.com", map[string]string{"session-cookie-name": "route", "session-cookie-expires": "172800", "session-cookie-max-age": "172800"},
		http.Cookie{Name: "route", Path: "/", MaxAge: 172800, HttpOnly: true},
	},
	{"default-name.example.com", nil, http.Cookie{Name: "INGRESSCOOKIE", Path: "/", HttpOnly: true}},
	{
		"stickyingress-samesite-none.example.com", map[string]string{
			"session-cookie-name": "SSNONE", "session-cookie-secure": "true", "session-cookie-expires": "172800", "session-cookie-max-age": "172800",
			"session-cookie-samesite": "None", "session-cookie-conditional-samesite-none": "true",
		},
		http.Cookie{Name: "SSNONE", Path: "/", MaxAge: 172800, HttpOnly: true, Secure: true, SameSite: http.SameSiteNoneMode},
	},
	{
		"stickyingress-samesite-strict.example.com", map[string]string{
			"session-cookie-name": "STRICTCOOKIENAME", "session-cookie-expires": "172800", "session-cookie-max-age": "172800", "session-cookie-samesite": "Strict",
		},
		http.Cookie{Name: "STRICTCOOKIENAME", Path: "/", MaxAge: 172800, HttpOnly: true, SameSite: http.SameSiteStrictMode},
	},
	{
		"attributes.example.com", map[string]string{
			"session-cookie-name": "all", "session-cookie-path": "/app", "session-cookie-domain": "example.com", "session-cookie-samesite": "Lax",
			"session-cookie-expires": "60", "affinity-mode": "persistent", "session-cookie-change-on-failure": "true",
		},
		http.Cookie{Name: "all", Path: "/app", Domain: "example.com", MaxAge: 60, HttpOnly: true, SameSite: http.SameSiteLaxMode},
	},
}

// TestStickyCookies: clients get the documented cookie, stay at their endpoint with it, and
// get another endpoint with a new cookie if the cookie is none of the edge, or if the
// endpoint is gone.
func TestStickyCookies(t *testing.T) {
	g := startBackends(t)
	var replicas []*httptest.Server
	for i := range 3 {
		replica := httptest.NewServer(echo(fmt.Sprint("replica-", i)))
		t.Cleanup(replica.Close)
		replicas = append(replicas, replica)
		port := int(netip.MustParseAddrPort(replica.Listener.Addr().String()).Port())
		if i == 0 {
			g.ports["http-svc"] = port
		} else {
			g.replicas["http-svc"] = append(g.replicas["http-svc"], port)
		}
	}
	var ingresses []*networkingv1.Ingress
	for i, c := range stickyCases {
		annotations := map[string]string{nginx.Prefix + "affinity": "cookie"}
		for name, value := range c.annotations {
			annotations[nginx.Prefix+name] = value
		}
		ingress := ingressOf(i, fmt.Sprint("sticky-", i), annotations)
		addPath(ingress, c.host, "/", networkingv1.PathTypePrefix, "http-svc")
		ingresses = append(ingresses, ingress)
	}
	for _, refused := range g.startEdge(t, ingresses) {
		t.Errorf("refused: %s", refused)
	}
	kept := map[string]*http.Cookie{} // by host, each at the first replica
	for _, c := range stickyCases {
		t.Run(c.host, func(t *testing.T) { kept[c.host] = g.checkSticky(t, c.host, &c.want) })
	}
	// The endpoint is gone: the client gets another one and a new cookie.
	replicas[0].CloseClientConnections()
	replicas[0].Close()
	for host, old := range kept {
		backend, cookie := g.visit(t, host, old)
		if backend == "replica-0" || cookie == nil || cookie.Value == old.Value {
			t.Errorf("%s: after the endpoint is gone: %s with %v", host, backend, cookie)
		}
	}
}

// checkSticky checks the cookie of a host, and returns that of the first replica.
func (g *ground) checkSticky(t *testing.T, host string, want *http.Cookie) (first *http.Cookie) {
	seen := map[string]string{} // the value of the cookie, by replica
	for range 30 {
		backend, cookie := g.visit(t, host, nil)
		if cookie == nil {
			t.Fatalf("%s sets no cookie", backend)
		}
		got := http.Cookie{
			Name: cookie.Name, Path: cookie.Path, Domain: cookie.Domain, MaxAge: cookie.MaxAge, HttpOnly: cookie.HttpOnly, Secure: cookie.Secure, SameSite: cookie.SameSite,
		}
		if got.String() != want.String() || strings.Contains(cookie.Value, "127.0.0.1") {
			t.Fatalf("the cookie is %s, want %s", cookie.Raw, want)
		}
		if known, again := seen[backend]; again && known != cookie.Value {
			t.Fatalf("%s has the cookies %s and %s", backend, known, cookie.Value)
		}
		seen[backend] = cookie.Value
		if backend == "replica-0" {
			first = cookie
		}
	}
	if len(seen) != 3 {
		t.Fatalf("new clients reach %v", seen)
	}
	for backend, value := range seen {
		for range 10 {
			if got, cookie := g.visit(t, host, &http.Cookie{Name: want.Name, Value: value}); got != backend || cookie != nil {
				t.Fatalf("the client of %s reaches %s and gets %v", backend, got, cookie)
			}
		}
	}
	if backend, cookie := g.visit(t, host, &http.Cookie{Name: want.Name, Value: "changed"}); cookie == nil || cookie.Value != seen[backend] {
		t.Errorf("with a cookie of its own a client reaches %s and gets %v", backend, cookie)
	}
	return first
}

// visit sends a request with a cookie, and returns the endpoint and the cookie that it sets.
func (g *ground) visit(t *testing.T, host string, with *http.Cookie) (backend string, set *http.Cookie) {
	t.Helper()
	sent := must.Get(http.NewRequest(http.MethodGet, "http://"+g.edge+"/app", nil))(t)
	sent.Host = host
	if with != nil {
		sent.AddCookie(&http.Cookie{Name: with.Name, Value: with.Value})
	}
	response, _, err := read(g.client.Do(sent))
	must.Do(t, err)
	if response.StatusCode != http.StatusOK || len(response.Cookies()) > 1 {
		t.Fatalf("%s: %s with %v", host, response.Status, response.Header)
	}
	for _, cookie := range response.Cookies() {
		set = cookie
	}
	return response.Header.Get("X-Backend"), set
}
