package normalize_test

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/normalize"
)

// hostTests has a host, its spelling and port; or the flaw for which it is
// refused.
var hostTests = []struct {
	name string
	raw  string
	host string
	port uint16
	flaw error
}{
	{name: "plain", raw: "example.com", host: "example.com"},
	{name: "one label", raw: "localhost", host: "localhost"},
	{name: "upper case", raw: "WWW.Example.COM", host: "www.example.com"},
	{name: "port", raw: "example.com:8443", host: "example.com", port: 8443},
	{name: "trailing dot", raw: "example.com.", host: "example.com"},
	{name: "trailing dot and port", raw: "Example.com.:80", host: "example.com", port: 80},
	{name: "punycode", raw: "xn--bcher-kva.example", host: "xn--bcher-kva.example"},
	{name: "underscore", raw: "my_app.example", host: "my_app.example"},
	{name: "IPv4", raw: "192.0.2.1:80", host: "192.0.2.1", port: 80},
	{name: "IPv6", raw: "[2001:db8::1]", host: "[2001:db8::1]"},
	{name: "IPv6 and port", raw: "[::1]:8080", host: "[::1]", port: 8080},
	{name: "IPv6 long", raw: "[2001:0DB8:0:0:0:0:0:1]", host: "[2001:db8::1]"},
	{name: "longest label", raw: strings.Repeat("a", 63) + ".b", host: strings.Repeat("a", 63) + ".b"},
	{name: "longest name", raw: strings.Repeat("a.", 126) + "b", host: strings.Repeat("a.", 126) + "b"},
	{name: "longest name, trailing dot", raw: strings.Repeat("a.", 126) + "b.", host: strings.Repeat("a.", 126) + "b"},

	{name: "empty", raw: "", flaw: normalize.ErrHostEmpty},
	{name: "only a port", raw: ":80", flaw: normalize.ErrHostEmpty},
	{name: "only a dot", raw: ".", flaw: normalize.ErrHostLabel},
	{name: "leading dot", raw: ".example.com", flaw: normalize.ErrHostLabel},
	{name: "two dots", raw: "example..com", flaw: normalize.ErrHostLabel},
	{name: "two trailing dots", raw: "example.com..", flaw: normalize.ErrHostLabel},
	{name: "long label", raw: strings.Repeat("a", 64), flaw: normalize.ErrHostLabel},
	{name: "long name", raw: strings.Repeat("a.", 127) + "b", flaw: normalize.ErrHostLength},
	{name: "empty port", raw: "example.com:", flaw: normalize.ErrHostPort},
	{name: "port 0", raw: "example.com:0", flaw: normalize.ErrHostPort},
	{name: "port with zeros", raw: "example.com:080", flaw: normalize.ErrHostPort},
	{name: "port too large", raw: "example.com:65536", flaw: normalize.ErrHostPort},
	{name: "signed port", raw: "example.com:+80", flaw: normalize.ErrHostPort},
	{name: "two ports", raw: "example.com:80:81", flaw: normalize.ErrHostPort},
	{name: "user", raw: "user@example.com", flaw: normalize.ErrHostByte},
	{name: "space", raw: "example.com evil", flaw: normalize.ErrHostByte},
	{name: "two hosts", raw: "a.com,b.com", flaw: normalize.ErrHostByte},
	{name: "path", raw: "example.com/x", flaw: normalize.ErrHostByte},
	{name: "escape", raw: "ex%61mple.com", flaw: normalize.ErrHostByte},
	{name: "line break", raw: "a\r\nX: y", flaw: normalize.ErrHostByte},
	{name: "UTF-8", raw: "bücher.example", flaw: normalize.ErrHostByte},
	{name: "wildcard", raw: "*.example.com", flaw: normalize.ErrHostByte},
	{name: "IPv6 without brackets", raw: "::1", flaw: normalize.ErrHostPort},
	{name: "IPv6 open", raw: "[::1", flaw: normalize.ErrHostAddress},
	{name: "IPv6 zone", raw: "[fe80::1%25eth0]", flaw: normalize.ErrHostAddress},
	{name: "IPv6 and more", raw: "[::1]evil", flaw: normalize.ErrHostAddress},
	{name: "IPv4 in brackets", raw: "[127.0.0.1]", flaw: normalize.ErrHostAddress},
	{name: "name in brackets", raw: "[example.com]", flaw: normalize.ErrHostAddress},
	{name: "long in brackets", raw: "[" + strings.Repeat("0", 60) + "::1]", flaw: normalize.ErrHostAddress},
}

func TestHost(t *testing.T) {
	for _, test := range hostTests {
		t.Run(test.name, func(t *testing.T) {
			got, port, err := normalize.Host(nil, []byte(test.raw))
			if !errors.Is(err, test.flaw) {
				t.Fatalf("Host(%q): error %v, want %v", test.raw, err, test.flaw)
			}
			if string(got) != test.host || port != test.port {
				t.Errorf("Host(%q) = %q %d, want %q %d", test.raw, got, port, test.host, test.port)
			}
			checkHost(t, test.raw)
		})
	}
}
