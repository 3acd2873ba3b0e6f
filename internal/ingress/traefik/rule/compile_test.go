package rule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/traefik/rule"
	"slipway.dev/slipway/internal/must"
)

func options(syntax rule.Syntax) rule.Options {
	return rule.Options{Syntax: syntax, SpellHost: resolve.SpellHost, SpellPath: resolve.SpellPath}
}

// TestCompile: each rule has these alternatives, as JSON of host and match.
func TestCompile(t *testing.T) {
	for _, test := range []struct {
		syntax rule.Syntax
		rule   string
		want   []string
	}{
		{"v3", "Host(`Shop.Example.com.`)", []string{`shop.example.com {}`}},
		{"v3", `host("a.example") && PathPrefix("/a\u0062")`, []string{`a.example {"path":{"type":"characterPrefix","value":"/ab"}}`}},
		{"v3", "Host(`*.example.com`) && Path(`/a b`)", []string{`*.example.com {"path":{"type":"exact","value":"/a%20b"}}`}},
		{"v3", "Host(`a`) || Host(`b`) && Method(`get`)", []string{`a {}`, `b {"methods":["GET"]}`}},
		{"v3", "(Host(`a`) || Host(`b`)) && (Method(`GET`) || Method(`PUT`))", []string{
			`a {"methods":["GET"]}`, `a {"methods":["PUT"]}`, `b {"methods":["GET"]}`, `b {"methods":["PUT"]}`}},
		{"v3", "Host(`a`) && !PathPrefix(`/api`)", []string{`a {"further":[{"not":true,"path":{"type":"characterPrefix","value":"/api"}}]}`}},
		{"v3", "!(Host(`a`) || Path(`/b`))", []string{` {"further":[{"not":true,"host":"a"},{"not":true,"path":{"type":"exact","value":"/b"}}]}`}},
		{"v3", "!(Method(`GET`) && !Host(`a`))", []string{` {"further":[{"not":true,"method":"GET"}]}`, `a {}`}},
		{"v3", "!!Host(`a`)", []string{`a {}`}},
		{"v3", "PathRegexp(`^/x`) && Path(`/x/y`) && PathPrefix(`/x`)", []string{
			` {"path":{"type":"exact","value":"/x/y"},"further":[{"path":{"type":"regexp","value":"^/x"}},{"path":{"type":"characterPrefix","value":"/x"}}]}`}},
		{"v3", "PathPrefix(`/x`) && PathPrefix(`/x/y`)", []string{
			` {"path":{"type":"characterPrefix","value":"/x/y"},"further":[{"path":{"type":"characterPrefix","value":"/x"}}]}`}},
		{"v3", "Host(`*.b`) && Host(`a.b`)", []string{`a.b {"further":[{"host":"*.b"}]}`}},
		{"v3", "Host(`a`) && (Host(`b`) || Host(`a`))", []string{`a {}`}},
		{"v3", "Header(`X-A`, `1`) && HeaderRegexp(`X-B`, `^2`)", []string{
			` {"headers":[{"name":"X-A","type":"exact","value":"1"},{"name":"X-B","type":"regexp","value":"^2"}]}`}},
		{"v3", "!Header(`X-A`, `1`)", []string{` {"further":[{"not":true,"header":{"name":"X-A","type":"exact","value":"1"}}]}`}},
		{"v3", "Query(`a`, `1`) && Query(`b`) && QueryRegexp(`c`, `x`) && QueryRegexp(`d`)", []string{
			` {"query":[{"name":"a","type":"exact","value":"1"},{"name":"b","type":"exact"},{"name":"c","type":"regexp","value":"x"},{"name":"d","type":"exact"}]}`}},
		{"v3", "ClientIP(`10.1.2.3/8`) || ClientIP(`::1`)", []string{` {"further":[{"clients":["10.0.0.0/8"]}]}`, ` {"further":[{"clients":["::1/128"]}]}`}},
		{"v3", "HostRegexp(`^[a-z]+\\.example\\.com$`)", []string{`*.example.com {"further":[{"hostRegexp":"^[a-z]+\\.example\\.com$"}]}`}},
		{"v3", "HostRegexp(`^.+\\.example\\.com$`)", []string{` {"further":[{"hostRegexp":"^.+\\.example\\.com$"}]}`}},
		{"v2", "Host(`a`, `b`)", []string{`a {}`, `b {}`}},
		{"v2", "!Host(`a`, `b`)", []string{` {"further":[{"not":true,"host":"a"},{"not":true,"host":"b"}]}`}},
		{"v2", "HostRegexp(`{sub:[a-z]{2}}.example.com`)", []string{`*.example.com {"further":[{"hostRegexp":"(?i)^(?:[a-z]{2})\\.example\\.com$"}]}`}},
		{"v2", "HostRegexp(`{sub}.example.com`, `b.example.com`)", []string{
			`*.example.com {"further":[{"hostRegexp":"(?i)^(?:[^.]+)\\.example\\.com$"}]}`, `b.example.com {}`}},
		{"v2", "Path(`/a/{id:[0-9]+}`, `/b`)", []string{
			` {"path":{"type":"regexp","value":"^/a/(?:[0-9]+)$"}}`, ` {"path":{"type":"exact","value":"/b"}}`}},
		{"v2", "PathPrefix(`/a/{any}/x.y`)", []string{` {"path":{"type":"regexp","value":"^/a/(?:[^/]+)/x\\.y"}}`}},
		{"v2", "Headers(`A`, `b`) && HeadersRegexp(`C`, `d`) && Method(`GET`, `PUT`)", []string{
			` {"methods":["GET"],"headers":[{"name":"A","type":"exact","value":"b"},{"name":"C","type":"regexp","value":"d"}]}`,
			` {"methods":["PUT"],"headers":[{"name":"A","type":"exact","value":"b"},{"name":"C","type":"regexp","value":"d"}]}`}},
		{"v2", "Headers(`A`, `b`, `C`, `d`)", []string{` {"headers":[{"name":"A","type":"exact","value":"b"},{"name":"C","type":"exact","value":"d"}]}`}},
		{"v2", "Query(`a=1`, `b=`)", []string{` {"query":[{"name":"a","type":"exact","value":"1"},{"name":"b","type":"present"}]}`}},
		{"v2", "!Query(`a=1`, `b={x:[0-9]+}`)", []string{
			` {"further":[{"not":true,"query":{"name":"a","type":"exact","value":"1"}}]}`,
			` {"further":[{"not":true,"query":{"name":"b","type":"regexp","value":"^(?:[0-9]+)$"}}]}`}},
	} {
		alternatives, err := rule.Compile(test.rule, options(test.syntax))
		var got []string
		for _, alternative := range alternatives {
			got = append(got, alternative.Host+" "+string(must.Get(json.Marshal(alternative.Match))(t)))
		}
		if want := strings.Join(test.want, "\n"); err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", test.rule, err, strings.Join(got, "\n"), want)
		}
	}
}

