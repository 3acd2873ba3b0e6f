package nginx

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
)

// authSnippetCase has snippets of an Ingress with authentication.
type authSnippetCase struct {
	name string
	// text is the configuration-snippet, auth the auth-snippet.
	text, auth string
	signin     string
	responses  []string
	always     bool
	// cached caches decisions.
	cached bool
}

// user declares the variable that most cases have.
const user = "auth_request_set $user $upstream_http_x_auth_request_user; "

// authTexts are configuration-snippets with variables of the response of the server.
var authTexts = []string{
	user + `proxy_set_header X-Set-One $user;`,
	user + `proxy_set_header X-Set-One "<${user}>"; proxy_set_header X-Set-Two $user;`,
	user + `add_header X-One $user;`,
	user + `add_header X-One $user always;`,
	user + `add_header X-One "[$user]" always; add_header X-Two "$uri$user";`,
	user + `proxy_set_header X-Auth-Request-User $user;`,
	`auth_request_set $token $upstream_http_authorization; proxy_set_header Authorization $token;`,
	`auth_request_set $token $upstream_http_authorization; proxy_set_header Authorization "";`,
	`auth_request_set $code $upstream_status; add_header X-One "$code" always; proxy_set_header X-Set-One $code;`,
	`auth_request_set $saw $upstream_cookie_saw; add_header X-One "$saw" always;`,
	`auth_request_set $saw $upstream_cookie_SAW; proxy_set_header X-Set-One "$saw";`,
	`auth_request_set $none $upstream_cookie_aw; proxy_set_header X-Set-One "$none";`,
	`auth_request_set $none $upstream_http_none; proxy_set_header X-Set-One $none; add_header X-One "[$none]" always;`,
	`auth_request_set $to $upstream_http_location; add_header X-One $to always;`,
	`auth_request_set $page $upstream_http_content_length; add_header X-One "$page";`,
	`set $user anonymous; ` + user + `proxy_set_header X-Set-One $user; add_header X-One $user always;`,
	user + `set $user late; proxy_set_header X-Set-One $user;`,
	user + `if ($user) { return 418; } proxy_set_header X-Set-One $user;`,
	user + `if ($user = "") { set $was empty; } proxy_set_header X-Set-One "$was $user";`,
	user + `if ($user != anna) { return 403; }`,
	user + `if ($arg_x) { set $copy "<$user>"; } proxy_set_header X-Set-One "$copy$user";`,
	`auth_request_set $a $upstream_http_x_auth_request_user; auth_request_set $b "<$a>"; proxy_set_header X-Set-One $b;`,
	`auth_request_set $b "<$a>"; auth_request_set $a $upstream_http_x_auth_request_user; proxy_set_header X-Set-One "$a$b";`,
	`auth_request_set $a fixed; proxy_set_header X-Set-One $a; add_header X-One $a always;`,
	`auth_request_set $a ""; proxy_set_header X-Set-One $a;`,
	`auth_request_set $a "$request_method $host $http_x_user $remote_addr $request_uri $scheme"; proxy_set_header X-Set-One $a;`,
	`set $p "$uri|$args"; auth_request_set $a "$p|$upstream_status"; proxy_set_header X-Set-One $a;`,
	user + `return 200 "[$user]";`,
	user + `add_header X-One "[$user]" always; return 403;`,
	user + `rewrite ^/old/(.*)$ /new/$1 break; proxy_set_header X-Set-One "$user $uri $1";`,
	user + `rewrite ^/old/(.*)$ /new/$1 last; proxy_set_header X-Set-One "$user $uri";`,
	user + `if ($uri ~ ^/(old)) { set $q 1; } proxy_set_header X-Set-One "$user $1";`,
	`add_header Set-Cookie $auth_cookie;`,
	`add_header X-One $auth_cookie always;`,
	`set $auth_cookie mine; add_header X-One $auth_cookie always;`,
	`auth_request_set $auth_cookie $upstream_http_set_cookie; add_header X-One $auth_cookie;`,
	user + `if ($arg_x) { add_header X-One "in $user"; } add_header X-Two "out $user";`,
	user + `if ($arg_x) { add_header X-One "in $user" always; } if ($arg_y) { set $z 1; }`,
	`if ($arg_x) { set $z 1; } add_header X-One 1;`,
	user + `more_set_headers "X-One: $user" "X-Powered-By: <$user>";`,
	user + `more_set_headers -s 401 "X-One: [$user]"; more_set_headers -s "403 500" "X-Two: $user";`,
	user + `more_clear_headers X-Powered-By; proxy_hide_header X-Backend-Version; add_header X-Two $user;`,
	`auth_request_set $UserName $upstream_http_X_Auth_Request_User; proxy_set_header X-Set-One $username;`,
	user + `deny all; add_header X-One "[$user]" always;`,
	user + `allow 127.0.0.1; deny all; proxy_set_header X-Set-One $user;`,
	`add_header X-One plain; proxy_set_header X-Set-One $http_x_user;`,
}

