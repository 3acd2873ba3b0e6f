package gateway

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
)

// FuzzPlainPath: a path that passes means the same to every reader, also
// when it is written and read once more.
func FuzzPlainPath(f *testing.F) {
	for _, text := range []string{
		"/", "/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo", "/a//b", "/a/../b", "/a/%2e%2e/b", "/a%2fb", "/a/./b", "//a",
		"/a//", "/a;x", "/a\\b", "/%5c", "/a%00", "/ä", "*", "/a?b=/../c", "/workflows/", "/a%20b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return
		}
		got, err := plainPath(&http.Request{URL: u})
		if err != nil || !strings.HasPrefix(got, "/") {
			return
		}
		if clean := path.Clean(got); got != clean && got != clean+"/" {
			t.Errorf("%q passes, and is %q when it is cleaned", text, clean)
		}
		again, err := url.ParseRequestURI((&url.URL{Path: got}).String())
		if err != nil || again.Path != got || strings.ContainsAny(got, "\\;\x00") {
			t.Errorf("%q passes as %q, and is read again as %v, %v", text, got, again, err)
		}
	})
}

// FuzzLabel: a host is a tunnel's only if it is one label before the domain.
func FuzzLabel(f *testing.F) {
	for _, host := range []string{
		"acme-prod.tunnels.example.com", "ACME-prod.Tunnels.example.com.:443", "tunnels.example.com", ".tunnels.example.com",
		"a.b.tunnels.example.com", "xtunnels.example.com", "acme-prod.tunnels.example.com.evil", "[::1]:80", "a@b.tunnels.example.com", "",
	} {
		f.Add(host)
	}
	g := &Gateway{Options: Options{TunnelDomain: "tunnels.example.com"}}
	f.Fuzz(func(t *testing.T, host string) {
		label, ok := g.label(host)
		if ok != g.OwnsHost(host) {
			t.Error("two answers")
		}
		if ok && (label == "" || strings.Contains(label, ".") || !strings.Contains(strings.ToLower(host), label+".tunnels.example.com")) {
			t.Errorf("%q is the label of %q", label, host)
		}
		if _, owned := (&Gateway{}).label(host); owned {
			t.Errorf("%q is a tunnel's without a domain", host)
		}
	})
}
