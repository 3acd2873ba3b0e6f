package nginx

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
)

// authService is the authentication server.
const authService = "auth"

// startAuthServer starts the authentication server. It reports what it got in a cookie,
// and in the challenge of a 401.
func (g *ground) startAuthServer(t *testing.T) {
	t.Helper()
	g.ports[authService] = startServer(t, decideBy(&sync.Map{}))
}

// decideBy admits requests with credentials, and has any other status that a request
// wants. A request with X-Once is admitted once, and its response has no cookie: so a
// cached decision shows. CDN-Loop distinguishes the edge from nginx.
func decideBy(once *sync.Map) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		size, _ := io.Copy(io.Discard, r.Body)
		got := fmt.Sprintf("%s %s %s %d", r.Method, r.Host, r.RequestURI, size)
		for _, name := range []string{
			"X-Original-Url", "X-Original-Method", "X-Original-Uri", "X-Scheme", "X-Sent-From", "X-Real-Ip", "X-Forwarded-For", "X-Forwarded-Proto",
			"X-Auth-Request-Redirect", "Cookie", "Authorization", "X-One", "X-Two", "Foo-Header",
		} {
			got += " " + name + "=" + strings.Join(r.Header.Values(name), ",")
		}
		status := http.StatusUnauthorized
		if r.Header.Get("Authorization") != "" || strings.Contains(r.Header.Get("Cookie"), "user=") {
			status = http.StatusOK
		}
		if wanted := r.Header.Get("X-Status"); wanted != "" {
			_, _ = fmt.Sscan(wanted, &status)
		}
		if key := r.Header.Get("X-Once"); key != "" {
			if _, again := once.LoadOrStore(key+r.Header.Get("X-Original-Url")+r.Header.Get("Cdn-Loop"), true); again {
				status = http.StatusForbidden
			}
		} else {
			// One cookie: of several, nginx passes on the first only, or makes one line.
			w.Header().Set("Set-Cookie", "saw="+url.QueryEscape(got))
		}
		w.Header().Set("WWW-Authenticate", "Saw "+url.QueryEscape(got))
		w.Header().Set("X-Auth-Request-User", "anna")
		w.Header().Set("Authorization", "Bearer made")
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "page of auth")
	}
}

// authDirectives are those that the template of ingress-nginx writes for
// authentication; host and target are those of the URL.
type authDirectives struct {
	host, target, method, redirect, set, cache, signin string
	responses                                          []string
	always                                             bool
}

// server returns the internal locations.
func (a authDirectives) server() string {
	text := `location = /_external-auth { internal; proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header X-Forwarded-Proto "";` + a.cache
	if a.method != "" {
		text += "proxy_method " + a.method + "; proxy_set_header X-Original-URI $request_uri; proxy_set_header X-Scheme $scheme;"
	}
	redirect := "$request_uri"
	if a.redirect != "" {
		redirect = a.redirect
	}
	host, target := "auth.default.svc.cluster.local", "/check"
	if a.host != "" {
		host, target = a.host, a.target
	}
	text += "proxy_set_header Host " + host + `; proxy_set_header X-Original-URL $scheme://$http_host$request_uri; proxy_set_header X-Original-Method $request_method;
		proxy_set_header X-Sent-From "nginx-ingress-controller"; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $remote_addr;
		proxy_set_header X-Auth-Request-Redirect ` + redirect + "; " + a.set + `
		proxy_http_version 1.1; proxy_set_header Connection ""; set $target "http://127.0.0.1:AUTHPORT` + target + `"; proxy_pass $target; }`
	if a.signin != "" {
		text += " location @signin { internal; add_header Set-Cookie $auth_cookie; return 302 " + a.signin + "; }"
	}
	return text
}

// location returns the directives of the location.
func (a authDirectives) location() string {
	text := "auth_request /_external-auth; auth_request_set $auth_cookie $upstream_http_set_cookie; add_header Set-Cookie $auth_cookie"
	if a.always {
		text += " always"
	}
	text += ";"
	for i, name := range a.responses {
		text += fmt.Sprintf(" auth_request_set $authHeader%d $upstream_http_%s; proxy_set_header '%s' $authHeader%d;",
			i, strings.ToLower(strings.ReplaceAll(name, "-", "_")), name, i)
	}
	if a.signin != "" {
		text += " error_page 401 = @signin;"
	}
	return text
}