// subrequestTexts are auth-snippets.
var subrequestTexts = []string{
	`proxy_set_header X-One fixed;`,
	`proxy_set_header X-One $http_x_user; proxy_set_header X-Two "$request_method $host $request_uri";`,
	`proxy_set_header X-One "";`,
	`proxy_set_header Cookie "";`,
	`proxy_set_header Cookie "user=$http_x_user";`,
	`proxy_set_header Authorization $http_x_user;`,
	`proxy_set_header X-Real-IP 192.0.2.9;`,
	`proxy_set_header X-Forwarded-Proto https; proxy_set_header Connection "";`,
	`if ($request_method = POST) { return 200; }`,
	`if ($request_uri ~ ^/old) { return 200; } if ($http_x_user) { return 403; }`,
	`if ($http_x_user = anna) { return 401; }`,
	`if ($request_uri !~* ^/APP) { return 204 text; }`,
	`return 200;`, `return 204;`, `return 401;`, `return 403;`, `return 404;`, `return 500;`, `return 302 https://elsewhere.example/;`, `return 200 text;`,
	`set $a 1; if ($http_x_user) { set $a 2; } proxy_set_header X-One $a;`,
	`if ($request_uri ~ ^/(o)(l)) { set $b $1; } proxy_set_header X-One "$b$2";`,
	`set $b ""; if ($http_cookie ~ user=(?<name>[a-z]+)) { set $b "<$name>"; } proxy_set_header X-One "$b $1";`,
}

// authSnippetCases returns all cases.
func authSnippetCases() []authSnippetCase {
	var list []authSnippetCase
	for _, text := range authTexts {
		list = append(list, authSnippetCase{text: text})
	}
	for _, text := range subrequestTexts {
		list = append(list, authSnippetCase{auth: text})
	}
	const login = "https://login.example/start"
	list = append(list,
		authSnippetCase{text: user + `add_header X-One "[$user]" always; more_set_headers "X-Two: $user";`, signin: login},
		authSnippetCase{text: user + `if ($arg_x) { add_header X-One "[$user]" always; }`, signin: login},
		authSnippetCase{text: user + `if ($arg_x) { add_header X-One "[$user]"; } proxy_set_header X-Set-One $user;`, always: true},
		authSnippetCase{text: `set $a outer; proxy_set_header X-Set-One $a;`, auth: `set $a inner; proxy_set_header X-One $a;`},
		authSnippetCase{text: `if ($uri ~ ^/(old)) { set $q 1; } proxy_set_header X-Set-One "$1";`, auth: `if ($request_uri ~ (p)age) { set $z $1; } proxy_set_header X-One $z;`},
		authSnippetCase{text: user + `auth_request_set $code $upstream_status; proxy_set_header X-Set-One "$user|$code"; add_header X-One "[$code]" always;`, auth: `if ($http_x_user) { return 200; }`},
		authSnippetCase{auth: `if ($http_x_user) { return 401; }`, signin: login},
		authSnippetCase{text: user + `proxy_set_header X-Set-One $user;`, responses: []string{"Authorization"}},
		authSnippetCase{text: user + `proxy_set_header X-Set-One "$user";`, cached: true},
		authSnippetCase{text: `auth_request_set $code $upstream_status; add_header X-One "[$code]" always;`, cached: true},
		authSnippetCase{text: user + `add_header X-One "[$user]" always;`, auth: `if ($http_x_user) { return 200; } proxy_set_header X-One fixed;`, cached: true},
	)
	for i := range list {
		list[i].name = fmt.Sprintf("auth-snippets-%d", i)
	}
	return list
}

// snippetSessions are the requests of every case: with and without a session, with other
// statuses of the server, and with headers that a client forges.
var snippetSessions = func() []request {
	list := append([]request{
		{method: "GET", target: "/old/page?x=1&y=2", headers: []string{"Cookie: user=anna"}},
		{method: "GET", target: "/old/page?x=1", headers: []string{"Cookie: user=anna", "X-User: anna"}},
		{method: "GET", target: "/app?x=1"},
		{method: "HEAD", target: "/app?y=1", headers: []string{"Authorization: Bearer x"}},
		{method: "POST", target: "/form?x=1", size: 5, headers: []string{"X-User: eve"}},
		{method: "GET", target: "/", headers: []string{"Cookie: user=anna", "X-Set-One: forged", "X-Set-Two: forged", "X-One: forged", "X-Real-IP: 192.0.2.8"}},
		{method: "GET", target: "/app", headers: []string{"X-Set-One: forged", "Upstream-Http-X-Auth-Request-User: root", "Set-Cookie: saw=forged"}},
		{method: "GET", target: "/app?x=1&user=root&upstream_status=200", headers: []string{"Cookie: user=anna; saw=forged; upstream_status=1", "User: root", "Auth-Cookie: x"}},
	}, sessions...)
	list = append(list, cachedOnce...)
	// nginx decodes $uri, and the edge does not.
	list = slices.DeleteFunc(list, func(r request) bool { return strings.Contains(r.target, "%20") })
	for i := range list {
		list[i].compare = append(append([]string{}, snippetHeaders...), authResults...)
	}
	return list
}()

