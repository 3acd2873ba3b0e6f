package nginx

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

// snippetHeaders are the headers of responses that snippets change.
var snippetHeaders = []string{
	"X-One", "X-Two", "X-Three", "X-Powered-By", "X-Backend-Version", "X-Robots-Tag", "X-Frame-Options",
	"X-Got-X-Set-One", "X-Got-X-Set-Two",
}

// typedHeaders are those that are compared if both have the same page.
var typedHeaders = append([]string{"Content-Type"}, snippetHeaders...)

// snippetCase is a snippet with its requests.
type snippetCase struct {
	name, text string
	// outside is the server-snippet.
	outside string
	// path and target are those of the Ingress; / and no rewrite target if they are
	// empty.
	path, target string
	// other is a second path of the host, which leads to the service two.
	other    string
	requests []request
}

// plain are the requests of every case.
var plain = []request{
	{method: "GET", target: "/"},
	{method: "GET", target: "/old/page?x=1&y=2"},
	{method: "GET", target: "/a/b/c.html"},
	{method: "POST", target: "/form?A=b", size: 3},
	{method: "HEAD", target: "/old"},
	{method: "GET", target: "/status/404"},
	{method: "GET", target: "/status/500?x=1"},
	{method: "GET", target: "/x", headers: []string{"X-User: anna", "Cookie: a=1; B=two; c=3", "User-Agent: Test/1.0"}},
}

// returns are cases of return, with the text of the directive as their name.
var returns = []string{
	"return 200;", "return 200 hello;", `return 200 "";`, "return 204;", "return 204 text;", "return 403;", "return 403 denied;", "return 404;", "return 410;",
	"return 301 /new;", "return 302 /new$request_uri;", "return 303 https://other.example$uri$is_args$args;", "return 307 $scheme://$host/x;",
	"return 308 https://$http_host$request_uri;", "return https://other.example/;", "return $scheme://other.example/$request_method;", "return 503;", "return 301;",
	`return 200 "{\"a\": \"$arg_x\"}";`, "default_type application/json; return 200 '[]';", "default_type text/plain; return 418 teapot;", "return 500 'a b';",
}

// rewrites are cases of rewrite, and of what follows it.
var rewrites = []string{
	"rewrite ^/old/(.*)$ /new/$1 last;", "rewrite ^/old/(.*)$ /new/$1 break;", "rewrite ^/old/(.*)$ /new/$1 redirect;", "rewrite ^/old/(.*)$ /new/$1 permanent;",
	"rewrite ^/old/(.*)$ /new/$1;", "rewrite ^/old/(.*)$ /new/$1? last;", "rewrite ^/old/(.*)$ /new?name=$1 last;", "rewrite ^/old/(.*)$ /new?name=$1? last;",
	"rewrite ^/old/(.*)$ /new/$1? permanent;", "rewrite ^/old/(.*)$ /new?name=$1 redirect;", "rewrite ^/old/(.*)$ https://other.example/$1;",
	"rewrite ^/old/(.*)$ https://other.example/$1 permanent;", "rewrite ^/old/(.*)$ $scheme://other.example/$1?x last;", "rewrite ^ /all break;", "rewrite (?i)^/OLD /new break;",
	"rewrite ^/(a)/(b)/(.*)$ /$3/$2/$1 break;", "rewrite ^/old /new; rewrite ^/new /newer; rewrite ^/newer /newest break;",
	"rewrite ^/old /new; break; rewrite ^/new /newer;", "rewrite ^(.*)$ $1/x last;", "rewrite /old/ /new/ last; return 200 $uri;", "rewrite ^/old/(?<rest>.*)$ /$rest/named break;",
	"rewrite ^/a /old/b; rewrite ^/old/(.*)$ /$1; return 200 \"$uri $1\";",
}

