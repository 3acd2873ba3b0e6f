package filter_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// A rewrite replaces host and path by the same rules, and keeps the query.
func TestRewrite(t *testing.T) {
	for _, test := range []struct {
		name         string
		to           route.Rewrite
		target, want string
		host         string
	}{
		{"host", route.Rewrite{Host: "b.example"}, "/a?b", "", "b.example"},
		{"path", route.Rewrite{Path: "/new"}, "/a/b?c=d", "/new?c=d", ""},
		{"both", route.Rewrite{Host: "b.example", Path: "/new"}, "/a", "/new", "b.example"},
		{"prefix", route.Rewrite{ReplacePrefix: "/prefix/one", Path: "/one"}, "/prefix/one/two", "/one/two", ""},
		{"prefix that is removed", route.Rewrite{ReplacePrefix: "/strip", Path: "/"}, "/strip/three", "/three", ""},
		{"nothing is left", route.Rewrite{ReplacePrefix: "/strip", Path: "/"}, "/strip", "/", ""},
		{"prefix by nothing", route.Rewrite{ReplacePrefix: "/strip"}, "/strip/a", "/a", ""},
		{"no path", route.Rewrite{Path: "/new"}, "*", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			chain := must.Get(filter.Chain{}.WithRewrite(&test.to))(t)
			request := get(test.target)
			if test.target == "*" {
				request = "OPTIONS * HTTP/1.1\nHost: a.example\n\n"
			}
			r := begin(t, &chain, request)
			got := ""
			if r.x.Rewritten() {
				got = string(r.x.AppendTarget(nil))
			}
			if r.answer != nil || got != test.want || r.x.Host() != test.host {
				t.Errorf("%v: target %q, host %q", r.answer, got, r.x.Host())
			}
		})
	}
	if _, err := (filter.Chain{}).WithRewrite(&route.Rewrite{Path: "/%zz"}); err == nil {
		t.Error("a path that no client could send is accepted")
	}
}

// A redirect is composed of the parts that are given and those of the request. A
// prefix is replaced by whole elements.
func TestRedirectParts(t *testing.T) {
	for _, test := range []struct {
		name   string
		parts  route.Redirect
		target string
		tls    bool
		want   string
	}{
		{"nothing", route.Redirect{}, "/a?b=c", false, "http://a.example/a?b=c"},
		{"host", route.Redirect{Host: "b.example", Port: 80}, "/a?b", false, "http://b.example/a?b"},
		{"port of the listener", route.Redirect{Port: 8080}, "/", false, "http://a.example:8080/"},
		{"port that the scheme of the request implies", route.Redirect{Port: 443}, "/", true, "https://a.example/"},
		{"port that it does not imply", route.Redirect{Port: 443}, "/", false, "http://a.example:443/"},
		{"scheme", route.Redirect{Scheme: route.SchemeHTTPS}, "/", false, "https://a.example/"},
		{"scheme and port", route.Redirect{Scheme: route.SchemeHTTPS, Port: 8443}, "/", false, "https://a.example:8443/"},
		{"path", route.Redirect{Path: "/new"}, "/a/b?c", false, "http://a.example/new?c"},
		{"prefix", route.Redirect{ReplacePrefix: "/a", Path: "/new"}, "/a/b?c", false, "http://a.example/new/b?c"},
		{"prefix alone", route.Redirect{ReplacePrefix: "/a", Path: "/new"}, "/a", false, "http://a.example/new"},
		{"prefix and a slash", route.Redirect{ReplacePrefix: "/a", Path: "/new"}, "/a/", false, "http://a.example/new/"},
		{"slashes at the ends", route.Redirect{ReplacePrefix: "/a/", Path: "/new/"}, "/a/b", false, "http://a.example/new/b"},
		{"no prefix", route.Redirect{ReplacePrefix: "/a", Path: "/"}, "/a/b", false, "http://a.example/b"},
		{"nothing left", route.Redirect{ReplacePrefix: "/a"}, "/a", false, "http://a.example/"},
		{"all paths", route.Redirect{ReplacePrefix: "/", Path: "/new"}, "/a", false, "http://a.example/new/a"},
		{"another element", route.Redirect{ReplacePrefix: "/a", Path: "/new"}, "/ab", false, "http://a.example/ab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			chain := must.Get(filter.Chain{}.WithRedirect(&test.parts, 302))(t)
			r := begin(t, &chain, get(test.target), func(x *filter.Exchange) { x.TLS = test.tls })
			if reply := r.replied(t, "HTTP/1.1 302 Redirect\n\n"); r.status() != 302 || !contains(reply, "Location: "+test.want+"\n") {
				t.Errorf("status %d:\n%s", r.status(), reply)
			}
		})
	}
}
