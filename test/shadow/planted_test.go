package shadow

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/shadow"
)

// planted is a difference between the two controllers.
type planted struct {
	name string
	// location and server are directives of nginx, for the location / of the host and in the
	// place of it; PASS passes the request on.
	location, server string
	// rule are the fields of the edge's rule, besides its host; with backends or a response,
	// in the place of backend one.
	rule string
	// request is METHOD TARGET, and headers its lines.
	request string
	headers []string
	body    string
	// want are the causes, in order.
	want []string
}

const users = `alice:$2y$05$h9OxLeY20/5uiXjfPgdRxuFlrfqBf2QifYDgrwsR6rAEgX3/dpOGq`

// differences are the planted differences. Each has a host of its own.
var differences = []planted{
	{name: "no-rule", rule: "match: {path: {type: prefix, value: /other}}", request: "GET /app", want: []string{"status 200 → 404"}},
	{name: "unavailable", rule: "response: {status: 503, reason: NoEndpoint}", request: "GET /app", want: []string{"status 200 → 503"}},
	{name: "head", rule: "match: {methods: [GET]}", request: "HEAD /app", want: []string{"status 200 → 404"}},
	{name: "options", rule: "match: {methods: [GET]}", request: "OPTIONS /app", want: []string{"status 200 → 404"}},
	{name: "trailing-slash", server: "location /app/ { PASS }", rule: "match: {path: {type: exact, value: /app}}", request: "GET /app/", want: []string{"status 200 → 404"}},
	{name: "slash-redirect", server: "location /app/ { PASS }", request: "GET /app", want: []string{"status 301 → 200"}},
	{name: "case", server: "location ~* ^/app { PASS }", rule: "match: {path: {type: prefix, value: /app}}", request: "GET /APP/x", want: []string{"status 200 → 404"}},
	{name: "prefix", server: "location /app { PASS }", rule: "match: {path: {type: prefix, value: /app}}", request: "GET /application", want: []string{"status 200 → 404"}},
	{name: "encoded", server: "location = /a/b { return 403; } location / { PASS }", rule: "match: {path: {type: prefix, value: /a}}", request: "GET /%61/b", want: []string{"status 403 → 200"}},
	{name: "encoded-slash", request: "GET /a%2Fb", want: []string{"status 200 → 400"}},
	{name: "denied", location: "deny all; PASS", request: "GET /", want: []string{"status 403 → 200"}},
	{name: "password", location: `auth_basic shop; auth_basic_user_file /dev/null; PASS`, request: "GET /", want: []string{"status 401 → 200"}},
	{
		name: "realm", location: `auth_basic shop; auth_basic_user_file /dev/null; PASS`,
		rule: "policies: [{basicAuth: {realm: other, users: '" + users + "'}}]", request: "GET /", want: []string{"header changed Www-Authenticate"},
	},
	{name: "body-size", location: "client_max_body_size 4; PASS", request: "POST /form", body: "0123456789", want: []string{"status 413 → 200"}},
	{name: "no-redirect", location: "return 308 https://$host$request_uri;", request: "GET /app", want: []string{"status 308 → 200"}},
	{
		name: "redirect-status", location: "return 301 https://new.example$request_uri;", rule: redirect("https://new.example${1}", 308),
		request: "GET /app", want: []string{"status 301 → 308"},
	},
	{
		name: "redirect-scheme", location: "return 308 https://new.example$request_uri;", rule: redirect("http://new.example${1}", 308),
		request: "GET /app", want: []string{"redirect scheme"},
	},
	{
		name: "redirect-host", location: "return 308 https://new.example$request_uri;", rule: redirect("https://old.example${1}", 308),
		request: "GET /app", want: []string{"redirect host"},
	},
	{
		name: "redirect-path", location: "return 308 https://new.example$uri/;", rule: redirect("https://new.example${1}", 308),
		request: "GET /app", want: []string{"redirect path"},
	},
	{
		name: "redirect-query", location: "return 308 https://new.example$uri;", rule: redirect("https://new.example${1}", 308),
		request: "GET /app?q=1", want: []string{"redirect query"},
	},
	{name: "header-missing", location: "add_header X-Frame-Options DENY always; PASS", request: "GET /", want: []string{"header missing X-Frame-Options"}},
	{name: "header-added", rule: setHeader("X-Extra", "1"), request: "GET /", want: []string{"header added X-Extra"}},
	{
		name: "header-changed", location: "add_header X-Frame-Options DENY always; PASS", rule: setHeader("X-Frame-Options", "SAMEORIGIN"),
		request: "GET /", want: []string{"header changed X-Frame-Options"},
	},
	{
		name: "header-repeated", location: "add_header X-Twice a always; PASS",
		rule: "policies: [{responseHeaders: {add: [{name: X-Twice, value: a}, {name: X-Twice, value: a}]}}]", request: "GET /", want: []string{"header repeated X-Twice"},
	},
	{name: "header-hidden", location: "proxy_hide_header Cache-Control; PASS", request: "GET /", want: []string{"header added Cache-Control"}},
	{name: "content-type", rule: setHeader("Content-Type", "text/html"), request: "GET /", want: []string{"header changed Content-Type"}},
	{name: "charset", rule: setHeader("Content-Type", "text/plain; charset=latin1"), request: "GET /", want: []string{"header changed Content-Type"}},
	{name: "cache-control", rule: setHeader("Cache-Control", "no-store"), request: "GET /", want: []string{"header changed Cache-Control"}},
	{name: "expires", location: "expires 1h; proxy_hide_header Cache-Control; PASS", request: "GET /", want: []string{"header changed Cache-Control", "header missing Expires"}},
	{
		name: "hsts", location: `add_header Strict-Transport-Security "max-age=31536000; includeSubDomains" always; PASS`, request: "GET /",
		want: []string{"header missing Strict-Transport-Security"},
	},
	{name: "etag", rule: setHeader("ETag", `"v2"`), request: "GET /", want: []string{"header changed Etag"}},
	{name: "vary", location: "add_header Vary Accept-Language; PASS", rule: setHeader("Vary", "Cookie"), request: "GET /", want: []string{"header changed Vary"}},
	{
		name: "policy", location: `add_header Content-Security-Policy "default-src 'self'" always; PASS`, rule: setHeader("Content-Security-Policy", "default-src 'none'"),
		request: "GET /", want: []string{"header changed Content-Security-Policy"},
	},
	{name: "cookie-missing", location: `add_header Set-Cookie "route=1; Path=/"; PASS`, request: "GET /", want: []string{"cookie missing route"}},
	{name: "cookie-added", rule: "policies: [{responseHeaders: {add: [{name: Set-Cookie, value: 'route=1; Path=/'}]}}]", request: "GET /", want: []string{"cookie added route"}},
	{
		name: "cookie-name", location: `add_header Set-Cookie "INGRESSCOOKIE=1; Path=/"; PASS`,
		rule: "policies: [{responseHeaders: {add: [{name: Set-Cookie, value: 'sticky=1; Path=/'}]}}]", request: "GET /",
		want: []string{"cookie added sticky", "cookie missing INGRESSCOOKIE"},
	},
	{
		name: "cookie-attributes", location: `add_header Set-Cookie "route=1; Path=/; Secure; HttpOnly"; PASS`,
		rule: "policies: [{responseHeaders: {add: [{name: Set-Cookie, value: 'route=2; Path=/app; HttpOnly'}]}}]", request: "GET /", want: []string{"cookie attributes route"},
	},
	{name: "backend", rule: to("two"), request: "GET /", want: []string{"body"}},
	{name: "rewrite", server: "location / { rewrite ^/app/(.*) /$1 break; PASS }", request: "GET /app/page", want: []string{"body"}},
	{name: "head-length", server: "location / { rewrite ^/app/(.*) /$1 break; PASS }", request: "HEAD /app/page", want: []string{"header changed Content-Length"}},
	{name: "host", rule: "rewrite: {host: internal.example}", request: "GET /", want: []string{"body"}},
	{name: "error-page", rule: "policies: [{errorPages: {statuses: [{from: 404, to: 404}], backend: {namespace: default, name: two, port: 80}, path: /missing}}]", request: "GET /missing", want: []string{"body", "header missing Etag"}},
	{name: "default-backend", location: "return 404;", request: "GET /missing", want: []string{"body", "cookie added session", "header added Cache-Control", "header added Etag", "header changed Content-Type"}},
	{
		name: "gzip", location: "gzip on; PASS", request: "GET /", headers: []string{"Accept-Encoding: gzip"}, want: []string{"header missing Content-Encoding"},
	},
	{
		name: "canary", location: "if ($http_x_canary = always) { proxy_pass http://TWO; } PASS", request: "GET /", headers: []string{"X-Canary: always"}, want: []string{"body"},
	},
	{
		name: "canary-cookie", location: "if ($cookie_canary = always) { proxy_pass http://TWO; } PASS", request: "GET /", headers: []string{"Cookie: canary=always"}, want: []string{"body"},
	},
	{
		name: "preflight", location: `add_header Access-Control-Allow-Origin "*"; add_header Access-Control-Allow-Methods "GET, PUT"; add_header Access-Control-Max-Age 600; return 204;`,
		rule:    "policies: [{cors: {allowOrigins: ['*'], allowMethods: [GET], maxAge: 10m}}]",
		request: "OPTIONS /", headers: []string{"Origin: https://a.example", "Access-Control-Request-Method: PUT"}, want: []string{"header changed Access-Control-Allow-Methods"},
	},
	{
		name: "origin", location: `add_header Access-Control-Allow-Origin "https://a.example" always; PASS`,
		request: "GET /", headers: []string{"Origin: https://a.example"}, want: []string{"header missing Access-Control-Allow-Origin"},
	},
	{name: "timeout", rule: to("slow"), request: "GET /", want: []string{"timeout new"}},
}