// authScene returns the scene of an annotation with those that it needs.
func authScene(with map[string]string, made func(value string) authDirectives, requests ...request) scene {
	return scene{
		with: with, server: func(value string) string { return made(value).server() }, location: func(value string) string { return made(value).location() },
		requests: append(requests, sessions...),
	}
}

// authResults are the headers that are compared.
var authResults = []string{"Set-Cookie", "WWW-Authenticate", "X-Got-Auth"}

// sessions are the requests of all scenes of authentication.
var sessions = func() []request {
	list := []request{
		{method: "GET", target: "/app/a%20b?q=a%2Fb&c=/d"},
		{method: "GET", target: "/app/a%20b?q=a%2Fb&c=/d", headers: []string{"Cookie: user=anna"}},
		{method: "POST", target: "/app", size: 20, headers: []string{"Authorization: Bearer x", "X-One: given", "X-Original-Url: spoofed"}},
		{method: "GET", target: "/status/500", headers: []string{"Cookie: user=anna"}},
		{method: "GET", target: "/status/404", headers: []string{"Cookie: user=anna"}},
		{method: "GET", target: "/", headers: []string{"Cookie: user=anna", "X-Auth-Request-User: root", "X-None: root"}},
	}
	for _, status := range []string{"201", "204", "302", "400", "401", "403", "404", "500", "503"} {
		list = append(list, request{method: "GET", target: "/app", headers: []string{"X-Status: " + status, "Cookie: user=anna"}})
	}
	for i := range list {
		list[i].compare = authResults
	}
	return list
}()

var authURL = map[string]string{"auth-url": "http://auth.default.svc.cluster.local/check"}

// andURL returns annotations with auth-url.
func andURL(name, value string) map[string]string {
	return map[string]string{"auth-url": authURL["auth-url"], name: value}
}

// once are requests whose second decision is the cached one.
func once(authorization string) request {
	return request{method: "GET", target: "/app", headers: []string{"X-Once: a", "Authorization: " + authorization}}
}

var cachedOnce = []request{once("one"), once("one"), once("two"), once("one")}

// signinOf is buildAuthSignURL of ingress-nginx.
func signinOf(text, param string) string {
	if strings.HasPrefix(text, "/") {
		text = "$scheme://$host" + text
	}
	switch {
	case !strings.Contains(text, "?"):
		return text + "?" + param + "=$scheme://$http_host$escaped_request_uri"
	case strings.Contains(text, "?"+param+"="):
		return strings.ReplaceAll(text, "$best_http_host", "$http_host")
	}
	return text + "&" + param + "=$scheme://$http_host$escaped_request_uri"
}

func cacheOf(times string) string {
	text := `proxy_cache auth_cache; proxy_cache_key "$host$remote_addr$http_authorization";`
	for entry := range strings.SplitSeq(times, ",") {
		text += " proxy_cache_valid " + entry + ";"
	}
	return text
}

// authScenes are those of the annotations of external authentication.
var authScenes = map[string]scene{
	"auth-url": authScene(nil, func(value string) authDirectives {
		host, target, _ := strings.Cut(strings.TrimPrefix(value, "http://"), "/")
		return authDirectives{host: strings.TrimSuffix(host, ":80"), target: "/" + target}
	}, request{method: "GET", target: "/", headers: []string{"Cookie: user=anna; other=x", "X-One: 1"}, compare: authResults}),
	"auth-method": authScene(authURL, func(value string) authDirectives { return authDirectives{method: value} }),
	"auth-signin": authScene(authURL, func(value string) authDirectives { return authDirectives{signin: signinOf(value, "rd")} }),
	"auth-signin-redirect-param": authScene(andURL("auth-signin", "https://login.example/start?rd=x"), func(value string) authDirectives {
		return authDirectives{signin: signinOf("https://login.example/start?rd=x", value)}
	}),
	"auth-response-headers": authScene(authURL, func(value string) authDirectives {
		return authDirectives{responses: strings.Split(strings.ReplaceAll(value, " ", ""), ",")}
	}),
	"auth-proxy-set-headers": authScene(authURL, func(string) authDirectives {
		return authDirectives{set: `proxy_set_header 'X-One' 'of $http_host'; proxy_set_header 'X-Two' 'fixed';`}
	}),
	"auth-request-redirect": authScene(authURL, func(value string) authDirectives { return authDirectives{redirect: value} }),
	"auth-cache-key": authScene(authURL, func(string) authDirectives {
		return authDirectives{cache: cacheOf("200 202 401 5m")}
	}, cachedOnce...),
	"auth-cache-duration": authScene(andURL("auth-cache-key", "$remote_addr$http_authorization"), func(value string) authDirectives {
		return authDirectives{cache: cacheOf(value)}
	}, cachedOnce...),
	"auth-always-set-cookie": authScene(authURL, func(value string) authDirectives { return authDirectives{always: value == "true"} }),
	"auth-snippet":           authScene(authURL, func(value string) authDirectives { return authDirectives{set: value} }),
	"enable-global-auth":     {},
}

