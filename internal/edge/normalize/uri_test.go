package normalize_test

import (
	"errors"
	"fmt"
	"testing"

	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/must"
)

// uriTests has a target and a Host, and how they are read: host, authority and
// target as forwarded; or the flaw for which they are refused.
var uriTests = []struct {
	name         string
	target, host string
	options      bool
	allow        normalize.Hazard
	want         string
	flaw         error
}{
	{name: "origin form", target: "/a?b=c", host: "example.com", want: "example.com example.com /a?b=c"},
	{name: "empty query stays", target: "/a?", host: "h", want: "h h /a?"},
	{name: "query verbatim", target: "/?a=%2f;b=%zz&c=../|{}\"<>'^`\\", host: "h", want: "h h /?a=%2f;b=%zz&c=../|{}\"<>'^`\\"},
	{name: "question mark in the query", target: "/a?b?c", host: "h", want: "h h /a?b?c"},
	{name: "host spelled anew", target: "/", host: "Example.COM.:8080", want: "example.com example.com:8080 /"},
	{name: "trailing dot, no port", target: "/", host: "example.com.", want: "example.com example.com /"},
	{name: "both spelled anew", target: "/a/../b?c", host: "H", want: "h h /b?c"},
	{name: "path and IPv6", target: "/%61", host: "[0:0::1]:80", want: "[::1] [::1]:80 /a"},
	{name: "asterisk", target: "*", host: "h", options: true, want: "h h *"},
	{name: "hazard allowed", target: "/a%2fb", host: "h", allow: normalize.EncodedSlash, want: "h h /a%2Fb"},

	{name: "absolute form", target: "http://example.com/a?b", host: "example.com", want: "example.com example.com /a?b"},
	{name: "absolute form, other case", target: "HTTPS://Example.com/a", host: "EXAMPLE.com", want: "example.com example.com /a"},
	{name: "absolute form, default port", target: "http://h:80/", host: "h", want: "h h /"},
	{name: "absolute form, default port in Host", target: "https://h/", host: "h:443", want: "h h:443 /"},
	{name: "absolute form, no path", target: "http://h", host: "h", want: "h h /"},
	{name: "absolute form, query only", target: "http://h?x", host: "h", want: "h h /?x"},
	{name: "absolute form, whole server", target: "http://h", host: "h", options: true, want: "h h *"},

	{name: "absolute form, other host", target: "http://evil.com/", host: "h", flaw: normalize.ErrHostMismatch},
	{name: "absolute form, other port", target: "http://h:8080/", host: "h", flaw: normalize.ErrHostMismatch},
	{name: "absolute form, port of the other scheme", target: "http://h/", host: "h:443", flaw: normalize.ErrHostMismatch},
	{name: "absolute form, user", target: "http://h@evil.com/", host: "h", flaw: normalize.ErrHostByte},
	{name: "absolute form, no host", target: "http:///a", host: "h", flaw: normalize.ErrTargetForm},
	{name: "other scheme", target: "ftp://h/", host: "h", flaw: normalize.ErrTargetForm},
	{name: "authority form", target: "h:443", host: "h", flaw: normalize.ErrTargetForm},
	{name: "no slash", target: "a/b", host: "h", flaw: normalize.ErrTargetForm},
	{name: "empty target", target: "", host: "h", flaw: normalize.ErrTargetForm},
	{name: "asterisk with GET", target: "*", host: "h", flaw: normalize.ErrAsterisk},
	{name: "asterisk and more", target: "*/a", host: "h", options: true, flaw: normalize.ErrTargetForm},
	{name: "fragment in the path", target: "/a#b", host: "h", flaw: normalize.ErrFragment},
	{name: "fragment in the query", target: "/a?b#c", host: "h", flaw: normalize.ErrFragment},
	{name: "fragment after the host", target: "http://h#a", host: "h", flaw: normalize.ErrTargetForm},
	{name: "space in the query", target: "/a?b c", host: "h", flaw: normalize.ErrTargetByte},
	{name: "line break in the query", target: "/a?b\r\nX:y", host: "h", flaw: normalize.ErrTargetByte},
	{name: "UTF-8 in the query", target: "/a?é", host: "h", flaw: normalize.ErrTargetByte},
	{name: "hazard", target: "/a%2fb", host: "h", flaw: normalize.ErrEncodedSlash},
	{name: "another hazard allowed", target: "/a%2fb", host: "h", allow: normalize.Semicolon, flaw: normalize.ErrEncodedSlash},
	{name: "no host", target: "/", host: "", flaw: normalize.ErrHostEmpty},
}

