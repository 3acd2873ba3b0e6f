package filter_test

import (
	"bytes"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// pathPolicies are the path filters that the matrix and the fuzz test go
// through, each with what it is meant to leave of every path.
var pathPolicies = []struct {
	name   string
	policy route.Policy
	within string // every path that is forwarded starts with it
}{
	{"add", route.Policy{AddPrefix: &route.AddPrefix{Prefix: "/base"}}, "/base/"},
	{"strip", route.Policy{StripPrefix: &route.StripPrefix{Prefixes: []string{"/api", "/a"}}}, "/"},
	{"strip regexp", route.Policy{StripPrefixRegexp: &route.StripPrefixRegexp{Regexps: []string{"/api", "/[^/]"}}}, "/"},
	{"replace", route.Policy{ReplacePath: &route.ReplacePath{Path: "/fixed"}}, "/fixed"},
	{"replace regexp", route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: "^/(api)?(.*)$", Replacement: "/data/${2}"}}, "/data/"},
	{"replace letters", route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: "[a-z]", Replacement: "."}}, "/"},
	{"cut escapes", route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: "%(.)", Replacement: "${1}"}}, "/"},
	{"join escapes", route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: "^(.*%).*$", Replacement: "${1}2E"}}, "/"},
}

// TestSpellings sends one path in all spellings. A filter sees one spelling
// only, and the backend gets what the filter saw, or nothing.
func TestSpellings(t *testing.T) {
	tests := []struct{ target, strip, add string }{
		{"/api/x", "/x", "/base/api/x"},
		{"//api//x", "/x", "/base/api/x"},
		{"/%61pi/x", "/x", "/base/api/x"},
		{"/%61%70%69/%78", "/x", "/base/api/x"},
		{"/./api/./x", "/x", "/base/api/x"},
		{"/%2e/api/%2E/x", "/x", "/base/api/x"},
		{"/y/../api/x", "/x", "/base/api/x"},
		{"/y/%2e%2e/api/x", "/x", "/base/api/x"},
		{"/y/.%2E/api/x", "/x", "/base/api/x"},
		{"/../../api/x", "/x", "/base/api/x"},
		{"/api/../x", "/x", "/base/x"},
		{"/api/..", "/", "/base/"},
		{"/api/../../..", "/", "/base/"},
		{"/api/%2e%2e/%2e%2e/etc", "/etc", "/base/etc"},
		{"/API/x", "/API/x", "/base/API/x"},
		{"/api%2Fx", "/api%2Fx", "/base/api%2Fx"},
		{"/api%2fx", "/api%2Fx", "/base/api%2Fx"},
		{"/api/%2fx", "/%2Fx", "/base/api/%2Fx"},
		{"/api/%252e%252e/x", "/%252e%252e/x", "/base/api/%252e%252e/x"},
		{"/api/%c3%a9", "/%C3%A9", "/base/api/%C3%A9"},
		{"/api;v=1/x", "/api;v=1/x", "/base/api;v=1/x"},
		{"/api\\x", "/api%5Cx", "/base/api%5Cx"},
		{"/api/%zz", "/%25zz", "/base/api/%25zz"},
		{"/api/x?/../y", "/x?/../y", "/base/api/x?/../y"},
		{"http://a.example/api/x", "/x", "/base/api/x"},
	}
	strip := compile(t, filter.NewCounters(start), route.Policy{StripPrefix: &route.StripPrefix{Prefixes: []string{"/api"}}})
	add := compile(t, filter.NewCounters(start), route.Policy{AddPrefix: &route.AddPrefix{Prefix: "/base"}})
	for _, test := range tests {
		if got := target(t, begin(t, strip, get(test.target))); got != test.strip {
			t.Errorf("%s without /api is %s, want %s", test.target, got, test.strip)
		}
		if got := target(t, begin(t, add, get(test.target))); got != test.add {
			t.Errorf("%s under /base is %s, want %s", test.target, got, test.add)
		}
	}
}