// conditions are cases of if and set.
var conditions = []string{
	`if ($arg_x = 1) { return 403; }`, `if ($arg_x != 1) { return 403; }`, `if ($http_x_user) { return 200 "$http_x_user"; }`, `if ($http_x_user = "anna") { return 401; }`,
	`if ($request_uri ~ ^/old/(.*)$) { return 301 /new/$1; }`, `if ($uri ~* "^/OLD") { return 410; }`, `if ($uri !~ ^/old) { return 410; }`, `if ($uri !~* ^/OLD) { return 410; }`,
	`set $a 1; if ($a) { return 200 $a; }`, `set $a 0; if ($a) { return 200 $a; }`, `set $a ""; if ($a = "") { return 200 empty; }`, `set $a "$host-$scheme"; return 200 $a;`,
	`set $a "${arg_x}y"; if ($a = 1y) { return 200 yes; } return 200 no;`, `if ($request_method = POST) { return 405; }`, `if ($cookie_b = two) { return 200 "$cookie_a $cookie_c"; }`,
	`set $args ""; return 301 /x$is_args$args;`, `set $args "z=1";`, `if ($arg_x) { set $args "only=$arg_x"; } rewrite ^/old/(.*)$ /$1 break;`,
	`if ($arg_x) { add_header X-One inner; } add_header X-One outer;`, `add_header X-One outer; if ($arg_x) { set $b 1; } add_header X-Two "$b";`,
	`if ($arg_x) { add_header X-One a; } if ($arg_y) { add_header X-Two b; }`, `if ($arg_x) { add_header X-One a; } if ($arg_y) { set $q 1; }`,
	`if ($arg_x) { more_set_headers "X-One: inner"; } more_set_headers "X-Two: outer";`, `if ($uri ~ /(?<last>[a-z]+)\.html$) { return 200 $last; }`,
	`if ($uri ~ ^/(o)(l)?) { set $c "$1$2"; } add_header X-One "$c";`, `if ($http_user_agent ~* "test/([0-9]+)") { rewrite ^ /agent/$1 break; }`,
	`if ( $arg_x = "1" ) { return 402; }`, `set $x a; set $x "$x$x"; set $x "$x$x"; return 200 $x;`, `if ($arg_x) { break; } return 404;`,
	`if ($arg_x) { rewrite ^ /in last; } if ($uri = /in) { return 200 in; }`, `set $to /target; rewrite ^/old $to break;`, `if ($content_type) { return 415; }`,
}

// headers are cases of the directives about headers.
var headers = []string{
	`add_header X-One 1;`, `add_header X-One 1 always;`, `add_header X-One "$request_method $uri"; add_header X-One second;`, `add_header X-One "";`,
	`add_header X-One $http_x_user always;`, `more_set_headers "X-One: 1" "X-Two: $host";`, `more_set_headers "X-Powered-By: me";`, `more_clear_headers X-Powered-By X-Backend-Version;`,
	`more_set_headers -s 404 "X-One: missing";`, `more_set_headers -s "404 500" "X-One: error";`, `more_clear_headers -s 404 X-Powered-By;`, `more_set_headers "X-Powered-By:";`,
	`proxy_hide_header X-Powered-By;`, `proxy_hide_header X-Powered-By; add_header X-Powered-By mine;`, `add_header X-Powered-By second;`, `more_set_headers "X-One: a"; add_header X-One b;`,
	`proxy_set_header X-Set-One $scheme;`, `proxy_set_header X-Set-One "$remote_addr $server_name";`, `proxy_set_header X-Set-One ""; proxy_set_header X-Set-Two "$http_cookie";`,
	`proxy_set_header X-Set-One $request_uri; rewrite ^ /rewritten break; proxy_set_header X-Set-Two $uri;`, `proxy_set_header X-Set-One $proxy_add_x_forwarded_for;`,
	`proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";`, `proxy_intercept_errors on; proxy_ssl_server_name on;`,
	`return 200 text; add_header X-One returned;`, `return 404; add_header X-One returned always; more_set_headers "X-Two: 2";`, `default_type text/plain; more_set_headers "Content-Type: text/css"; return 200 x;`,
	`set $a 1; proxy_set_header X-Set-One $a; set $a 2;`,
}

// access are cases of allow and deny. Requests come from 127.0.0.1.
var access = []string{
	"deny all;", "allow all;", "allow 127.0.0.1; deny all;", "allow 10.0.0.0/8; deny all;", "deny 127.0.0.1;", "deny 127.0.0.1; allow all;", "allow 127.0.0.0/8; deny 127.0.0.1;",
	"deny 127.0.0.0/9; allow 127.0.0.1; deny all;", "allow 127.0.0.1; deny 127.0.0.0/8;", "deny 10.0.0.0/8;", "allow 127.0.0.2; deny 127.0.0.0/30; allow 127.0.0.1;", "allow ::1; deny all;",
	"deny all; return 200 before;",
}

