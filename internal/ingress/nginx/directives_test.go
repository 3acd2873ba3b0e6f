package nginx_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

// snippetOf parses an Ingress with a configuration-snippet.
func snippetOf(text string) (*nginx.Settings, string, bool) {
	settings, faults, closed := nginx.Parse(map[string]string{nginx.Prefix + "configuration-snippet": text}, withSnippets())
	message := ""
	for _, fault := range faults {
		message += fault.Message
	}
	return settings, message, closed
}

// TestSnippetRefusals: each directive that is not carried out is named with its line,
// and closes the Ingress.
func TestSnippetRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"set $a 1;\nset $b 2;\nlua_code_cache off;", `line 3: "lua_code_cache" is not carried out; use annotations`},
		{"content_by_lua_block { ngx.say(1) }", "line 1:"},
		{"include /etc/passwd;", "cannot read files"},
		{"root /;", "cannot read files"},
		{"proxy_pass http://other.kube-system;", "the Service of the path"},
		{"proxy_ssl_certificate /etc/x;", "proxy-ssl-secret"},
		{"location / { return 200; }", "line 1: \"location\" is not carried out"},
		{"\n\n  \nauth_request /x;", "line 4: \"auth_request\" is not carried out; use auth-url"},
		{"auth_request_set $a;", "arguments"},
		{"auth_request_set a $upstream_http_b;", "not the name of a variable"},
		{"auth_request_set $host $upstream_http_b;", "cannot be set"},
		{"auth_request_set $args $upstream_http_b;", "cannot be set"},
		{"auth_request_set $http_x $upstream_http_b;", "cannot be set"},
		{"set $b 1;\nauth_request_set $a $uri;", "line 2: $uri is that of the sub-request"},
		{"auth_request_set $a $arg_x;", "$arg_x is that of the sub-request"},
		{"auth_request_set $a $1;", "$1 is that of the sub-request"},
		{"auth_request_set $a $upstream_addr;", "$upstream_addr has no value here"},
		{"auth_request_set $a $upstream_http_;", "$upstream_http_ has no value here"},
		{"if ($uri) { auth_request_set $a $upstream_http_b; }", "cannot stand in an if"},
		{"add_header X-A $upstream_http_b;", "$upstream_http_b has no value here"},
		{"proxy_set_header X-A $upstream_status;", "$upstream_status has no value here"},
		{"if (-f /etc/passwd) { return 200; }", "looks at files"},
		{"if (!-e $request_filename) { return 200; }", "looks at files"},
		{"if ($a = 1) { return 200; }", "line 1: the variable $a has no value here"},
		{"set $a 1;\nif ($a == 1) { return 200; }", "line 2: if: \"==\" is not an operator"},
		{"if ($uri ~ (?!a)) { return 200; }", "look-ahead"},
		{"rewrite ^(a)\\1 /b;", "back-reference"},
		{"rewrite ^/a /b forever;", "none of last"},
		{"rewrite ^/a;", "arguments"},
		{"return 444;", "444"},
		{"return 99;", "not a status"},
		{"return maybe;", "not a status"},
		{"set $host x;", "cannot be set"},
		{"set $1 x;", "not the name of a variable"},
		{"set $a 1;\nif ($10 = 1) { return 200; }", "line 2: if: a condition is a variable"},
		{"add_header X-A $upstream_addr;", "$upstream_addr has no value here"},
		{"add_header X-A $request_filename;", "$request_filename has no value here"},
		{"add_header Connection close;", "writes the header Connection itself"},
		{"add_header Transfer_Encoding x;", "itself"},
		{"proxy_set_header Content-Length 5;", "itself"},
		{"proxy_set_header Host other;", "upstream-vhost"},
		{"proxy_set_header X-A \"a\\nB: c\";", "control characters"},
		{"if ($uri) { proxy_set_header X-A b; }", "cannot stand in an if"},
		{"if ($uri) { if ($host) { return 200; } }", "cannot stand in an if"},
		{"more_clear_headers 'X-*';", "has a *"},
		{"more_set_headers -t text/html 'X: y';", "-t"},
		{"deny unix:;", "neither an address"},
		{"add_header X-A", "does not end"},
		{"return 200 ${a;", "${"},
		{"return 200 $;", "without a name"},
		{"rewrite '^/(a{100}){100}' /b;", "RE2"},
		{strings.Repeat("x;\n", 600), "more than 512 directives"},
		{"set $a " + strings.Repeat("a", 70<<10) + ";", "bytes"},
	} {
		settings, message, closed := snippetOf(c.text)
		if !strings.Contains(message, c.want) || !closed {
			t.Errorf("%.60q: %q, closed %v; want %q", c.text, message, closed, c.want)
		}
		if settings.Located("/", 0) != nil {
			t.Errorf("%.60q has directives", c.text)
		}
	}
}