// redirect returns a rule that redirects to a URL; ${1} is path and query.
func redirect(to string, status int) string {
	return fmt.Sprintf("response: {status: 404}\n  policies: [{redirectRegexp: {regexp: '^https?://[^/]+(.*)$', replacement: '%s', status: %d}}]", to, status)
}

func setHeader(name, value string) string {
	return fmt.Sprintf("policies: [{responseHeaders: {set: [{name: %s, value: %q}]}}]", name, value)
}

func to(backend string) string {
	return "backends: [{backend: {namespace: default, name: " + backend + ", port: 80}}]"
}

// configure returns nginx's server and the edge's rule.
func (p planted) configure(g *ground) (server, rule string) {
	server = p.server
	if server == "" {
		location := p.location
		if location == "" {
			location = "PASS"
		}
		server = "location / { " + location + " }"
	}
	server = strings.NewReplacer("PASS", g.pass("one"), "TWO", g.backends["two"].String()).Replace(server)
	server = "server { listen LISTEN; server_name " + p.name + ".example; " + server + " }\n"
	rule = "- id: {name: " + p.name + "}\n  host: " + p.name + ".example\n"
	if p.rule != "" {
		rule += "  " + p.rule + "\n"
	}
	if !strings.Contains(p.rule, "match:") {
		rule += "  match: {path: {type: prefix, value: /}}\n"
	}
	if !strings.Contains(p.rule, "backends:") && !strings.Contains(p.rule, "response:") {
		rule += "  " + to("one") + "\n"
	}
	return server, rule
}