// TestRefused: each rule is refused, with a part of the cause.
func TestRefused(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("(Path(`/a`)||Path(`/b`))&&", 9), "&&")
	for _, test := range []struct {
		syntax     rule.Syntax
		rule, want string
	}{
		{"v3", "", "the rule ends, and a matcher"},
		{"v3", "Host(`a`", "ends, and , or )"},
		{"v3", "Host(`a`) Path(`/`)", `at 11: 'P', and not &&`},
		{"v3", "Host(a)", "a value in backticks"},
		{"v3", "Host('a')", "a value in backticks"},
		{"v3", `Host("\xff")`, "a value in backticks"},
		{"v3", "Host", "( after Host"},
		{"v3", "Host(`a`) & Path(`/`)", "and not &&"},
		{"v3", "(Host(`a`)", "and ) is missing"},
		{"v3", "Host(`a`,`b`)", "one value in the syntax v3, and here 2"},
		{"v3", "Host()", "one value in the syntax v3, and here 0"},
		{"v2", "Host()", "at least 1 values"},
		{"v3", "Headers(`a`,`b`)", "no matcher Headers for requests in the syntax v3"},
		{"v2", "Header(`a`,`b`)", "no matcher Header for requests in the syntax v2"},
		{"v3", "HostSNI(`a`)", "no matcher HostSNI"},
		{"v3", "Query(`a`,`b`,`c`)", "1 to 2 values"},
		{"v3", "Host(``)", "the host is empty"},
		{"v3", "Path(`a`)", "does not start with /"},
		{"v2", "PathPrefix(`a/{b}`)", "does not start with /"},
		{"v2", "Path(`/{b`)", "a { has no }"},
		{"v2", "Path(`/b}`)", "a } has no {"},
		{"v2", "Path(`/{}`)", "is no variable"},
		{"v2", "Query(`a`)", "not a parameter with its value"},
		{"v3", "HostRegexp(`{sub:[a-z]+}.example.com`)", "set syntax to v2"},
		{"v3", "HostRegexp(`(`)", "not a regular expression"},
		{"v3", "PathRegexp(``)", "is empty"},
		{"v3", "Header(`host`, `a`)", "use the matcher Host"},
		{"v2", "Headers(`a`, `b`, `c`)", "the last header has no value"},
		{"v3", "ClientIP(`10.0.0.0/33`)", "neither an address nor a network"},
		{"v3", "ClientIP(`fe80::1%eth0`)", "neither an address nor a network"},
		{"v3", "Host(`a`) && Host(`b`)", "no request can match"},
		{"v3", "Method(`GET`) && !Method(`GET`)", "no request can match"},
		{"v3", "Path(`/a`) && Path(`/b`) || Method(`A`) && Method(`B`)", "no request can match"},
		{"v3", many, "more than 256 alternatives"},
		{"v3", strings.Repeat("(", 33) + "Host(`a`)" + strings.Repeat(")", 33), "nested more than 32 deep"},
		{"v3", strings.Repeat("!", 40) + "Host(`a`)", "nested more than 32 deep"},
		{"v3", strings.TrimSuffix(strings.Repeat("Host(`a`)||", 257), "||"), "more than 256"},
		{"v3", "Host(`" + strings.Repeat("a", rule.MaxLength) + "`)", "at most 8192"},
		{"v3", "Host(`\xff`)", "not valid UTF-8"},
	} {
		alternatives, err := rule.Compile(test.rule, options(test.syntax))
		if err == nil || !strings.Contains(err.Error(), test.want) || alternatives != nil {
			t.Errorf("%.80s: %v, want %q", test.rule, err, test.want)
		}
	}
	conditions := make([]string, 33)
	for i := range conditions {
		conditions[i] = "Header(`X-" + strings.Repeat("a", i+1) + "`,`1`)"
	}
	if _, err := rule.Compile(strings.Join(conditions, "&&"), options("v3")); err == nil || !strings.Contains(err.Error(), "33 conditions") {
		t.Errorf("33 conditions: %v", err)
	}
	if _, err := rule.Compile(strings.Join(conditions[1:], "&&"), options("v3")); err != nil {
		t.Errorf("32 conditions: %v", err)
	}
}