// target is what the backend is asked for, read off the wire.
func target(t testing.TB, r *run) string {
	t.Helper()
	if r.answer != nil {
		return "answer " + r.answer.Reason
	}
	line, _, _ := strings.Cut(r.forwarded(t, false), "\n")
	return strings.TrimSuffix(strings.TrimPrefix(line, "GET "), " HTTP/1.1")
}

// TestRewrittenPathsAreCanonical goes through spellings that are joined and cut
// in the filters.
func TestRewrittenPathsAreCanonical(t *testing.T) {
	pieces := []string{"api", "a", ".", "..", "a..", "..a", "%2e", "%2E%2e", "%2f", "%2F", "%5c", ";", ".;", "%00", "%23", "%25", "%252e", "%", "", "%C3%A9", "x.%", "{"}
	for _, p := range pathPolicies {
		chain := compile(t, filter.NewCounters(start), p.policy)
		for _, first := range pieces {
			for _, second := range pieces {
				for _, glue := range []string{"/", ""} {
					rewriteTarget(t, chain, p.within, "/"+first+glue+second)
				}
			}
		}
	}
}

// rewriteTarget sends a target and checks what becomes of it. It reports
// whether the target is one that the edge takes.
func rewriteTarget(t *testing.T, chain *filter.Chain, within, target string) bool {
	t.Helper()
	limits := h1.DefaultLimits()
	limits.Hazards = ^normalize.Hazard(0)
	var head h1.Head
	raw := "GET " + target + " HTTP/1.1\r\nHost: a.example\r\n\r\n"
	if n, err := head.Parse([]byte(raw), &limits); err != nil || n != len(raw) {
		return false
	}
	var x filter.Exchange
	x.Begin(&head, chain.Marks())
	before := string(x.Path)
	_, answer := chain.Request(&x)
	if answer != nil {
		if answer.Status != 400 && answer.Status != 414 {
			t.Errorf("%s is answered with %d", target, answer.Status)
		}
		return true
	}
	canonical, hazards, err := normalize.Path(nil, bytes.Clone(x.Path))
	if err != nil || !bytes.Equal(canonical, x.Path) {
		t.Errorf("%s is forwarded as %s, which reads %s, %v", target, x.Path, canonical, err)
	}
	if extra := hazards &^ head.URI.Hazards; extra != 0 {
		t.Errorf("%s is forwarded as %s, with hazards %b of its own", target, x.Path, extra)
	}
	if !strings.HasPrefix(string(x.Path), within) {
		t.Errorf("%s is forwarded as %s, outside %s", target, x.Path, within)
	}
	if !x.Rewritten() && string(x.Path) != before {
		t.Errorf("%s became %s behind the proxy's back", target, x.Path)
	}
	if !bytes.Equal(head.URI.Query, x.Query) {
		t.Errorf("%s lost its query: %s", target, x.Query)
	}
	return true
}

// FuzzRewrite holds every path filter, and all of them in a row, to canonical
// paths.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{"/", "/api/x", "/a../b", "/%2e%2e/a", "/a%2fb;c", "/api%", "//a//b", "/a/%C3%A9?x", "/.%2e;/", "/a%2E%2Fb"} {
		f.Add(seed)
	}
	var chains []*filter.Chain
	var all []route.Policy
	for _, p := range pathPolicies {
		chains = append(chains, compile(f, filter.NewCounters(start), p.policy))
		all = append(all, p.policy)
	}
	whole := compile(f, filter.NewCounters(start), all...)
	f.Fuzz(func(t *testing.T, target string) {
		for i, chain := range chains {
			if !rewriteTarget(t, chain, pathPolicies[i].within, target) {
				return
			}
		}
		rewriteTarget(t, whole, "/", target)
	})
}

