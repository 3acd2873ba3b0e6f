package nginx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// scene is how one annotation is compared. The functions get its value.
type scene struct {
	// with are other annotations that it needs.
	with map[string]string
	// path is the path of the rule, a prefix; / if it is empty.
	path func(value string) string
	// http, server and location are directives of nginx.
	http, server, location func(value string) string
	// requests are sent besides the usual ones; HOST stands for the host.
	requests []request
	// tls gives the host a certificate.
	tls bool
	// canary makes a second Ingress with the annotations; nginx chooses by $canary.
	canary bool
}

// usual are the requests of every scene.
var usual = []request{
	{method: "GET", target: "/"},
	{method: "GET", target: "/app/x?q=1"},
	{method: "GET", target: "/APP/Index.html"},
	{method: "HEAD", target: "/app"},
	{method: "POST", target: "/app/form", size: 4},
}

// is returns a function for directives that do not depend on the value, and of one for
// those that have it in place of V.
func of(text string) func(string) string {
	return func(value string) string { return strings.ReplaceAll(text, "V", value) }
}

// toTLS is the redirect of ingress-nginx to https, which it makes in Lua.
func toTLS(keepSlash bool) string {
	if keepSlash {
		return "return 308 https://$host$request_uri;"
	}
	return `if ($request_uri ~ "^(.*?)/?$") { return 308 https://$host$1; }`
}

func when(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}

var (
	preflight = request{
		method: "OPTIONS", target: "/app", headers: []string{"Origin: https://one.example", "Access-Control-Request-Method: PUT"},
		compare: []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age"},
	}
	fromOne = request{
		method: "GET", target: "/app", headers: []string{"Origin: https://one.example"},
		compare: []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"},
	}
	fromTwo   = request{method: "GET", target: "/app", headers: []string{"Origin: https://www.two.example"}, compare: []string{"Access-Control-Allow-Origin"}}
	fromThree = request{method: "GET", target: "/app", headers: []string{"Origin: https://three.example"}, compare: []string{"Access-Control-Allow-Origin"}}
	corsTests = []request{preflight, fromOne, fromTwo, fromThree}
)

// corsDirectives are those of enable-cors, with some values replaced.
func corsDirectives(origin, methods, headers, expose, age string) string {
	set := fmt.Sprintf(`add_header Access-Control-Allow-Origin "%s" always; add_header Access-Control-Expose-Headers "%s" always;`, origin, expose)
	return set + fmt.Sprintf(`if ($request_method = OPTIONS) { %s add_header Access-Control-Allow-Methods "%s" always;
		add_header Access-Control-Allow-Headers "%s" always; add_header Access-Control-Max-Age %s always; return 204; }`, set, methods, headers, age)
}

const (
	corsMethods = "GET, PUT, POST, DELETE, PATCH, OPTIONS"
	corsHeaders = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization"
)

var corsOn = map[string]string{"enable-cors": "true"}

