package identity

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// Who a request comes from, through proxies.
func TestClientAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct {
		name, remote, want string
		forwarded          []string
	}{
		{"no proxy", "192.0.2.1:5", "192.0.2.1", nil},
		{"a stranger says something", "192.0.2.1:5", "192.0.2.1", []string{"198.51.100.1"}},
		{"a proxy", "10.0.0.1:5", "198.51.100.1", []string{"198.51.100.1"}},
		{"a proxy, and what the client wrote", "10.0.0.1:5", "198.51.100.1", []string{"1.1.1.1, 198.51.100.1"}},
		{"two proxies", "10.0.0.1:5", "198.51.100.1", []string{"1.1.1.1, 198.51.100.1, 10.0.0.2"}},
		{"in two lines", "10.0.0.1:5", "198.51.100.1", []string{"1.1.1.1", "198.51.100.1,10.0.0.2"}},
		{"with a port", "10.0.0.1:5", "198.51.100.1", []string{"198.51.100.1:77"}},
		{"IPv6", "[fd00::1]:5", "2001:db8::1", []string{"[2001:db8::1]:77"}},
		{"IPv6 in brackets", "[fd00::1]:5", "2001:db8::1", []string{"[2001:db8::1]"}},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:5", "198.51.100.1", []string{"::ffff:198.51.100.1"}},
		{"nonsense", "10.0.0.1:5", "10.0.0.1", []string{"198.51.100.1, unknown"}},
		{"nothing", "10.0.0.1:5", "10.0.0.1", []string{""}},
		{"only proxies", "10.0.0.1:5", "10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}},
		{"no address", "@", "@", nil},
	} {
		header := http.Header{"X-Forwarded-For": tt.forwarded}
		if got := clientAddress(tt.remote, header, trusted); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzClientAddress: what a stranger writes never changes their address.
func FuzzClientAddress(f *testing.F) {
	f.Add("198.51.100.1, 10.0.0.2", "unknown")
	f.Fuzz(func(t *testing.T, first, second string) {
		trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		header := http.Header{"X-Forwarded-For": {first, second}}
		if got := clientAddress("192.0.2.1:5", header, trusted); got != "192.0.2.1" {
			t.Errorf("a stranger became %s", got)
		}
		header["X-Forwarded-For"] = append(header["X-Forwarded-For"], "192.0.2.9")
		if got := clientAddress("10.0.0.1:5", header, trusted); got != "192.0.2.9" {
			t.Errorf("behind a proxy they became %s", got)
		}
	})
}

// FuzzParseKey: what is read as a key is written the same.
func FuzzParseKey(f *testing.F) {
	id, value := newKeyText()
	f.Add(keyText(id, value).Reveal())
	f.Add("slw__")
	f.Fuzz(func(t *testing.T, text string) {
		id, value, ok := parseKey(text)
		if ok && keyText(id, value).Reveal() != text {
			t.Errorf("%q is written as %q", text, keyText(id, value).Reveal())
		}
	})
}

// A sign-in returns to pages of the platform only.
func TestLocalPath(t *testing.T) {
	const first = "/console/"
	for text, want := range map[string]string{
		"": first, "/": first, "/console/settings?section=git#y": "/console/settings?section=git#y", "apps": first, "//evil.example": first,
		"/\\evil.example": first, "\\\\evil.example": first, "https://evil.example": first, "javascript:alert(1)": first,
		"/a\r\nSet-Cookie: x=y": first, "/\t/evil.example": first, "/" + strings.Repeat("a", 2000): first,
	} {
		if got := localPath(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzLocalPath: wherever it returns to is on the platform.
func FuzzLocalPath(f *testing.F) {
	f.Add("/apps")
	f.Add("//evil.example")
	f.Fuzz(func(t *testing.T, text string) {
		base, _ := url.Parse("https://slipway.example")
		to, err := base.Parse(localPath(text))
		if err != nil || to.Host != base.Host || to.Scheme != "https" {
			t.Errorf("%q leads to %v (%v)", text, to, err)
		}
	})
}