// authBefore returns the directives that all servers share: the cache, and a variable.
func authBefore(all []built, dir string) string {
	var requests []request
	for i := range all {
		requests = append(append(requests, usual...), all[i].requests...)
	}
	return "proxy_cache_path " + dir + " keys_zone=auth_cache:1m;" + escapedTargets(requests)
}

// escapedTargets makes the variable $escaped_request_uri for some requests. A module makes
// it in ingress-nginx that Debian's nginx may lack.
func escapedTargets(requests []request) string {
	text := "map_hash_bucket_size 256; map $request_uri $escaped_request_uri {"
	seen := map[string]bool{}
	for _, r := range requests {
		if !seen[r.target] {
			seen[r.target] = true
			// Strings of a map match without regard to case; expressions do not.
			text += fmt.Sprintf(" %q %q;", "~^"+regexp.QuoteMeta(r.target)+"$", strings.ReplaceAll(url.QueryEscape(r.target), "+", "%20"))
		}
	}
	return text + "}\n"
}

// TestGlobalAuth: the keys of the ConfigMap hold for Ingresses without auth-url that do
// not turn them off.
func TestGlobalAuth(t *testing.T) {
	g := startBackends(t)
	defaults, faults := nginx.ParseConfig(map[string]string{
		"global-auth-url": authURL["auth-url"], "global-auth-method": "HEAD", "global-auth-signin": "https://login.example/start",
		"global-auth-signin-redirect-param": "back", "global-auth-response-headers": "X-Auth-Request-User", "global-auth-request-redirect": "$scheme://$host$request_uri",
		"global-auth-always-set-cookie": "true", "global-auth-snippet": "proxy_set_header X-One global;\nif ($http_x_one) { return 204; }\n",
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	g.defaults = defaults
	global := authDirectives{
		method: "HEAD", signin: signinOf("https://login.example/start", "back"), responses: []string{"X-Auth-Request-User"},
		redirect: "$scheme://$host$request_uri", always: true, set: "proxy_set_header X-One global; if ($http_x_one) { return 204; }",
	}
	own := authDirectives{host: "auth", target: "/other"}
	var all []built
	var servers strings.Builder
	var ingresses []*networkingv1.Ingress
	for i, c := range []struct {
		name, value string
		directives  *authDirectives
	}{{"enable-global-auth", "true", &global}, {"enable-global-auth", "false", nil}, {"auth-url", "http://auth/other", &own}, {"auth-signin", "https://unused.example/", &global}} {
		b := built{name: c.name, value: c.value, host: fmt.Sprintf("global-%d.test", i), scene: scene{requests: sessions}}
		if c.directives != nil {
			b.server = func(string) string { return c.directives.server() }
			b.location = func(string) string { return c.directives.location() }
		}
		all = append(all, b)
		ingresses = append(ingresses, b.ingresses(i)...)
		servers.WriteString(strings.ReplaceAll(b.serverOf(g), "AUTHPORT", fmt.Sprint(g.ports[authService])))
	}
	g.startNGINX(t, authBefore(all, t.TempDir()), servers.String())
	for _, refused := range g.startEdge(t, ingresses) {
		t.Errorf("refused: %s", refused)
	}
	for i := range all {
		t.Run(all[i].name+"="+all[i].value, func(t *testing.T) { all[i].compare(t, g) })
	}
}