// scenes are those of the annotations that are done.
var scenes = map[string]scene{
	"use-regex": {
		path: func(value string) string {
			return map[string]string{"true": "/app/[a-z]+"}[value] + when(value != "true", "/app")
		},
	},
	"rewrite-target": {
		path: func(value string) string {
			return map[string]string{"/$1": "/app/(.*)", "/app/$2": "/app(/|$)(.*)"}[value] + when(!strings.Contains(value, "$"), "/app")
		},
		requests: []request{{method: "GET", target: "/app/one/two"}, {method: "GET", target: "/other"}},
	},
	"x-forwarded-prefix": {
		with: map[string]string{"rewrite-target": "/"}, path: of("/app"),
		location: of(`proxy_set_header X-Forwarded-Prefix "V";`),
	},
	"server-snippet": {
		server: of("V"), requests: []request{
			{method: "GET", target: "/robots.txt", compare: serverHeaders}, {method: "GET", target: "/a/index.PHP?q=1", compare: serverHeaders},
			{method: "GET", target: "/older/x?q=1", compare: serverHeaders}, {method: "GET", target: "/moved/x?q=1", compare: serverHeaders},
			{method: "GET", target: "/gone", compare: serverHeaders}, {method: "GET", target: "/", headers: []string{"User-Agent: BadBot"}, compare: serverHeaders},
		},
	},
	"configuration-snippet": {
		location: of("V"), requests: []request{
			{method: "GET", target: "/old/x?q=1", compare: snippetHeaders}, {method: "GET", target: "/status/404", compare: snippetHeaders},
			{method: "GET", target: "/app/one", headers: []string{"User-Agent: Some Bot/1"}, compare: snippetHeaders},
		},
	},
	"app-root":                  {server: of("if ($uri = /) { return 302 $scheme://$http_hostV; }"), requests: []request{{method: "GET", target: "/?q=1"}}},
	"server-alias":              {requests: []request{{method: "GET", host: "alias.example", target: "/app"}, {method: "GET", host: "two.alias.example", target: "/app"}}},
	"proxy-body-size":           {location: of("client_max_body_size V;"), requests: []request{{method: "POST", target: "/app", size: 9}, {method: "POST", target: "/app", size: 1025}}},
	"proxy-connect-timeout":     {location: of("proxy_connect_timeout V;")},
	"proxy-read-timeout":        {location: of("proxy_read_timeout V;")},
	"proxy-send-timeout":        {location: of("proxy_send_timeout V;")},
	"proxy-next-upstream":       {location: of("proxy_next_upstream V;")},
	"proxy-next-upstream-tries": {location: of("proxy_next_upstream_tries V;")},
	"ssl-redirect":              {tls: true, location: func(value string) string { return when(value == "true", toTLS(false)) }, requests: []request{{method: "GET", target: "/app/"}}},
	"force-ssl-redirect":        {location: func(value string) string { return when(value == "true", toTLS(false)) }, requests: []request{{method: "GET", target: "/app/"}}},
	"preserve-trailing-slash":   {with: map[string]string{"force-ssl-redirect": "true"}, location: func(value string) string { return toTLS(value == "true") }, requests: []request{{method: "GET", target: "/app/"}}},
	"permanent-redirect":        {location: of("return 301 V;")},
	"permanent-redirect-code":   {with: map[string]string{"permanent-redirect": "https://new.example$request_uri"}, location: of("return V https://new.example$request_uri;")},
	"temporal-redirect":         {location: of("return 302 V;")},
	"temporal-redirect-code":    {with: map[string]string{"temporal-redirect": "https://new.example/"}, location: of("return V https://new.example/;")},
	"from-to-www-redirect":      {requests: []request{{method: "GET", host: "www.HOST", target: "/app?q=1"}, {method: "POST", host: "www.HOST", target: "/", size: 3}}},
	"whitelist-source-range":    {location: allow},
	"allowlist-source-range":    {location: allow},
	"denylist-source-range":     {location: func(value string) string { return "deny " + strings.Join(strings.Split(value, ","), "; deny ") + ";" }},
	"limit-rps": {
		http: of("limit_req_zone $binary_remote_addr zone=rpsV:1m rate=Vr/s;"),
		location: func(value string) string {
			return fmt.Sprintf("limit_req zone=rps%s burst=%s nodelay;", value, times5[value])
		},
	},
	"limit-rpm": {
		http: of("limit_req_zone $binary_remote_addr zone=rpmV:1m rate=Vr/m;"),
		location: func(value string) string {
			return fmt.Sprintf("limit_req zone=rpm%s burst=%s nodelay;", value, times5[value])
		},
		requests: many(8),
	},
	"limit-burst-multiplier": {
		with: map[string]string{"limit-rpm": "1"}, http: of("limit_req_zone $binary_remote_addr zone=burstV:1m rate=1r/m;"),
		location: of("limit_req zone=burstV burst=V nodelay;"),
	},
	"limit-connections": {
		http:     of("limit_conn_zone $binary_remote_addr zone=connV:1m;"),
		location: of("limit_conn connV V;"),
	},
	"auth-type":   {with: map[string]string{"auth-secret": "users"}, location: of(`auth_basic "x"; auth_basic_user_file USERS;`), requests: passwords},
	"auth-secret": {with: map[string]string{"auth-type": "basic"}, location: of(`auth_basic "x"; auth_basic_user_file USERS;`), requests: passwords},
	"auth-realm": {
		with: map[string]string{"auth-type": "basic", "auth-secret": "users"}, location: of(`auth_basic "V"; auth_basic_user_file USERS;`),
		requests: []request{{method: "GET", target: "/", compare: []string{"WWW-Authenticate"}}},
	},
	"enable-cors": {location: func(value string) string {
		return when(value == "true", corsDirectives("*", corsMethods, corsHeaders, "", "1728000"))
	}, requests: []request{preflight, fromOne}},
	"cors-allow-origin":   {with: corsOn, location: corsOrigins, requests: corsTests},
	"cors-allow-methods":  {with: corsOn, location: func(v string) string { return corsDirectives("*", v, corsHeaders, "", "1728000") }, requests: corsTests[:2]},
	"cors-allow-headers":  {with: corsOn, location: func(v string) string { return corsDirectives("*", corsMethods, v, "", "1728000") }, requests: corsTests[:2]},
	"cors-expose-headers": {with: corsOn, location: func(v string) string { return corsDirectives("*", corsMethods, corsHeaders, v, "1728000") }, requests: corsTests[:2]},
	"cors-max-age":        {with: corsOn, location: func(v string) string { return corsDirectives("*", corsMethods, corsHeaders, "", v) }, requests: corsTests[:2]},
	"cors-allow-credentials": {
		with: map[string]string{"enable-cors": "true", "cors-allow-origin": "https://one.example"},
		location: func(v string) string {
			return `set $origin ""; if ($http_origin = https://one.example) { set $origin $http_origin; } add_header Access-Control-Allow-Origin $origin always;` +
				when(v == "true", ` set $allowed ""; if ($http_origin = https://one.example) { set $allowed true; } add_header Access-Control-Allow-Credentials $allowed always;`)
		},
		requests: []request{{method: "GET", target: "/app", headers: fromOne.headers, compare: []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials"}}},
	},
	"backend-protocol":  {},
	"service-upstream":  {},
	"load-balance":      {},
	"upstream-hash-by":  {requests: []request{{method: "GET", target: "/", headers: []string{"X-User: a"}}}},
	"upstream-vhost":    {location: of("proxy_set_header Host V;")},
	"enable-access-log": {},
	"default-backend": {
		location: func(string) string { return errorPages("503") }, requests: failures,
	},
	"custom-http-errors": {
		with:     map[string]string{"default-backend": "three"},
		location: errorPages,
		requests: failures,
	},
	"canary":        {canary: true},
	"canary-weight": {canary: true, with: map[string]string{"canary": "true"}, location: func(v string) string { return when(v == "100", "set $canary 1;") }},
	"canary-weight-total": {
		canary: true, with: map[string]string{"canary": "true", "canary-weight": "1000"}, location: of("set $canary 1;"),
	},
	"canary-by-header": {
		canary: true, with: map[string]string{"canary": "true"}, location: of(`if ($http_x_canary = always) { set $canary 1; }`), requests: canaryHeaders,
	},
	"canary-by-header-value": {
		canary: true, with: map[string]string{"canary": "true", "canary-by-header": "X-Canary"}, location: of(`if ($http_x_canary = V) { set $canary 1; }`), requests: canaryHeaders,
	},
	"canary-by-header-pattern": {
		canary: true, with: map[string]string{"canary": "true", "canary-by-header": "X-Canary"}, location: of(`if ($http_x_canary ~ "V") { set $canary 1; }`), requests: canaryHeaders,
	},
	"canary-by-cookie": {
		canary: true, with: map[string]string{"canary": "true"}, location: of(`if ($cookie_canary = always) { set $canary 1; }`),
		requests: []request{
			{method: "GET", target: "/app", headers: []string{"Cookie: canary=always"}}, {method: "GET", target: "/app", headers: []string{"Cookie: canary=never"}},
			{method: "GET", target: "/app", headers: []string{"Cookie: a=b; canary=always; c=d"}}, {method: "GET", target: "/app", headers: []string{"Cookie: notcanary=always"}},
		},
	},
}

// notCompared are the annotations that are done and that have no scene, with the test that
// has them or the reason.
var notCompared = map[string]string{
	"auth-tls-secret":                       "TestExamples compares it, with handshakes",
	"auth-tls-verify-client":                "TestExamples compares it, with handshakes",
	"auth-tls-pass-certificate-to-upstream": "TestExamples compares it, with handshakes",
	"proxy-ssl-secret":                      "TestBackendCertificates compares it, with handshakes",
	"proxy-ssl-verify":                      "TestBackendCertificates compares it, with handshakes",
	"proxy-ssl-name":                        "TestBackendCertificates compares it, with handshakes",
	"enable-modsecurity":                    "TestModSecurity; the rules are compared with Coraza alone, in internal/edge/waf",
	"enable-owasp-core-rules":               "TestModSecurity; the rules are compared with Coraza alone, in internal/edge/waf",
	"modsecurity-snippet":                   "TestModSecurity; the rules are compared with Coraza alone, in internal/edge/waf",
	"modsecurity-transaction-id":            "it is in the log alone",
	"affinity":                              "TestStickyCookies; nginx without a licence has none",
	"session-cookie-name":                   "TestStickyCookies; nginx without a licence has none",
	"session-cookie-path":                   "TestStickyCookies; nginx without a licence has none",
	"session-cookie-domain":                 "TestStickyCookies; nginx without a licence has none",
	"session-cookie-samesite":               "TestStickyCookies; nginx without a licence has none",
	"session-cookie-secure":                 "TestStickyCookies; nginx without a licence has none",
	"session-cookie-max-age":                "TestStickyCookies; nginx without a licence has none",
	"session-cookie-expires":                "TestStickyCookies; nginx without a licence has none",
}

var (
	times5        = map[string]string{"1": "5", "2": "10"}
	canaryHeaders = []request{
		{method: "GET", target: "/app", headers: []string{"X-Canary: always"}}, {method: "GET", target: "/app", headers: []string{"X-Canary: never"}},
		{method: "GET", target: "/app", headers: []string{"X-Canary: yes"}}, {method: "GET", target: "/app", headers: []string{"X-Canary: a"}},
		{method: "GET", target: "/app", headers: []string{"X-Canary: ab"}},
	}
	failures = []request{
		{method: "GET", target: "/status/404"}, {method: "GET", target: "/status/418"}, {method: "GET", target: "/status/500"}, {method: "GET", target: "/status/503"},
	}
	passwords = []request{
		{method: "GET", target: "/app", headers: []string{"Authorization: Basic YW5uYTpzZWNyZXQ="}}, // anna:secret
		{method: "GET", target: "/app", headers: []string{"Authorization: Basic YW5uYTp3cm9uZw=="}}, // anna:wrong
		{method: "GET", target: "/app", headers: []string{"Authorization: Bearer x"}},
	}
)

// users is the file with the password of anna.
const users = "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"

func many(n int) []request {
	var list []request
	for range n {
		list = append(list, request{method: "GET", target: "/"})
	}
	return list
}

// errorPages are the directives of custom-http-errors.
func errorPages(codes string) string {
	text := "proxy_intercept_errors on;"
	for code := range strings.SplitSeq(codes, ",") {
		code = strings.TrimSpace(code)
		text += fmt.Sprintf(" error_page %s = @custom_%s;", code, code)
	}
	return text
}

func allow(value string) string {
	return "allow " + strings.Join(strings.Split(value, ","), "; allow ") + "; deny all;"
}

func corsOrigins(value string) string {
	if value == "*" {
		return corsDirectives("*", corsMethods, corsHeaders, "", "1728000")
	}
	pattern := `^https://one\.example$`
	if strings.Contains(value, "two") {
		pattern = `^(https://one\.example|https://[A-Za-z0-9-]+\.two\.example)$`
	}
	return fmt.Sprintf(`set $origin ""; if ($http_origin ~* "%s") { set $origin $http_origin; }`, pattern) +
		strings.ReplaceAll(corsDirectives("$origin", corsMethods, corsHeaders, "", "1728000"), `if ($request_method = OPTIONS) {`, `if ($request_method = OPTIONS) {`)
}

// built is a scene with a value.
type built struct {
	name, value, host string
	scene
}

// TestAnnotations: each annotation that is done, with each of its examples, gives the
// responses of nginx with the directives of ingress-nginx.
func TestAnnotations(t *testing.T) {
	g := startBackends(t)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o600))
	var all []built
	var before, servers strings.Builder
	var ingresses []*networkingv1.Ingress
	for _, declared := range nginx.Annotations() {
		found, compared := scenes[declared.Name]
		if !compared {
			found, compared = authScenes[declared.Name]
		}
		_, excused := notCompared[declared.Name]
		if declared.Support != nginx.Done {
			continue
		}
		if compared == excused {
			t.Errorf("%s is done: compare it, or list it with the reason that it cannot be", declared.Name)
		}
		if !compared {
			continue
		}
		for i, value := range declared.Examples {
			b := built{name: declared.Name, value: value, host: fmt.Sprintf("%s-%d.test", declared.Name, i), scene: found}
			all = append(all, b)
			ingresses = append(ingresses, b.ingresses(len(ingresses))...)
			before.WriteString(b.textOf(b.http))
			servers.WriteString(strings.NewReplacer("USERS", filepath.Join(dir, "users"), "AUTHPORT", fmt.Sprint(g.ports[authService])).Replace(b.serverOf(g)))
		}
	}
	before.WriteString(authBefore(all, filepath.Join(dir, "cache")))
	g.startNGINX(t, before.String(), servers.String())
	for _, refused := range g.startEdge(t, ingresses, &snapshot.SecretBody{Namespace: namespace, Name: "users", Data: map[string][]byte{"auth": []byte(users)}}) {
		t.Errorf("refused: %s", refused)
	}
	cases := 0
	for _, b := range all {
		t.Run(b.name+"="+b.value, func(t *testing.T) { cases += b.compare(t, g) })
	}
	t.Logf("%d cases of %d values", cases, len(all))
	if cases < 400 {
		t.Errorf("there are %d cases, and should be 400", cases)
	}
}