// TestWildcard: the wildcard of an expression includes every host that it matches, and
// there is none if a host can have other labels.
func TestWildcard(t *testing.T) {
	for expression, want := range map[string]string{
		`^[a-z]+\.example\.com$`:            "*.example.com",
		`^(a|b)\.example\.com$`:             "*.example.com",
		`^(?:a|)x?b{1,3}\.example\.com$`:    "*.example.com",
		`^app-[0-9]+(-x)*\.example\.com$`:   "*.example.com",
		`(?i)^A[b]\.Example\.com$`:          "*.example.com",
		`^[^.]+\.example\.com$`:             "*.example.com",
		`^.+\.example\.com$`:                "",
		`^[^x]+\.example\.com$`:             "",
		`^(a|b\.c)\.example\.com$`:          "",
		`^[a-z]*\.example\.com$`:            "",
		`^(a|)\.example\.com$`:              "",
		`[a-z]+\.example\.com$`:             "",
		`^[a-z]+\.example\.com`:             "",
		`^[a-z]+example\.com$`:              "*.com",
		`^[a-z]+\.$`:                        "",
		`^[a-z]+\.\.com$`:                   "",
		`^[a-z]+\.exa_mple\.c\*m$`:          "",
		`^\w+\.(com|org)$`:                  "",
		`^a$|^b\.c$`:                        "",
		`(?m)^[a-z]+\.example\.com$`:        "",
		`^(a\.b)\.example\.com$`:            "",
		`^[a-z]+\.example\.com$\.x`:         "",
		`^([a-z]+)\.example\.com$`:          "*.example.com",
		`^([a-z]+[0-9]?)(?:x)\.example\.c$`: "*.example.c",
	} {
		alternatives := must.Get(rule.Compile("HostRegexp(`"+expression+"`)", options("v3")))(t)
		if alternatives[0].Host != want {
			t.Errorf("%s: %q, want %q", expression, alternatives[0].Host, want)
		}
	}
}