// authSnippetOf parses an Ingress with an auth-snippet.
func authSnippetOf(text string) (*nginx.Settings, string, bool) {
	settings, faults, closed := nginx.Parse(map[string]string{
		nginx.Prefix + "auth-url": "http://auth/check", nginx.Prefix + "auth-snippet": text,
	}, withSnippets())
	message := ""
	for _, fault := range faults {
		message += fault.Message
	}
	return settings, message, closed
}

// TestAuthSnippetRefusals: an auth-snippet has few directives, and others close the
// Ingress with their line.
func TestAuthSnippetRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"\n\nrewrite ^ /x break;", `line 3: "rewrite" is not carried out in an auth-snippet`},
		{"break;", "is not carried out in an auth-snippet"},
		{"add_header X-A b;", "is not carried out in an auth-snippet"},
		{"allow all;", "is not carried out in an auth-snippet"},
		{"location / { }", "is not carried out in an auth-snippet"},
		{"auth_request_set $a $upstream_http_b;", "is not carried out in an auth-snippet"},
		{"proxy_ssl_verify off;", "is not carried out in an auth-snippet"},
		{"proxy_pass http://kube-apiserver;", "line 1:"},
		{"include /etc/passwd;", "cannot read files"},
		{"set $args x;", "cannot be set"},
		{"set $a 1;\nproxy_set_header X-A $uri;", "line 2: $uri is that of the sub-request"},
		{"if ($arg_x) { return 200; }", "$arg_x is that of the sub-request"},
		{"if ($user) { return 200; }", "$user has no value here"},
		{"proxy_set_header X-A $upstream_http_b;", "$upstream_http_b has no value here"},
		{"proxy_set_header X-A $auth_cookie;", "$auth_cookie has no value here"},
		{"proxy_set_header Host other;", "auth-proxy-set-headers"},
		{"proxy_set_header Content-Length 5;", "itself"},
		{"if ($host) { proxy_set_header X-A b; }", "cannot stand in an if"},
		{"return 444;", "444"},
	} {
		settings, message, closed := authSnippetOf(c.text)
		if !strings.Contains(message, c.want) || !closed || settings.Located("/", 0) != nil {
			t.Errorf("%.60q: %q, closed %v; want %q", c.text, message, closed, c.want)
		}
	}
	if _, faults, closed := nginx.Parse(map[string]string{nginx.Prefix + "auth-snippet": "return 200;"}, nil); len(faults) != 1 || !closed {
		t.Errorf("without permission it is refused with %v, closed %v", faults, closed)
	}
	// Without auth-url it counts as little as in ingress-nginx, and that of the operator
	// counts for Ingresses without their own.
	settings, faults, _ := nginx.Parse(map[string]string{nginx.Prefix + "auth-snippet": "return 200;"}, withSnippets())
	if len(faults) > 0 || settings.Located("/", 0) != nil {
		t.Errorf("without auth-url: %v, %+v", faults, settings.Located("/", 0))
	}
	base, faults := nginx.ParseConfig(map[string]string{"global-auth-url": "http://auth.default.svc/check", "global-auth-snippet": "\nreturn 204;"})
	if settings, _, _ = nginx.Parse(nil, base); len(faults) > 0 || settings.Located("/", 0) == nil || settings.Located("/", 0).Auth.Steps[0].Return.Status != 204 {
		t.Errorf("that of the ConfigMap: %v, %+v", faults, settings.Located("/", 0))
	}
	if _, faults = nginx.ParseConfig(map[string]string{"global-auth-snippet": "\n\nbreak;"}); len(faults) != 1 || !strings.Contains(faults[0].Message, "line 3") {
		t.Errorf("that of the ConfigMap is refused with %v", faults)
	}
}