// copied returns the request.
func (p planted) copied() *shadow.Request {
	method, path, _ := strings.Cut(p.request, " ")
	r := &shadow.Request{Method: method, Host: p.name + ".example", Target: path, Header: http.Header{}, Body: []byte(p.body)}
	for _, line := range p.headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// TestPlanted: each planted difference is found, with its cause and nothing else, and the
// same requests of a pair without it are the same.
func TestPlanted(t *testing.T) {
	g := newGround(t)
	var servers, rules strings.Builder
	for _, one := range differences {
		server, rule := one.configure(g)
		servers.WriteString(server)
		rules.WriteString(rule)
	}
	g.startNGINX(t, servers.String())
	g.startEdge(t, rules.String())
	for _, one := range differences {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			report := compareOnce(t, one.copied(), "http://"+g.nginx, "http://"+g.edge)
			requireCauses(t, report, one.want)
			if group := report.Groups[0]; group.Host != one.name+".example" || group.Count != 1 || !strings.HasPrefix(group.Route, "/") {
				t.Errorf("the group is %+v", group)
			}
			// The old controller does not differ from itself.
			requireCauses(t, compareOnce(t, one.copied(), "http://"+g.nginx, "http://"+g.nginx), nil)
		})
	}
	if len(differences) < 30 {
		t.Errorf("%d differences are planted", len(differences))
	}
}