func TestResolve(t *testing.T) {
	var uri normalize.URI // reused, as on a connection
	for _, test := range uriTests {
		t.Run(test.name, func(t *testing.T) {
			raw := normalize.Raw{Target: []byte(test.target), Host: []byte(test.host), Options: test.options}
			err := uri.Resolve(raw, test.allow)
			if !errors.Is(err, test.flaw) {
				t.Fatalf("error %v, want %v", err, test.flaw)
			}
			if err != nil {
				return
			}
			if got := fmt.Sprintf("%s %s %s", uri.Host, uri.Authority, uri.AppendTarget(nil)); got != test.want {
				t.Errorf("read as %q, want %q", got, test.want)
			}
			if rewritten := string(uri.AppendTarget(nil)) != test.target; rewritten != uri.Rewritten && test.target[0] == '/' {
				t.Errorf("Rewritten is %v for %q", uri.Rewritten, test.target)
			}
		})
	}
}

func TestResolveWithoutHost(t *testing.T) {
	var uri normalize.URI
	if err := uri.Resolve(normalize.Raw{Target: []byte("/a"), HostOptional: true}, 0); err != nil || len(uri.Host) != 0 {
		t.Errorf("origin form: host %q, error %v", uri.Host, err)
	}
	raw := normalize.Raw{Target: []byte("http://Example.com:81/a"), HostOptional: true}
	if err := uri.Resolve(raw, 0); err != nil || string(uri.Authority) != "example.com:81" || string(uri.Path) != "/a" {
		t.Errorf("absolute form: authority %q, path %q, error %v", uri.Authority, uri.Path, err)
	}
}

// TestResolveAllocates nothing, once the URI has been used.
func TestResolveAllocates(t *testing.T) {
	var uri normalize.URI
	for _, test := range uriTests {
		if test.flaw != nil {
			continue
		}
		raw := normalize.Raw{Target: []byte(test.target), Host: []byte(test.host), Options: test.options}
		allocs := testing.AllocsPerRun(100, func() {
			must.Do(t, uri.Resolve(raw, test.allow))
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", test.name, allocs)
		}
	}
}

// TestErrors pins the labels, which users see.
func TestErrors(t *testing.T) {
	for label, err := range map[string]*httperr.Error{
		"target_form":   normalize.ErrTargetForm,
		"target_byte":   normalize.ErrTargetByte,
		"fragment":      normalize.ErrFragment,
		"asterisk":      normalize.ErrAsterisk,
		"host_mismatch": normalize.ErrHostMismatch,
		"hidden_dots":   normalize.ErrHiddenDots,
		"encoded_slash": normalize.ErrEncodedSlash,
		"backslash":     normalize.ErrBackslash,
		"encoded_null":  normalize.ErrEncodedNull,
		"encoded_hash":  normalize.ErrEncodedHash,
		"semicolon":     normalize.ErrSemicolon,
		"bad_escape":    normalize.ErrBadEscape,
		"host_empty":    normalize.ErrHostEmpty,
		"host_byte":     normalize.ErrHostByte,
		"host_label":    normalize.ErrHostLabel,
		"host_length":   normalize.ErrHostLength,
		"host_port":     normalize.ErrHostPort,
		"host_address":  normalize.ErrHostAddress,
	} {
		if err.Reason != label || err.Status != 400 {
			t.Errorf("%q has label %s and status %d, want %s and 400", err, err.Reason, err.Status, label)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, bench := range []struct{ name, target, host string }{
		{"canonical", "/api/v1/users/4711/orders?sort=date&limit=50", "shop.example.com"},
		{"rewritten", "/api/v1/../v2/%75sers//4711?sort=date&limit=50", "Shop.Example.com:443"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var uri normalize.URI
			raw := normalize.Raw{Target: []byte(bench.target), Host: []byte(bench.host)}
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, uri.Resolve(raw, 0))
			}
		})
	}
}