// FuzzReplacement holds any expression and replacement to canonical paths.
func FuzzReplacement(f *testing.F) {
	f.Add("^/a/(.*)$", "/b/${1}", "/a/x")
	f.Add("a", "$$", "/a/x")
	f.Add("(%)", "${1}2", "/%E2")
	f.Add("/(?P<n>.)", "/$n", "/a..")
	f.Fuzz(func(t *testing.T, expression, replacement, target string) {
		chain, err := filter.Compile([]route.Policy{{
			ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: expression, Replacement: replacement},
		}}, filter.NewCounters(start))
		if err != nil {
			return
		}
		rewriteTarget(t, &chain, "/", target)
	})
}

func TestSetPath(t *testing.T) {
	tests := []struct {
		name, path, want string
	}{
		{"canonical", "/a/b", "/a/b"},
		{"slashes", "//a///b//", "/a/b/"},
		{"root", "/", "/"},
		{"dots", "/a/../b", ""},
		{"one dot", "/a/.", ""},
		{"escaped dots", "/a/%2e%2e/b", ""},
		{"lower case escape", "/%c3%a9", ""},
		{"escape of a letter", "/%61", ""},
		{"empty", "", ""},
		{"relative", "a", ""},
		{"asterisk", "*", ""},
		{"absolute", "http://a.example/b", ""},
		{"query", "/a?b", ""},
		{"fragment", "/a#b", ""},
		{"line", "/a\r\nb", ""},
		{"letter outside ASCII", "/é", ""},
		{"hazard that the client does not have", "/a%2Fb", ""},
		{"too long", "/" + strings.Repeat("a", 17<<10), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var x filter.Exchange
			x.Begin(parse(t, get("/asked"), h1.DefaultLimits()), 0)
			err := x.SetPath([]byte(test.path))
			if test.want == "" {
				if err == nil || x.Rewritten() || string(x.Path) != "/asked" {
					t.Errorf("%q is taken: %q, %v", test.path, x.Path, err)
				}
				return
			}
			if err != nil || !x.Rewritten() || string(x.Path) != test.want {
				t.Errorf("%q became %q, %v", test.path, x.Path, err)
			}
		})
	}
}

// TestSetPathFromItself takes parts of the path over and over.
func TestSetPathFromItself(t *testing.T) {
	var x filter.Exchange
	x.Begin(parse(t, get("/a/b/c/d/e"), h1.DefaultLimits()), 0)
	for _, want := range []string{"/b/c/d/e", "/c/d/e", "/d/e", "/e"} {
		if err := x.SetPath(x.Path[2:]); err != nil || string(x.Path) != want {
			t.Fatalf("got %q, %v, want %q", x.Path, err, want)
		}
	}
	if got := string(x.AppendTarget(nil)); got != "/e" {
		t.Errorf("target %q", got)
	}
}

func TestLongRewrites(t *testing.T) {
	grow := route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{
		Regexp: "^/(.*)$", Replacement: "/" + strings.Repeat("${1}", 100),
	}}
	chain := compile(t, filter.NewCounters(start), grow)
	if got := begin(t, chain, get("/"+strings.Repeat("a", 1000))).status(); got != 414 {
		t.Errorf("a hundred times the path: %d", got)
	}
	chain = compile(t, filter.NewCounters(start), route.Policy{RedirectRegexp: &route.RedirectRegexp{
		Regexp: "^http://a.example/(.*)$", Replacement: "https://b.example/" + strings.Repeat("${1}", 100),
	}})
	if got := begin(t, chain, get("/"+strings.Repeat("a", 1000))).status(); got != 400 {
		t.Errorf("a hundred times the URL: %d", got)
	}
	many := route.Policy{ReplacePathRegexp: &route.ReplacePathRegexp{Regexp: "a", Replacement: "b"}}
	chain = compile(t, filter.NewCounters(start), many)
	if got := begin(t, chain, get("/"+strings.Repeat("a", 64))).status(); got != 0 {
		t.Errorf("64 places: %d", got)
	}
	if got := begin(t, chain, get("/"+strings.Repeat("a", 65))).status(); got != 400 {
		t.Errorf("65 places: %d", got)
	}
}
