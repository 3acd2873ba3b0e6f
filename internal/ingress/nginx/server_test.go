package nginx_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

// serverOf parses an Ingress with a server-snippet.
func serverOf(text string) (*nginx.Settings, string, bool) {
	settings, faults, closed := nginx.Parse(map[string]string{nginx.Prefix + "server-snippet": text}, withSnippets())
	message := ""
	for _, fault := range faults {
		message += fault.Message
	}
	return settings, message, closed
}

// TestServerSnippetRefusals: what has no place in a server is refused by line.
func TestServerSnippetRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"set $a 1;\nproxy_set_header X-A b;", "line 2: \"proxy_set_header\" has no effect in a server-snippet"},
		{"proxy_ssl_verify on;", "has no effect in a server-snippet"},
		{"if ($uri) { add_header X-A b; }", "cannot stand in an if"},
		{"location /a { location /b { } }", "is not carried out within another"},
		{"location /a;", "has no block"},
		{"location a { }", "not a path"},
		{"location @named { }", "not a path"},
		{"location =/a { }", "put a space"},
		{"location ~ (?=a) { }", "look-ahead"},
		{"location ! /a { }", "none of ="},
		{"location /a {\n proxy_pass http://b;\n}", "line 2: \"proxy_pass\" is not carried out"},
		{"location /a {\n return 200 $b;\n}", "line 2: the variable $b has no value here"},
		{"location /a/../b { return 200; }", "the routing table cannot hold it"},
		{strings.Repeat("location /a { }\n", 33), "more than 32 locations"},
	} {
		if settings, message, closed := serverOf(c.text); !strings.Contains(message, c.want) || !closed || settings.Snippets.Server != nil {
			t.Errorf("%.60q: %q, closed %v; want %q", c.text, message, closed, c.want)
		}
	}
}

// TestServerSnippetOfHost: the snippet of the oldest Ingress counts for all rules of the
// host, and not for rules that must not be served.
func TestServerSnippetOfHost(t *testing.T) {
	first, message, _ := serverOf("return 403; deny all; location = /x { }")
	second, _, _ := serverOf("return 410;")
	if message != "" {
		t.Fatal(message)
	}
	at := nginx.Location{Host: "a.example", Path: "/", At: 1}
	member := func(name string, settings *nginx.Settings) nginx.Member {
		return nginx.Member{Namespace: "ns", Name: name, Outcome: &nginx.Outcome{Server: settings.Snippets.Server, Locations: []nginx.Location{at}}}
	}
	host := nginx.NewHost("a.example", []nginx.Member{member("plain", nginx.Defaults()), member("old", first), member("new", second)})
	rule := &route.Rule{ID: route.ID{Name: "r"}, Backends: []route.BackendRef{{}}, Policies: make([]route.Policy, 2)}
	placed, _ := host.Place(rule, &at)
	if d := placed[0].Directives; d == nil || len(d.Server) != 1 || d.Server[0].Return.Status != 403 || d.Behind != 1 || placed[0].Policies[1].IPFilter == nil {
		t.Errorf("the rule is %+v", placed[0])
	}
	if rule.Directives != nil || len(rule.Policies) != 2 {
		t.Error("the given rule has changed")
	}
	closed := &route.Rule{ID: route.ID{Name: "r"}, Response: &route.Response{Status: 503, Reason: route.ReasonRefused}}
	if placed, _ := host.Place(closed, &at); placed[0].Directives != nil {
		t.Errorf("a closed rule is %+v", placed[0])
	}
	if rules := host.ServerRules("ns", "old"); len(rules) != 1 || rules[0].Match.Path.Value != "/x" || len(host.ServerRules("ns", "new"))+len(host.ServerRules("ns", "plain")) > 0 {
		t.Errorf("the locations are %v", rules)
	}
	www := at
	www.Redirects, www.Guest = true, true
	if host := nginx.NewHost("a.example", []nginx.Member{{Outcome: &nginx.Outcome{Server: first.Snippets.Server, Locations: []nginx.Location{www}}}}); host.HasServer() {
		t.Error("a redirect has the snippet")
	}
}