// TestLocationSnippet: the snippet of the ConfigMap comes behind that of an Ingress, and
// both have one list of addresses.
func TestLocationSnippet(t *testing.T) {
	base, faults := nginx.ParseConfig(map[string]string{
		"allow-snippet-annotations": "true", "location-snippet": "set $b 2;\ndeny all;\nadd_header X-B $b;\nauth_request_set $u $upstream_http_u;",
	})
	settings, more, closed := nginx.Parse(map[string]string{
		nginx.Prefix + "configuration-snippet": "set $a 1;\nallow 10.0.0.0/8;\nadd_header X-A $a;\nauth_request_set $v $upstream_http_v;",
	}, base)
	if len(faults)+len(more) > 0 || closed {
		t.Fatalf("%v, %v", faults, more)
	}
	located := settings.Located("/", 0)
	if len(located.Steps) != 2 || located.Steps[1].Set.Variable != "b" || len(located.Response.Add) != 2 || len(located.Auth.Set) != 2 || located.Auth.Set[1].Variable != "u" {
		t.Errorf("%+v", located)
	}
	var filter *route.IPFilter
	for _, step := range settings.After(policyID) {
		if step.Policy.IPFilter != nil {
			filter = step.Policy.IPFilter
		}
	}
	if !admits(filter, netip.MustParseAddr("10.1.1.1")) || admits(filter, netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("the addresses are %+v", filter)
	}
	// Each alone is within the bound.
	var allowed strings.Builder
	for i := range 200 {
		fmt.Fprintf(&allowed, "allow 10.%d.7.9;\n", i)
	}
	base, _ = nginx.ParseConfig(map[string]string{"allow-snippet-annotations": "true", "location-snippet": "deny 10.0.0.0/8;"})
	if _, faults, closed = nginx.Parse(map[string]string{nginx.Prefix + "configuration-snippet": allowed.String()}, base); len(faults) != 1 || !closed {
		t.Errorf("too many ranges are refused with %v, closed %v", faults, closed)
	}
	if _, faults = nginx.ParseConfig(map[string]string{"location-snippet": "\nbreak;\ninclude x;"}); len(faults) != 1 || !strings.Contains(faults[0].Message, "line 3") {
		t.Errorf("an include is refused with %v", faults)
	}
}