// further are cases with paths, and of the escapes and comments of a text.
var further = []snippetCase{
	{name: "target", text: "add_header X-One $uri;", path: "/app/(.*)", target: "/$1", requests: []request{{method: "GET", target: "/app/x/y?z=1"}, {method: "GET", target: "/other"}}},
	{name: "target-after-break", text: "rewrite ^/app/keep /kept break;", path: "/app/(.*)", target: "/$1", requests: []request{{method: "GET", target: "/app/keep"}, {method: "GET", target: "/app/x"}}},
	{name: "target-after-rewrite", text: "rewrite ^/app/a /app/b;", path: "/app/(.*)", target: "/$1", requests: []request{{method: "GET", target: "/app/a/c"}, {method: "GET", target: "/app/x"}}},
	{name: "location-groups", text: `add_header X-One "$1"; set $a "<$1>"; proxy_set_header X-Set-One $a;`, path: "/app/([a-z]+)(.*)", target: "/$2", requests: []request{{method: "GET", target: "/app/abc/d"}}},
	{name: "other-path", text: "rewrite ^/move/(.*)$ /two/$1 last;", other: "/two", requests: []request{{method: "GET", target: "/move/x?y=1"}, {method: "GET", target: "/two/x"}}},
	{name: "other-path-break", text: "rewrite ^/move/(.*)$ /two/$1 break;", other: "/two", requests: []request{{method: "GET", target: "/move/x?y=1"}}},
	{name: "comments", text: "# first\nadd_header X-One a; # second ;{}\n  add_header  X-Two \"b # c\" ;\nadd_header 'X-Three' 'c' always;\n#end"},
	{name: "escapes", text: `add_header X-One "a\"b\\c"; add_header X-Two 'd"e'; add_header X-Three f\;g; if ($uri ~ "\.html$") { return 200 dot; }`},
}

// allSnippets returns every case.
func allSnippets() []snippetCase {
	var list []snippetCase
	for group, texts := range map[string][]string{"return": returns, "rewrite": rewrites, "if": conditions, "header": headers, "access": access} {
		for i, text := range texts {
			list = append(list, snippetCase{name: fmt.Sprintf("%s-%d", group, i), text: text})
		}
	}
	for _, variable := range route.RequestVariables() {
		name := variable.Name
		switch {
		case name == "ingress_name" || name == "namespace" || name == "service_name" || name == "best_http_host" || name == "the_real_ip" || name == "pass_access_scheme" || name == "server_port":
			continue // nginx alone does not have them, or they differ by the port
		case variable.Prefix:
			name += map[string]string{"arg_": "x", "cookie_": "a", "http_": "user_agent"}[name]
		}
		host := strings.ReplaceAll(name, "_", "-")
		list = append(list,
			snippetCase{name: "variable-" + host, text: fmt.Sprintf(`add_header X-One "<$%s>" always; proxy_set_header X-Set-One "[${%s}]";`, name, name)},
			snippetCase{name: "returned-" + host, text: fmt.Sprintf("default_type text/plain; return 200 \"$%s\";", name)},
		)
	}
	return append(list, further...)
}

// TestSnippets: each directive and each variable gives the responses of nginx with the
// same text.
func TestSnippets(t *testing.T) {
	compareSnippets(t, allSnippets(), 800)
}

// TestGeneratedSnippets: generated sequences of if, set, rewrite, return and headers give
// the responses of nginx.
func TestGeneratedSnippets(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 59))
	var list []snippetCase
	for len(list) < 400 {
		list = append(list, snippetCase{name: fmt.Sprintf("generated-%d", len(list)), text: generateSnippet(random), other: "/two"})
	}
	compareSnippets(t, list, 3000)
}

// The parts of generated snippets.
var (
	generatedTests = []string{
		`$a`, `$b`, `$arg_x`, `$http_x_user`, `$a = 1`, `$a != 1`, `$b = "$a"`, `$uri ~ ^/old/(.*)$`, `$uri ~ /(a|b)(/c)?`, `$uri !~ ^/two`, `$request_uri ~* "OLD/(?<n>[a-z]+)"`,
		`$args ~ (x|y)=(.)`, `$request_method = POST`, `$uri = /`, `$cookie_b ~* ^T(.)`, `$is_args = "?"`,
	}
	generatedValues = []string{`1`, `0`, `""`, `$a`, `"$b-$1"`, `$1`, `$uri`, `"$arg_x"`, `$2$1`, `"${a}x"`, `$n`, `$request_method`}
	generatedPaths  = []string{`^/old/(.*)$ /new/$1`, `^/(.*)/(.*)$ /$2`, `/a /b`, `^/new /two/x`, `^/old /two?v=$a`, `^/b/(.)$ /c?`, `^/(x) /y/$1-$a`, `c\.html$ /html`}
	generatedFlags  = []string{"", " last", " break", " redirect", " permanent"}
)