// TestAuthSnippets: variables of the response of an authentication server, and snippets
// for the sub-request, give the responses of nginx.
func TestAuthSnippets(t *testing.T) {
	compareAuth(t, authSnippetCases(), snippetSessions, 2000)
}

// TestGeneratedAuthSnippets: generated sequences of directives, before authentication and
// in its sub-request, give the responses of nginx.
func TestGeneratedAuthSnippets(t *testing.T) {
	random := rand.New(rand.NewPCG(55, 59))
	sets := []string{
		`auth_request_set $a $upstream_http_x_auth_request_user;`, `auth_request_set $b "$a|$upstream_status";`, `auth_request_set $n $upstream_cookie_saw;`,
		`auth_request_set $a "$b-$request_method";`, `auth_request_set $b $upstream_http_none;`, `auth_request_set $a "$a$b";`,
	}
	inner := []string{
		`set $a "sub-$b";`, `if ($a) { set $b "1-$a"; }`, `if ($request_uri ~ /(o|p)(.)) { set $a "$1$2"; }`, `if ($b = "$a") { return 204; }`, `proxy_set_header X-One "$a|$1";`,
		`if ($http_x_user) { return 403; }`, `proxy_set_header X-Two "$b";`, `if ($request_method = POST) { return 200; }`,
	}
	var list []authSnippetCase
	for len(list) < 150 {
		c := authSnippetCase{name: fmt.Sprintf("auth-generated-%d", len(list)), text: generateSnippet(random)}
		for range 1 + random.IntN(3) {
			c.text += sets[random.IntN(len(sets))] + "\n"
		}
		if random.IntN(2) == 0 {
			c.auth = `set $a "$a"; set $b "$b";` + "\n"
			for range 1 + random.IntN(3) {
				c.auth += inner[random.IntN(len(inner))] + "\n"
			}
		}
		if random.IntN(4) == 0 {
			c.signin = "https://login.example/start"
		}
		list = append(list, c)
	}
	compareAuth(t, list, snippetSessions[:10], 1500)
}

// compareAuth compares all cases, which must give a number of requests at least.
func compareAuth(t *testing.T, list []authSnippetCase, requests []request, least int) {
	t.Helper()
	g := startBackends(t)
	var servers strings.Builder
	var ingresses []*networkingv1.Ingress
	for i := range list {
		servers.WriteString(strings.ReplaceAll(list[i].server(g), "AUTHPORT", fmt.Sprint(g.ports[authService])))
		ingresses = append(ingresses, list[i].ingress(i))
	}
	before := authBefore([]built{{scene: scene{requests: requests}}}, filepath.Join(t.TempDir(), "cache"))
	g.startNGINX(t, before, servers.String())
	for _, refused := range g.startEdge(t, ingresses) {
		t.Errorf("refused: %s", refused)
	}
	compared, differ := 0, 0
	for i := range list {
		c := &list[i]
		for _, r := range requests {
			r.host = c.name + ".test"
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
					t.Errorf("%s\n\tsnippet %s\n\tauth %s\n\tedge  %+v\n\tnginx %+v", r, c.text, c.auth, got, want)
				}
			}
		}
	}
	t.Logf("%d snippets, %d requests compared, %d differ", len(list), compared, differ)
	if compared < least {
		t.Errorf("only %d requests were compared", compared)
	}
}

func (c *authSnippetCase) ingress(number int) *networkingv1.Ingress {
	annotations := map[string]string{nginx.Prefix + "auth-url": authURL["auth-url"]}
	for name, value := range map[string]string{
		"configuration-snippet": c.text, "auth-snippet": c.auth, "auth-signin": c.signin, "auth-response-headers": strings.Join(c.responses, ","),
		"auth-always-set-cookie": when(c.always, "true"), "auth-cache-key": when(c.cached, "$remote_addr$http_authorization"),
	} {
		if value != "" {
			annotations[nginx.Prefix+name] = value
		}
	}
	made := ingressOf(number, c.name, annotations)
	addPath(made, c.name+".test", "/", networkingv1.PathTypePrefix, "one")
	return made
}

// server returns the server of nginx, with the directives in the order of ingress-nginx.
func (c *authSnippetCase) server(g *ground) string {
	a := authDirectives{set: c.auth, responses: c.responses, always: c.always}
	if c.signin != "" {
		a.signin = signinOf(c.signin, "rd")
	}
	if c.cached {
		a.cache = cacheOf("200 202 401 5m")
	}
	return fmt.Sprintf("server { listen LISTEN; server_name %s.test; default_type text/html;\n%s\nlocation / { client_max_body_size 1m; proxy_set_header Host $http_host;\n%s\n%s\n%s }\n}\n",
		c.name, a.server(), a.location(), c.text, g.passTo("one"))
}