func (b *built) textOf(directives func(string) string) string {
	if directives == nil {
		return ""
	}
	return directives(b.value) + "\n"
}

func (b *built) pathText() string {
	if b.path == nil {
		return "/"
	}
	return b.path(b.value)
}

// ingresses returns the Ingress with the annotation; for a canary that is the second.
func (b *built) ingresses(number int) []*networkingv1.Ingress {
	annotations := map[string]string{nginx.Prefix + b.name: b.value}
	for name, value := range b.with {
		annotations[nginx.Prefix+name] = value
	}
	name := strings.TrimSuffix(b.host, ".test")
	if !b.canary {
		made := ingressOf(number, name, annotations)
		addPath(made, b.host, b.pathText(), networkingv1.PathTypeImplementationSpecific, "one")
		if b.tls {
			made.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{b.host}}}
		}
		return []*networkingv1.Ingress{made}
	}
	main := ingressOf(number, name, nil)
	addPath(main, b.host, "/", networkingv1.PathTypePrefix, "one")
	canary := ingressOf(number, name+"-canary", annotations)
	addPath(canary, b.host, "/", networkingv1.PathTypePrefix, "two")
	return []*networkingv1.Ingress{main, canary}
}

// serverOf returns the servers of nginx.
func (b *built) serverOf(g *ground) string {
	path, rewrite := b.pathText(), ""
	target := b.with["rewrite-target"]
	if b.name == "rewrite-target" {
		target = b.value
	}
	if target != "" {
		rewrite = fmt.Sprintf(`rewrite "(?i)%s" %s break;`, path, target)
	}
	head, exact := path, ""
	switch {
	case target != "" || b.name == "use-regex" && b.value == "true":
		head = `~* "^` + path + `"`
	case path != "/":
		head, exact = path+"/", path
	}
	host := "proxy_set_header Host $http_host;"
	if b.name == "upstream-vhost" {
		host = ""
	}
	size := "client_max_body_size 1m;"
	if b.name == "proxy-body-size" {
		size = ""
	}
	body := size + host + b.textOf(b.location) + rewrite + g.passTo("one")
	if b.canary {
		body = `set $canary "";` + size + host + b.textOf(b.location) +
			fmt.Sprintf("set $to %d; if ($canary) { set $to %d; } proxy_set_header Connection \"\"; proxy_pass http://127.0.0.1:$to;", g.ports["one"], g.ports["two"])
	}
	names := b.host
	if b.name == "server-alias" {
		names += " " + strings.ReplaceAll(b.value, ",", " ")
	}
	text := fmt.Sprintf("server { listen LISTEN; server_name %s; %s\n location %s { %s }\n", names, b.textOf(b.server), head, body)
	if exact != "" {
		text += fmt.Sprintf(" location = %s { %s }\n", exact, body)
	}
	if path != "/" {
		text += " location / { return 404; }\n"
	}
	for _, code := range []string{"404", "418", "500", "503"} {
		if strings.Contains(text, "@custom_"+code) {
			text += fmt.Sprintf("location @custom_%s { internal; proxy_intercept_errors off; proxy_set_header X-Code %s; rewrite (.*) / break; %s }\n", code, code, g.passTo("three"))
		}
	}
	text += "}\n"
	if b.name == "from-to-www-redirect" && b.value == "true" {
		text += fmt.Sprintf("server { listen LISTEN; server_name www.%s; return 308 $scheme://%s$request_uri; }\n", b.host, b.host)
	}
	return text
}

// compare sends the requests and returns how many.
func (b *built) compare(t *testing.T, g *ground) int {
	requests := append(append([]request{}, usual...), b.requests...)
	for _, r := range requests {
		if r.host == "" {
			r.host = b.host
		}
		r.host = strings.ReplaceAll(r.host, "HOST", b.host)
		want, err := g.send(g.nginx, r)
		if err != nil {
			t.Fatalf("%s: nginx: %v", r, err)
		}
		got, err := g.send(g.edge, r)
		if err != nil {
			t.Fatalf("%s: edge: %v", r, err)
		}
		if !got.agrees(want) {
			t.Errorf("%s\n\tedge  %+v\n\tnginx %+v", r, got, want)
		}
	}
	return len(requests)
}
