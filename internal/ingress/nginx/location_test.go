package nginx_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

var policyID = route.PolicyID{Kind: "Ingress", Namespace: "shop", Name: "cart"}

// ruleOf returns the rule that the Ingress specification gives a location.
func ruleOf(at nginx.Location) *route.Rule {
	kind := route.PathPrefix
	if at.Exact {
		kind = route.PathExact
	}
	return &route.Rule{
		ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "cart"}, Host: "a.example", Match: route.Match{Path: route.PathMatch{Type: kind, Value: at.Path}},
		Backends: []route.BackendRef{{Backend: route.BackendID{Namespace: "shop", Name: "main", Port: 80}}}, Policies: []route.Policy{{ID: policyID, BodyLimit: &route.BodyLimit{MaxBytes: 1}}},
	}
}

// hostOf returns a host with locations of one Ingress.
func hostOf(tls bool, canaries []nginx.Canary, locations ...nginx.Location) *nginx.Host {
	outcome := &nginx.Outcome{Canaries: canaries}
	for _, at := range locations {
		at.Host = "a.example"
		outcome.Locations = append(outcome.Locations, at)
		if at.Expressions {
			outcome.ExpressionHosts = []string{"a.example"}
		}
	}
	outcome.Locations = append(outcome.Locations, nginx.Location{Host: "other.example", Path: "/other", Expressions: true, Exact: true})
	if tls {
		outcome.TLSHosts = []string{"a.example"}
	}
	return nginx.NewHost("a.example", []nginx.Member{{Namespace: "shop", Outcome: outcome}})
}