// TestPlantedFailures: an edge that does not respond at all.
func TestPlantedFailures(t *testing.T) {
	g := newGround(t)
	one := planted{name: "app", request: "GET /"}
	server, _ := one.configure(g)
	g.startNGINX(t, server)
	closing := programs.Serve(t, "", func(conn net.Conn) { _ = conn.Close() })
	for cause, address := range map[string]string{
		"refused connection new": "http://" + programs.FreeAddress(t).String(),
		"broken connection new":  "http://" + closing.String(),
		"TLS error new":          "https://" + g.nginx,
	} {
		t.Run(cause, func(t *testing.T) {
			requireCauses(t, compareOnce(t, one.copied(), "http://"+g.nginx, address), []string{cause})
		})
	}
	t.Run("both", func(t *testing.T) {
		report := compareOnce(t, one.copied(), "http://"+programs.FreeAddress(t).String(), "http://"+programs.FreeAddress(t).String())
		if requireCauses(t, report, nil); report.Failed != 1 {
			t.Errorf("the counts are %+v", report.Counts)
		}
	})
}

// TestUnstable: a backend that differs from itself is no difference of the controllers.
func TestUnstable(t *testing.T) {
	g := newGround(t)
	g.startNGINX(t, "server { listen LISTEN; server_name flap.example; location / { "+g.pass("flapping")+" } }")
	g.startEdge(t, "- id: {name: flap}\n  host: flap.example\n  match: {path: {type: prefix, value: /}}\n  "+to("flapping")+"\n")
	report := compareOnce(t, planted{name: "flap", request: "GET /"}.copied(), "http://"+g.nginx, "http://"+g.edge)
	if requireCauses(t, report, nil); report.Unstable != 1 || len(report.UnstableGroups) != 1 || report.UnstableGroups[0].Cause.Kind != shadow.CauseBody {
		t.Errorf("the counts are %+v, unstable %v", report.Counts, report.UnstableGroups)
	}
}

// compareOnce compares one request.
func compareOnce(t *testing.T, request *shadow.Request, old, fresh string) *shadow.Report {
	t.Helper()
	timeout := time.Minute
	if request.Host == "timeout.example" {
		timeout = time.Second
	}
	source := func(ctx context.Context, intake *shadow.Intake) error {
		intake.Submit(ctx, request)
		return nil
	}
	return must.Get(shadow.Run(t.Context(), shadow.Options{
		Old: []*shadow.Target{target(t, old, timeout)}, New: []*shadow.Target{target(t, fresh, timeout)},
		Methods: append(shadow.SafeMethods(), http.MethodPost), Compare: shadow.NewComparer(nil, nil), Concurrency: 1, Retries: 1,
	}, source))(t)
}

// requireCauses compares the causes of a report.
func requireCauses(t *testing.T, report *shadow.Report, want []string) {
	t.Helper()
	var got []string
	for _, group := range report.Groups {
		got = append(got, group.Cause.String())
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
		for _, group := range report.Groups {
			t.Logf("%s: old %q, new %q", group.Cause, group.Example.Old, group.Example.New)
		}
		t.Fatalf("the counts are %+v, skipped %v", report.Counts, report.SkippedBy)
	}
}