// TestSnippetLines: the empty lines before a snippet count.
func TestSnippetLines(t *testing.T) {
	for _, name := range []string{"configuration-snippet", "server-snippet", "auth-snippet", "modsecurity-snippet"} {
		_, faults, _ := nginx.Parse(map[string]string{nginx.Prefix + name: "\n\n\t\nunknown_directive x;\n"}, withSnippets())
		if len(faults) != 1 || !strings.Contains(faults[0].Message, "line 4") {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// TestSnippetsNeedPermission: an Ingress with a snippet is refused unless they are
// allowed, by the option or the key of the ConfigMap.
func TestSnippetsNeedPermission(t *testing.T) {
	given := map[string]string{nginx.Prefix + "configuration-snippet": "return 403;"}
	_, faults, closed := nginx.Parse(given, nil)
	if len(faults) != 1 || !closed || !strings.Contains(faults[0].Message, "allowSnippetAnnotations") {
		t.Errorf("it is refused with %v, closed %v", faults, closed)
	}
	base, _ := nginx.ParseConfig(map[string]string{"allow-snippet-annotations": "true"})
	settings, faults, closed := nginx.Parse(given, base)
	if len(faults) != 0 || closed || settings.Located("/", 0) == nil {
		t.Errorf("it is refused with %v, closed %v", faults, closed)
	}
	if _, faults, closed = nginx.Parse(map[string]string{nginx.Prefix + "configuration-snippet": "\n"}, nil); len(faults) > 0 || closed {
		t.Errorf("an empty one is refused with %v", faults)
	}
}

// TestSnippetSettings: directives about endpoints are settings of the backend.
func TestSnippetSettings(t *testing.T) {
	settings, message, _ := snippetOf("proxy_ssl_verify on; proxy_ssl_name inner.example; proxy_ssl_protocols TLSv1.3; proxy_ssl_verify_depth 2; proxy_ssl_session_reuse off;")
	if message != "" || !settings.Backend.Verify || settings.Backend.ServerName != "inner.example" {
		t.Errorf("%q: %+v", message, settings.Backend)
	}
	if settings.Located("/", 0) != nil {
		t.Error("there is nothing to do for requests")
	}
}

// TestSnippetAccess: for generated lists of allow and deny, the filter admits the
// clients that the first fitting rule admits.
func TestSnippetAccess(t *testing.T) {
	ranges := []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3", "all", "0.0.0.0/0", "2001:db8::/32", "2001:db8::1"}
	clients := []string{"10.1.2.3", "10.1.2.4", "10.1.9.9", "10.200.0.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db9::1"}
	count := 0
	for number := range len(ranges) * len(ranges) * len(ranges) * 8 {
		var text strings.Builder
		var rules [][2]string
		for i, rest := 0, number; i < 3; i++ {
			rule := [2]string{[]string{"allow", "deny"}[rest%2], ranges[rest/2%len(ranges)]}
			rest /= 2 * len(ranges)
			rules = append(rules, rule)
			fmt.Fprintf(&text, "%s %s;\n", rule[0], rule[1])
		}
		settings, message, _ := snippetOf(text.String())
		if message != "" {
			t.Fatalf("%s: %s", &text, message)
		}
		for _, client := range clients {
			address := netip.MustParseAddr(client)
			if got, want := admits(settings.Snippets.Location.Access, address), first(rules, address); got != want {
				t.Errorf("%s: %s is admitted: %v, want %v", &text, client, got, want)
			}
			count++
		}
	}
	if count < 30000 {
		t.Errorf("%d cases", count)
	}
}

// first is the rule of nginx: the first that fits counts.
func first(rules [][2]string, address netip.Addr) bool {
	for _, rule := range rules {
		text := rule[1]
		if !strings.Contains(text, "/") && text != "all" {
			text += map[bool]string{true: "/32", false: "/128"}[strings.Contains(text, ".")]
		}
		if text == "all" || netip.MustParsePrefix(text).Contains(address) {
			return rule[0] == "allow"
		}
	}
	return true
}

// admits is the rule of a filter: denied addresses come first.
func admits(filter *route.IPFilter, address netip.Addr) bool {
	if filter == nil {
		return true
	}
	for _, denied := range filter.Deny {
		if denied.Contains(address) {
			return false
		}
	}
	for _, allowed := range filter.Allow {
		if allowed.Contains(address) {
			return true
		}
	}
	return len(filter.Allow) == 0
}

// FuzzSnippet: no snippet makes the translator panic, and what it makes is valid in a
// rule.
func FuzzSnippet(f *testing.F) {
	f.Add("if ($uri ~ ^/(a)) { set $b $1; }\nrewrite ^/a /b?c=$b last;\nreturn 301 /x$is_args$args;")
	f.Add("add_header A b always; more_set_headers -s '404 500' 'A: b' C:; proxy_set_header X $http_y; proxy_hide_header Z;")
	f.Add("allow 10.0.0.0/8; deny 10.1.0.0/16; allow ::1; deny all;")
	f.Add("set $a ${b}$c; set $b 1; set $c 2; if ( $a = \"x\" ) { break; }")
	f.Add("set $a 1;\nlocation ~* ^/(x) { add_header A $a$1; return 200 b; }\nlocation = /y { deny all; }")
	f.Add("if ($100 ~ $0(0)){set $0 0;}#")
	f.Add("auth_request_set $u $upstream_http_x_user; auth_request_set $c $upstream_cookie_a$upstream_status; proxy_set_header X $u$c$auth_cookie;")
	f.Fuzz(func(t *testing.T, text string) {
		if settings, message, closed := authSnippetOf(text); closed != (message != "") {
			t.Fatalf("%q: %q, closed %v", text, message, closed)
		} else if !closed {
			checkLocated(t, text, settings)
		}
		if _, message, closed := serverOf(text); closed != (message != "") {
			t.Fatalf("%q: %q, closed %v", text, message, closed)
		}
		settings, message, closed := snippetOf(text)
		if closed != (message != "") {
			t.Fatalf("%q: %q, closed %v", text, message, closed)
		}
		if closed {
			return
		}
		checkLocated(t, text, settings)
	})
}

// checkLocated validates the rule of a path.
func checkLocated(t *testing.T, text string, settings *nginx.Settings) {
	t.Helper()
	rule := route.Rule{ID: route.ID{Name: "x"}, Response: &route.Response{Status: 200}, Directives: settings.Located("/", 0)}
	for _, step := range settings.After(policyID) {
		rule.Policies = append(rule.Policies, step.Policy)
	}
	if problems := rule.Validate(); len(problems) > 0 && !strings.Contains(problems[0].Message, "more than") {
		t.Fatalf("%q: %s", text, problems[0])
	}
}