func textOf(rules []*route.Rule) string {
	var lines []string
	for _, rule := range rules {
		line := fmt.Sprintf("%s %s %s", rule.ID.Variant, rule.Match.Path.Type, rule.Match.Path.Value)
		if rule.Match.PathOrder != "" {
			line += " by " + rule.Match.PathOrder
		}
		if rule.Response != nil {
			line += fmt.Sprintf(" -> %d %s", rule.Response.Status, rule.Response.Redirect.Path)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "; ")
}

// TestPlace: what becomes of a path, by the other paths of its host.
func TestPlace(t *testing.T) {
	regex := nginx.Location{Path: "/x.*", Expressions: true}
	for _, c := range []struct {
		name   string
		at     nginx.Location
		others []nginx.Location
		want   string
	}{
		{"prefix", nginx.Location{Path: "/foo"}, nil, "prefix /foo"},
		{"exact", nginx.Location{Path: "/foo", Exact: true}, nil, "exact /foo"},
		{"root", nginx.Location{Path: "/"}, nil, "prefix /"},
		{"slash", nginx.Location{Path: "/foo/"}, nil, "characterPrefix /foo/; slash exact /foo -> 301 /foo/"},
		{"exact slash", nginx.Location{Path: "/foo/", Exact: true}, nil, "exact /foo/; slash exact /foo -> 301 /foo/"},
		{"slash beside prefix", nginx.Location{Path: "/foo/", Exact: true}, []nginx.Location{{Path: "/foo"}}, "exact /foo/"},
		{"slash beside exact", nginx.Location{Path: "/foo/"}, []nginx.Location{{Path: "/foo", Exact: true}}, "characterPrefix /foo/"},
		{"expressions", nginx.Location{Path: "/foo"}, []nginx.Location{regex}, "regexp (?i)^/foo by /foo"},
		{"exact in expressions", nginx.Location{Path: "/foo", Exact: true}, []nginx.Location{regex}, "regexp (?i)^/foo by /foo"},
		{"prefix beside exact in expressions", nginx.Location{Path: "/foo"}, []nginx.Location{regex, {Path: "/foo", Exact: true}}, "regexp (?i)^/foo/ by /foo"},
		{"slash beside exact in expressions", nginx.Location{Path: "/foo/"}, []nginx.Location{regex, {Path: "/foo/", Exact: true}}, "regexp (?i)^/foo/ by /foo/"},
		{"rewritten beside exact", nginx.Location{Path: "/foo", Expressions: true}, []nginx.Location{{Path: "/foo", Exact: true}}, "regexp (?i)^/foo by /foo"},
		{"root beside exact", nginx.Location{Path: "/"}, []nginx.Location{regex, {Path: "/", Exact: true}}, "regexp (?i)^/ by /"},
		{"slash in expressions", nginx.Location{Path: "/foo/"}, []nginx.Location{regex}, "regexp (?i)^/foo/ by /foo/"},
		{"guest", nginx.Location{Path: "/foo", Guest: true}, nil, "prefix /foo"},
		{"guest of an owned host", nginx.Location{Path: "/foo", Guest: true}, []nginx.Location{{Path: "/bar"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := ruleOf(c.at)
			before := *rule
			rules, problem := hostOf(false, nil, append(c.others, c.at)...).Place(rule, &c.at)
			if got := textOf(rules); got != c.want || problem != "" {
				t.Errorf("got %s %s, want %s", got, problem, c.want)
			}
			if !reflect.DeepEqual(*rule, before) {
				t.Error("the rule of the Ingress was changed")
			}
			for _, made := range rules {
				if problems := made.Validate(); len(problems) > 0 {
					t.Errorf("%v", problems)
				}
			}
		})
	}
	// Without a host that counts, a rule stays where it is.
	at := nginx.Location{Path: "/foo"}
	plain := ruleOf(at)
	if rules, _ := hostOf(true, nil, at).Place(plain, &at); len(rules) != 1 || rules[0] != plain {
		t.Error("a rule that its host leaves as it is was copied")
	}
	if rules, _ := (*nginx.Host)(nil).Place(ruleOf(at), &at); textOf(rules) != "prefix /foo" {
		t.Errorf("without a host: %s", textOf(rules))
	}
	bad := nginx.Location{Path: "/foo("}
	if rules, problem := hostOf(false, nil, regex, bad).Place(ruleOf(bad), &bad); len(rules) != 0 || problem == "" {
		t.Errorf("a path that is no expression: %v, %q", rules, problem)
	}
}

// TestToTLS: the redirect to https is for hosts with TLS, or forced, and stands at its
// place.
func TestToTLS(t *testing.T) {
	for _, c := range []struct {
		given string
		tls   bool
		path  string
		want  string
	}{
		{"", true, "/foo", "redirectScheme responseHeaders bodyLimit"},
		{"", false, "/foo", "bodyLimit"},
		{"", true, "/.well-known/acme-challenge/x", "bodyLimit"},
		{"ssl-redirect=false", true, "/foo", "bodyLimit"},
		{"force-ssl-redirect=true", false, "/foo", "redirectScheme bodyLimit"},
		{"ssl-redirect=false force-ssl-redirect=true", true, "/foo", "redirectScheme responseHeaders bodyLimit"},
	} {
		given := map[string]string{}
		for word := range strings.FieldsSeq(c.given) {
			name, value, _ := strings.Cut(word, "=")
			given[nginx.Prefix+name] = value
		}
		settings, _, _ := nginx.Parse(given, nil)
		at := nginx.Location{Path: c.path, Force: settings.TLS.Force}
		at.ToTLS, at.Header = settings.ToTLS(policyID, c.path)
		rules, _ := hostOf(c.tls, nil, at).Place(ruleOf(at), &at)
		var names []string
		for i := range rules[0].Policies {
			name, _ := rules[0].Policies[i].Named()
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s, TLS %v, %s: %s, want %s", c.given, c.tls, c.path, got, c.want)
		}
	}
}

// TestCanary: the rules of a canary, and the shares of its requests.
func TestCanary(t *testing.T) {
	at := nginx.Location{Path: "/foo"}
	canary := func(change func(*nginx.Canary)) []nginx.Canary {
		made := nginx.Canary{Host: "a.example", Path: "/foo", Backend: route.BackendID{Namespace: "shop", Name: "new", Port: 80}, Settings: nginx.CanarySettings{Enabled: true, Total: 100}}
		change(&made)
		return []nginx.Canary{made}
	}
	for _, c := range []struct {
		name   string
		change func(*nginx.Canary)
		want   string
	}{
		{"no weight", func(*nginx.Canary) {}, " main:0"},
		{"weight", func(c *nginx.Canary) { c.Settings.Weight = 30 }, " main:70 new:30"},
		{"all", func(c *nginx.Canary) { c.Settings.Weight = 100 }, " main:0 new:100"},
		{"more than all", func(c *nginx.Canary) { c.Settings.Weight = 200 }, " main:0 new:100"},
		{"total", func(c *nginx.Canary) { c.Settings.Weight, c.Settings.Total = 1, 1000 }, " main:999 new:1"},
		{"header", func(c *nginx.Canary) { c.Settings.Header = "X-C" }, " main:0; canary-1 X-C  always new:0; canary-2 X-C  never main:0"},
		{"value", func(c *nginx.Canary) { c.Settings.Header, c.Settings.Value, c.Settings.Pattern = "X-C", "v", "p" }, " main:0; canary-1 X-C  v new:0"},
		{"pattern", func(c *nginx.Canary) { c.Settings.Header, c.Settings.Pattern = "X-C", "p" }, " main:0; canary-1 X-C regexp p new:0"},
		{"cookie", func(c *nginx.Canary) { c.Settings.Cookie = "c" }, ` main:0; canary-1 Cookie regexp (?:^|;\s*)c=always\s*(?:;|$) new:0; canary-2 Cookie regexp (?:^|;\s*)c=never\s*(?:;|$) main:0`},
		{"other path", func(c *nginx.Canary) { c.Path, c.Settings.Weight = "/", 50 }, " main:0"},
		{"other type", func(c *nginx.Canary) { c.Exact, c.Settings.Weight = true, 50 }, " main:0"},
		{"other host", func(c *nginx.Canary) { c.Host, c.Settings.Weight = "b.example", 50 }, " main:0"},
		{"same backend", func(c *nginx.Canary) { c.Backend.Name, c.Settings.Weight = "main", 50 }, " main:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, _ := hostOf(false, canary(c.change), at).Place(ruleOf(at), &at)
			var lines []string
			for _, rule := range rules {
				line := rule.ID.Variant
				for _, header := range rule.Match.Headers {
					line += fmt.Sprintf(" %s %s %s", header.Name, header.Type, header.Value)
				}
				for _, backend := range rule.Backends {
					line += fmt.Sprintf(" %s:%d", backend.Backend.Name, backend.Weight)
				}
				lines = append(lines, line)
				if problems := rule.Validate(); len(problems) > 0 {
					t.Errorf("%v", problems)
				}
			}
			if got := strings.Join(lines, "; "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	// A canary of another namespace takes nothing.
	outcome := &nginx.Outcome{Canaries: canary(func(c *nginx.Canary) { c.Settings.Weight = 100 })}
	host := nginx.NewHost("a.example", []nginx.Member{{Namespace: "other", Outcome: outcome}})
	if rules, _ := host.Place(ruleOf(at), &at); len(rules[0].Backends) != 1 {
		t.Error("a canary of another namespace gets requests")
	}
}

// TestExpressionProblem: the part that RE2 does not have is named.
func TestExpressionProblem(t *testing.T) {
	for text, want := range map[string]string{
		"/a(/|$)(.*)": "", "/a\\\\1": "", "/a(?!b)": "look-ahead", "/(?=a)": "look-ahead", "/(?<=a)b": "look-behind", "/(?<!a)b": "look-behind",
		"/(a)\\1": "back-reference, \\1", "/(?>a)": "atomic", "/a++": "possessive", "/a(": "not an expression", "/a)(b": "not an expression",
		"/" + strings.Repeat("a", route.MaxExpressionLength): "at most",
	} {
		if got := nginx.ExpressionProblem(text); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.40s: %q, want %q", text, got, want)
		}
	}
}

// TestRewriting: the target as nginx reads it.
func TestRewriting(t *testing.T) {
	for _, c := range []struct{ target, path, want string }{
		{"/", "/foo", "/"}, {"/$1", "/foo/(.*)", "/${1}"}, {"/$2", "/foo/(.*)", "/"}, {"/x$10", "/(a)", "/x${1}0"}, {"/$1/$2", "/(a)(b)", "/${1}/${2}"},
	} {
		settings, _, _ := nginx.Parse(map[string]string{nginx.Prefix + "rewrite-target": c.target}, nil)
		policies := settings.Rewriting(policyID, c.path)
		if len(policies) != 1 || policies[0].ReplacePathRegexp.Replacement != c.want {
			t.Errorf("%s of %s: %+v", c.target, c.path, policies)
		}
	}
	settings, _, _ := nginx.Parse(map[string]string{nginx.Prefix + "rewrite-target": "/foo"}, nil)
	if settings.Expressions("/foo") || settings.Rewriting(policyID, "/foo") != nil || !settings.Expressions("/bar") {
		t.Error("a target that is the path rewrites it")
	}
}

// TestSettings: settings that several annotations make together.
func TestSettings(t *testing.T) {
	parse := func(pairs ...string) *nginx.Settings {
		given := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			given[nginx.Prefix+pairs[i]] = pairs[i+1]
		}
		settings, faults, _ := nginx.Parse(given, nil)
		if len(faults) > 0 {
			t.Errorf("%v: %v", pairs, faults)
		}
		return settings
	}
	if s := parse("proxy-read-timeout", "5", "proxy-send-timeout", "7"); s.Timeouts.Header.String() != "5s" || s.Timeouts.Idle.String() != "7s" || s.Timeouts.Connect.String() != "5s" {
		t.Errorf("timeouts: %+v", s.Timeouts)
	}
	if s := parse("affinity", "cookie", "upstream-hash-by", "$host"); s.Backend.Balancing().Method != route.BalanceRoundRobin || s.Backend.StickyCookie() == nil {
		t.Error("the cookie does not win over the hash")
	}
	if s := parse("upstream-hash-by", "$http_x_user"); s.Backend.Balancing().Hash != (route.HashKey{By: route.KeyHeader, Name: "x-user"}) {
		t.Errorf("hash: %+v", s.Backend.Balancing())
	}
	cookie := parse("affinity", "cookie", "session-cookie-samesite", "None", "session-cookie-expires", "9").Backend.StickyCookie()
	if want := (route.StickyCookie{Name: "INGRESSCOOKIE", Path: "/", SameSite: route.SameSiteNone, Secure: true, HTTPOnly: true, MaxAge: cookie.MaxAge}); *cookie != want || cookie.MaxAge.String() != "9s" {
		t.Errorf("cookie: %+v", cookie)
	}
	if s := parse("proxy-next-upstream", "error http_503", "proxy-next-upstream-tries", "0"); s.Retry.Tries != 5 || !slices.Equal(s.Retry.Statuses, []int{503}) || len(s.Retry.On) != 2 {
		t.Errorf("retry: %+v", s.Retry)
	}
	base, _ := nginx.ParseConfig(map[string]string{"proxy-body-size": "8k", "ssl-redirect": "false"})
	settings, _, _ := nginx.Parse(map[string]string{nginx.Prefix + "ssl-redirect": "true"}, base)
	if settings.BodyBytes != 8<<10 || !settings.TLS.Redirect {
		t.Errorf("with a ConfigMap: %d, %v", settings.BodyBytes, settings.TLS.Redirect)
	}
	if parse().VariantFor("cart", nil) != "nginx" || parse("load-balance", "ewma").VariantFor("cart", nil) != "nginx_cart" {
		t.Error("the variants of backends are wrong")
	}
}

// TestClosedRule: a rule that returns 503 redirects no client to https, as its policies are
// not known.
func TestClosedRule(t *testing.T) {
	at := nginx.Location{Path: "/foo", Force: true, ToTLS: &route.Policy{ID: policyID, RedirectScheme: &route.RedirectScheme{Scheme: route.SchemeHTTPS}}}
	rule := ruleOf(at)
	rule.Backends, rule.Policies, rule.Response = nil, nil, &route.Response{Status: 503, Reason: route.ReasonRefused}
	if rules, _ := hostOf(true, nil, at).Place(rule, &at); len(rules[0].Policies) != 0 {
		t.Errorf("it has the policies %+v", rules[0].Policies)
	}
}

// TestMissing: only a host that an Ingress has itself gets a 404 of its own.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		name string
		at   nginx.Location
		want bool
	}{
		{"path", nginx.Location{Path: "/foo"}, true},
		{"exact root", nginx.Location{Path: "/", Exact: true}, true},
		{"root", nginx.Location{Path: "/"}, false},
		{"default backend", nginx.Location{Default: true}, false},
		{"guest", nginx.Location{Path: "/foo", Guest: true}, false},
	} {
		at := c.at
		at.Host = "a.example"
		host := nginx.NewHost("a.example", []nginx.Member{{Namespace: "shop", Name: "cart", Outcome: &nginx.Outcome{Locations: []nginx.Location{at}}}})
		if got := host.Missing("shop", "cart") != nil; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if host.Missing("shop", "other") != nil {
			t.Errorf("%s: another Ingress has it, too", c.name)
		}
	}
}

// TestAccess: addresses and certificates as policies.
func TestAccess(t *testing.T) {
	namesOf := func(pairs ...string) (names []string, filter *route.IPFilter) {
		given := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			given[nginx.Prefix+pairs[i]] = pairs[i+1]
		}
		settings, faults, _ := nginx.Parse(given, nil)
		if len(faults) > 0 {
			t.Errorf("%v: %v", pairs, faults)
		}
		for _, step := range settings.After(policyID) {
			name, _ := step.Policy.Named()
			names = append(names, name)
			if step.Policy.IPFilter != nil {
				filter = step.Policy.IPFilter
			}
		}
		return names, filter
	}
	_, filter := namesOf("whitelist-source-range", "10.1.2.3/8, ::ffff:192.0.2.1", "denylist-source-range", "10.9.0.0/16")
	if got := fmt.Sprint(filter.Allow, filter.Deny); got != "[10.0.0.0/8 192.0.2.1/32] [10.9.0.0/16]" {
		t.Errorf("addresses: %s", got)
	}
	forward := []string{"auth-tls-secret", "shop/ca", "auth-tls-pass-certificate-to-upstream", "true"}
	if names, _ := namesOf(forward...); !slices.Contains(names, "forwardCertificate") {
		t.Errorf("with a certificate: %v", names)
	}
	// Backends trust the headers, so those of clients are removed also without certificates,
	// and that of the certificate also where none is passed on.
	if names, _ := namesOf("auth-tls-secret", "default/ca"); !slices.Contains(names, "requestHeaders") {
		t.Errorf("without passing the certificate on: %v", names)
	}
	if names, _ := namesOf(append(forward, "auth-tls-verify-client", "off")...); !slices.Contains(names, "forwardCertificate") {
		t.Errorf("without a certificate: %v", names)
	}
}