// generateSnippet returns a sequence of directives. n and both variables are always
// declared: nginx refuses others.
func generateSnippet(random *rand.Rand) string {
	text := `set $a ""; set $b ""; set $n "";` + "\n"
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	simple := func() string {
		switch random.IntN(9) {
		case 0, 1, 2:
			return fmt.Sprintf("set $%s %s;", pick([]string{"a", "b"}), pick(generatedValues))
		case 3, 4:
			return fmt.Sprintf("rewrite %s%s;", pick(generatedPaths), pick(generatedFlags))
		case 5:
			return pick([]string{`return 200 "$uri $a $b $1";`, "return 403;", "return 301 /to/$a$is_args$args;", "break;", "return 302 https://o.example$uri;"})
		case 6:
			return fmt.Sprintf("add_header X-%s \"$a|$b|$1|$uri\"%s;", pick([]string{"One", "Two"}), pick([]string{"", " always"}))
		case 7:
			return fmt.Sprintf("more_set_headers \"X-%s: $a,$1\";", pick([]string{"Two", "Three", "Powered-By"}))
		default:
			return "set $a \"$a$b\";"
		}
	}
	for range 2 + random.IntN(6) {
		if random.IntN(2) == 0 {
			text += simple() + "\n"
			continue
		}
		text += "if (" + pick(generatedTests) + ") {\n"
		for range 1 + random.IntN(3) {
			text += "  " + simple() + "\n"
		}
		text += "}\n"
	}
	return text + `proxy_set_header X-Set-One "$a|$b|$1|$2|$n"; proxy_set_header X-Set-Two "$uri$is_args$args";` + "\n"
}

// compareSnippets compares all cases, which must give a number of requests at least.
func compareSnippets(t *testing.T, list []snippetCase, least int) {
	g := startBackends(t)
	var servers strings.Builder
	var ingresses []*networkingv1.Ingress
	for i := range list {
		servers.WriteString(list[i].server(g))
		ingresses = append(ingresses, list[i].ingress(i))
	}
	g.startNGINX(t, "types { text/html html; text/css css; text/plain txt; }", servers.String())
	for _, refused := range g.startEdge(t, ingresses) {
		t.Errorf("refused: %s", refused)
	}
	compared, differ := 0, 0
	for i := range list {
		c := &list[i]
		for _, r := range append(append([]request{}, plain...), c.requests...) {
			r.host, r.compare = c.name+".test", typedHeaders
			want, err := g.sendText(g.nginx, r)
			if err != nil {
				t.Fatalf("%s: nginx: %v", r, err)
			}
			got, err := g.sendText(g.edge, r)
			if err != nil {
				t.Fatalf("%s: edge: %v", r, err)
			}
			if compared++; got != want {
				if differ++; differ <= 30 {
					t.Errorf("%s\n%s\n%s\n\tedge  %+v\n\tnginx %+v", r, c.outside, c.text, got, want)
				}
			}
		}
	}
	t.Logf("%d snippets, %d requests compared, %d differ", len(list), compared, differ)
	if compared < least {
		t.Errorf("only %d requests were compared", compared)
	}
}

// sendText is send with the text of local responses.
func (g *ground) sendText(address string, r request) (outcome, error) {
	got, err := g.send(address, r)
	got.location = ""
	if got.Status >= 300 || strings.Contains(got.body, "<html>") {
		// Pages of errors and redirects are those of the program.
		got.body, got.Headers = "", withoutType(got.Headers)
	}
	return got, err
}

// withoutType removes the type of a page.
func withoutType(headers string) string {
	before, _, _ := strings.Cut(headers, "Content-Type: ")
	_, after, _ := strings.Cut(headers[len(before):], "\n")
	return before + after
}

func (c *snippetCase) ingress(number int) *networkingv1.Ingress {
	annotations := map[string]string{nginx.Prefix + "configuration-snippet": c.text, nginx.Prefix + "server-snippet": c.outside}
	if c.target != "" {
		annotations[nginx.Prefix+"rewrite-target"] = c.target
	}
	made := ingressOf(number, c.name, annotations)
	path := c.path
	if path == "" {
		path = "/"
	}
	addPath(made, c.name+".test", path, networkingv1.PathTypeImplementationSpecific, "one")
	if c.other != "" {
		addPath(made, c.name+".test", c.other, networkingv1.PathTypePrefix, "two")
	}
	return made
}

// server returns the server of nginx. Both locations have the snippet, which is one of
// the Ingress.
func (c *snippetCase) server(g *ground) string {
	location := func(head, service string) string {
		body := "client_max_body_size 1m; proxy_set_header Host $http_host;\n" + c.text + "\n"
		if c.target != "" {
			body += fmt.Sprintf("rewrite \"(?i)%s\" %s break;", c.path, c.target)
		}
		return fmt.Sprintf("location %s { %s %s }\n", head, body, g.passTo(service))
	}
	outside := c.outside
	if !strings.HasPrefix(outside, "default_type") {
		outside += "\ndefault_type text/html;" // as ingress-nginx
	}
	text := fmt.Sprintf("server { listen LISTEN; server_name %s.test;\n%s\n", c.name, outside)
	switch {
	case c.target != "":
		text += location(`~* "^`+c.path+`"`, "one") + "location / { return 404; }\n"
	default:
		text += location("/", "one")
	}
	if c.other != "" {
		text += location(c.other+"/", "two") + location("= "+c.other, "two")
	}
	return text + "}\n"
}
